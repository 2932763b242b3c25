import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.stores.variables import read_profile

pytestmark = pytest.mark.unit

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
