"""What the environment says of a store, wrongly: an error before obstore panics, or no matter."""

import os

import pytest

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.stores import objects, remote
from image_pipeline.components.stores.refusals import explain_refusal, is_passing
from image_pipeline.components.stores.variables import (
    list_variables,
    read_azure,
    read_profile,
    tidy_variables,
)

pytestmark = pytest.mark.unit

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "here"}
ACCOUNT = {"AZURE_STORAGE_ACCOUNT_NAME": "someone", "AZURE_STORAGE_ACCOUNT_KEY": "a2V5"}


@pytest.fixture
def environment(monkeypatch):
    """Sets variables in place of all that name a store."""
    for name in [*list_variables("s3"), *list_variables("az")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(objects, "_WAITS_S", ())
    remote.forget_stores()

    def set_all(variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    yield set_all
    remote.forget_stores()


@pytest.mark.parametrize(
    ("uri", "name", "value"),
    [
        ("s3://bucket/a", "AWS_ENDPOINT_URL", "localhost:9000"),
        ("s3://bucket/a", "AWS_ENDPOINT", "minio"),
        ("s3://bucket/a", "AWS_ENDPOINT_URL_S3", "http://"),
        ("s3://bucket/a", "AWS_ENDPOINT_URL", "http://a b"),
        ("az://bucket/a", "AZURE_ENDPOINT", "localhost:10000"),
        ("az://bucket/a", "AZURE_STORAGE_ENDPOINT", "//localhost"),
    ],
)
def test_an_address_has_a_scheme_and_a_host(environment, uri, name, value):
    environment(KEYS | ACCOUNT | {name: value})
    with pytest.raises(UserError) as caught:
        files.read_file(uri)
    assert str(caught.value) == (
        f"{name} must be a URL with http:// or https:// and a host, not {value!r}; set it to the "
        "store's, like http://localhost:9000."
    )


def test_what_is_empty_is_not_set_and_the_rest_is_stripped(environment):
    environment({"AWS_ENDPOINT_URL": "", "AWS_SESSION_TOKEN": "\n", "AWS_REGION": "here"})
    environment({"AWS_ENDPOINT": "http://[::1]:9000\n", "AZURE_STORAGE_ACCOUNT_KEY": "a2V5\n"})
    tidy_variables("s3")
    names = ["AWS_ENDPOINT", "AWS_REGION"]
    assert list_variables("s3") == names
    assert [os.environ[name] for name in names] == ["http://[::1]:9000", "here"]
    assert os.environ["AZURE_STORAGE_ACCOUNT_KEY"] == "a2V5\n"
    tidy_variables("az")
    assert os.environ["AZURE_STORAGE_ACCOUNT_KEY"] == "a2V5"


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("s3://bucket/a", "AWS_ACCESS_KEY_ID"),
        ("az://bucket/a", "AZURE_STORAGE_ACCOUNT_NAME"),
        ("az://bucket/a", "AZURE_STORAGE_ACCOUNT_KEY"),
    ],
)
def test_a_newline_after_a_key_is_no_part_of_it(environment, monkeypatch, uri, name):
    nobody = "http://127.0.0.1:1"
    variables = KEYS | ACCOUNT | {"AWS_ENDPOINT_URL": nobody, "AZURE_ENDPOINT": nobody}
    environment(variables | {name: f"{variables[name]}\n"})
    monkeypatch.setattr(objects, "_RETRIES", {"max_retries": 0})
    with pytest.raises(UserError, match="its store does not answer at its address"):
        files.read_file(uri)


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_panic_is_an_error_that_names_address_and_variables(environment, is_listed):
    environment(KEYS | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"})
    read = remote.check_answers if is_listed else files.read_file
    with pytest.raises(UserError) as caught:
        read("s3://a bucket/a")
    assert str(caught.value) == (
        "s3://a bucket/a: no request can be made with this address and environment (request "
        "valid: InvalidUri(InvalidUri(InvalidUriChar))); check the bucket's name, and the values "
        "of AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, AWS_REGION, AWS_SECRET_ACCESS_KEY."
    )


def test_a_panic_while_a_client_is_made_is_one_too(environment):
    environment(ACCOUNT | {"AZURE_ENDPOINT": "http://127.0.0.1:port"})
    with pytest.raises(UserError, match=r"^az://bucket/"):
        files.read_file("az://bucket/a")


CREDENTIALS = """
[default]
aws_access_key_id = mine
aws_secret_access_key = 50%secret
[work]
aws_access_key_id = works
aws_secret_access_key = hidden
aws_session_token = short
"""
CONFIG = """
[default]
region = here
[profile work]
region = there
endpoint_url = http://minio:9000
s3 =
  addressing_style = path
[profile sso]
sso_session = us
region = far
"""
WORKS = {
    "access_key_id": "works",
    "secret_access_key": "hidden",
    "session_token": "short",
    "region": "there",
    "endpoint": "http://minio:9000",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    (tmp_path / "credentials").write_text(CREDENTIALS)
    (tmp_path / "config").write_text(CONFIG)
    return tmp_path


def test_the_default_profile_is_read(folder):
    keys = {"access_key_id": "mine", "secret_access_key": "50%secret"}
    assert read_profile(True) == {**keys, "region": "here"}
    assert read_profile(False) == {"region": "here"}


def test_the_environment_names_another(folder, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert read_profile(True) == WORKS


def test_no_files_are_no_profile(folder):
    for name in ("credentials", "config"):
        (folder / name).unlink()
    assert read_profile(True) == {}


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ("none", "AWS_PROFILE must name a profile in .* but 'none' is in neither; correct it"),
        ("sso", "The profile 'sso' must have .* export-credentials --profile sso --format env"),
    ],
)
def test_a_profile_without_keys_says_where_to_get_some(folder, monkeypatch, profile, message):
    monkeypatch.setenv("AWS_PROFILE", profile)
    with pytest.raises(UserError, match=message):
        read_profile(True)


def test_keys_of_the_environment_s_own_need_no_profile_s(folder, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "sso")
    assert read_profile(False) == {"region": "far"}


def test_a_file_that_cannot_be_read_is_named(folder):
    (folder / "config").write_text("region = here")
    with pytest.raises(UserError, match=r"config cannot be read: .* name another by AWS_CONFIG"):
        read_profile(True)


NAMES = ("ACCOUNT", "KEY", "CONNECTION_STRING")


@pytest.fixture
def azure(monkeypatch):
    """Sets variables in place of all that are read."""

    def set_all(**values):
        for name in NAMES:
            monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)
        for name, value in values.items():
            monkeypatch.setenv(f"AZURE_STORAGE_{name}", value)

    set_all()
    return set_all


def test_nothing_is_said_of_an_empty_environment(azure):
    assert read_azure() == {}


def test_the_names_of_azure_s_own_tools_are_read(azure):
    azure(ACCOUNT="someone", KEY="a2V5")
    assert read_azure() == {"account_name": "someone", "account_key": "a2V5"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=a2V5==;"
            "EndpointSuffix=core.windows.net",
            {
                "account_name": "a",
                "account_key": "a2V5==",
                "endpoint": "https://a.blob.core.windows.net",
            },
        ),
        (
            "AccountName=a;AccountKey=k;BlobEndpoint=http://127.0.0.1:10000/a;",
            {"account_name": "a", "account_key": "k", "endpoint": "http://127.0.0.1:10000/a"},
        ),
        (
            "BlobEndpoint=https://a.blob.core.windows.net;SharedAccessSignature=sv=1&sig=x",
            {
                "account_name": "a",
                "sas_key": "sv=1&sig=x",
                "endpoint": "https://a.blob.core.windows.net",
            },
        ),
    ],
)
def test_a_connection_string_is_read(azure, text, found):
    azure(ACCOUNT="another", CONNECTION_STRING=text)
    assert read_azure() == found


def test_azurite_is_called_by_its_short_name(azure):
    azure(CONNECTION_STRING="UseDevelopmentStorage=true")
    found = read_azure()
    assert found["account_name"] == "devstoreaccount1"
    assert found["endpoint"] == "http://127.0.0.1:10000/devstoreaccount1"


def test_what_is_no_connection_string_is_refused(azure):
    azure(CONNECTION_STRING="https://a.blob.core.windows.net")
    with pytest.raises(UserError, match=r"must have AccountName=… or BlobEndpoint=… .* got only"):
        read_azure()


WAYS = {
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
            f"does not accept the key (InvalidAccessKeyId); correct {WAYS['s3']}.",
        ),
        (
            "az",
            _code("AuthenticationFailed"),
            f"does not accept the key (AuthenticationFailed); correct {WAYS['az']}.",
        ),
        (
            "s3",
            _code("AccessDenied"),
            "does not allow this with these credentials (AccessDenied); grant it, or use others: "
            f"{WAYS['s3']}.",
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
    message = f"x://b/a: incomplete credentials. Set both {WAYS[kind]}."
    assert str(explain_refusal("x://b/a", kind, error)) == message


def test_a_key_that_azure_cannot_have_given_is_said():
    error = "Generic MicrosoftAzure error: Invalid Access Key: Invalid padding"
    message = f"az://b/a: its key is not in base64, as keys of Azure are; correct {WAYS['az']}."
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
