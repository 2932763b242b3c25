"""What the environment says of a store, wrongly: an error before obstore panics, or no matter."""

import os

import pytest

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.stores import objects, remote
from image_pipeline.components.stores.variables import list_variables, read_profile, tidy_variables

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
