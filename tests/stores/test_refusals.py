import pytest

from image_pipeline.components.stores.refusals import explain_refusal, is_passing

pytestmark = pytest.mark.unit

KEYS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "az": "AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY",
}
BUSY = "Server error, status code: 503"
REFUSED = "Error performing GET http://127.0.0.1:1/: tcp connect error"


def _code(code, rest=""):
    return f"status code: 403 Forbidden: <Error><Code>{code}</Code>{rest}</Error>"


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        (
            "s3",
            _code("InvalidAccessKeyId"),
            f"does not accept the key (InvalidAccessKeyId); correct {KEYS['s3']}.",
        ),
        (
            "az",
            _code("AuthenticationFailed"),
            f"does not accept the key (AuthenticationFailed); correct {KEYS['az']}.",
        ),
        (
            "s3",
            _code("AccessDenied"),
            "does not allow this with these credentials (AccessDenied); grant it, or use others: "
            f"{KEYS['s3']}.",
        ),
    ],
)
def test_a_key_that_is_refused_is_named(kind, error, message):
    assert str(explain_refusal("x://b/a", kind, error)) == f"x://b/a: its store {message}"


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("s3", "Generic S3 error: Missing AccessKeyId"),
        ("s3", "Generic S3 error: Missing SecretAccessKey"),
        ("az", "Generic MicrosoftAzure error: Account must be specified"),
    ],
)
def test_half_of_the_credentials_is_not_enough(kind, error):
    message = f"x://b/a: incomplete credentials. Set both {KEYS[kind]}."
    assert str(explain_refusal("x://b/a", kind, error)) == message


def test_a_key_that_azure_cannot_have_given_is_said():
    error = "Generic MicrosoftAzure error: Invalid Access Key: Invalid padding"
    message = f"az://b/a: its key is not in base64, as keys of Azure are; correct {KEYS['az']}."
    assert str(explain_refusal("az://b/a", "az", error)) == message


def test_what_expired_is_fetched_anew():
    for error in (_code("ExpiredToken"), _code("AuthenticationFailed", "Signature expired")):
        message = str(explain_refusal("s3://b/a", "s3", error))
        assert message.startswith("s3://b/a: its credentials have expired (")


@pytest.mark.parametrize(
    ("error", "region"),
    [
        (_code("AuthorizationHeaderMalformed", "the region is wrong; expecting 'eu-1'"), "eu-1"),
        ("Received redirect without LOCATION, this normally indicates", "the bucket's"),
    ],
)
def test_another_region_is_said(error, region):
    message = f"s3://b/a: the bucket is in another region; set AWS_REGION to {region}."
    assert str(explain_refusal("s3://b/a", "s3", error)) == message


def test_a_machine_without_credentials_of_its_own_says_how_to_give_some():
    error = "Error performing PUT http://169.254.169.254/latest/api/token: 403 Forbidden"
    for kind, name in (("s3", "AWS_PROFILE"), ("az", "AZURE_STORAGE_CONNECTION_STRING")):
        message = str(explain_refusal("x://b/a", kind, error))
        assert message.startswith("x://b/a: there are no credentials for it in the environment, ")
        assert name in message


def test_other_errors_are_left_as_they_are():
    assert explain_refusal("s3://b/a", "s3", BUSY) is None


@pytest.mark.parametrize(
    ("error", "has_answered", "may_pass"),
    [
        (BUSY, False, True),
        (_code("AccessDenied"), True, False),
        (REFUSED, False, False),
        (REFUSED, True, True),
    ],
)
def test_what_may_pass_is_tried_again(error, has_answered, may_pass):
    assert is_passing(error, has_answered) == may_pass
