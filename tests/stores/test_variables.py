"""What the environment says of a store, wrongly: an error before obstore panics, or no matter."""

import os

import pytest

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.stores import objects, remote
from image_pipeline.components.stores.variables import list_variables, tidy_variables

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
    with pytest.raises(UserError, match="nobody answers at its store's address"):
        files.read_file(uri)


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_panic_is_an_error_that_names_address_and_variables(environment, is_listed):
    environment(KEYS | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"})
    read = remote.check_answers if is_listed else files.read_file
    with pytest.raises(UserError) as caught:
        read("s3://a bucket/a")
    assert str(caught.value) == (
        "s3://a bucket/a: no request can be made of this address and the environment (request "
        "valid: InvalidUri(InvalidUri(InvalidUriChar))); check the bucket's name, and the values "
        "of AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, AWS_REGION, AWS_SECRET_ACCESS_KEY."
    )


def test_a_panic_while_a_client_is_made_is_one_too(environment):
    environment(ACCOUNT | {"AZURE_ENDPOINT": "http://127.0.0.1:port"})
    with pytest.raises(UserError, match=r"^az://bucket/"):
        files.read_file("az://bucket/a")
