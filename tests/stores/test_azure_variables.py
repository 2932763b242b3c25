import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.stores.variables import read_azure

pytestmark = pytest.mark.unit

NAMES = ("ACCOUNT", "KEY", "CONNECTION_STRING")


@pytest.fixture
def environment(monkeypatch):
    """Sets variables in place of all that are read."""

    def set_all(**values):
        for name in NAMES:
            monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)
        for name, value in values.items():
            monkeypatch.setenv(f"AZURE_STORAGE_{name}", value)

    set_all()
    return set_all


def test_nothing_is_said_of_an_empty_environment(environment):
    assert read_azure() == {}


def test_the_names_of_azure_s_own_tools_are_read(environment):
    environment(ACCOUNT="someone", KEY="a2V5")
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
def test_a_connection_string_is_read(environment, text, found):
    environment(ACCOUNT="another", CONNECTION_STRING=text)
    assert read_azure() == found


def test_azurite_is_called_by_its_short_name(environment):
    environment(CONNECTION_STRING="UseDevelopmentStorage=true")
    found = read_azure()
    assert found["account_name"] == "devstoreaccount1"
    assert found["endpoint"] == "http://127.0.0.1:10000/devstoreaccount1"


def test_what_is_no_connection_string_is_refused(environment):
    environment(CONNECTION_STRING="https://a.blob.core.windows.net")
    with pytest.raises(UserError, match=r"must have AccountName=… or BlobEndpoint=… .* got only"):
        read_azure()
