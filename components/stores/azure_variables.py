"""Azure's account, key and address as its own tools take them from the environment."""

import os

from image_pipeline.components.errors import UserError

# By obstore's names: those that `az` reads, and obstore does not.
_VARIABLES = {"account_name": "AZURE_STORAGE_ACCOUNT", "account_key": "AZURE_STORAGE_KEY"}
_CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"
_PARTS = {
    "AccountName": "account_name",
    "AccountKey": "account_key",
    "SharedAccessSignature": "sas_key",
    "BlobEndpoint": "endpoint",
}
# Azurite's, the same everywhere: learn.microsoft.com/azure/storage/common/storage-use-azurite
_DEVELOPMENT = {
    "account_name": "devstoreaccount1",
    "account_key": (
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    ),
    "endpoint": "http://127.0.0.1:10000/devstoreaccount1",
}


def read_azure() -> dict[str, str]:
    """What the environment says beside the variables that obstore reads; by obstore's names.

    Raises:
      UserError: if a connection string is invalid.
    """
    found = {name: os.environ[key] for name, key in _VARIABLES.items() if key in os.environ}
    return found | _read_connection(os.environ.get(_CONNECTION, ""))


def _read_connection(text: str) -> dict[str, str]:
    if not text:
        return {}
    pairs = [part.partition("=") for part in text.strip(";").split(";")]
    settings = {key.strip(): value.strip() for key, _, value in pairs}
    if settings.get("UseDevelopmentStorage") == "true":
        return dict(_DEVELOPMENT)
    found = {ours: settings[theirs] for theirs, ours in _PARTS.items() if settings.get(theirs)}
    if "account_name" not in found and "endpoint" not in found:
        raise UserError(
            f"{_CONNECTION} must have AccountName=… or BlobEndpoint=… among its parts, got only "
            f"{', '.join(settings)}; copy the whole line from the portal's access keys."
        )
    if "endpoint" not in found:
        protocol = settings.get("DefaultEndpointsProtocol", "https")
        suffix = settings.get("EndpointSuffix", "core.windows.net")
        found["endpoint"] = f"{protocol}://{found['account_name']}.blob.{suffix}"
    if "account_name" not in found:  # A connection string with a SAS token has none.
        found["account_name"] = found["endpoint"].partition("://")[2].partition(".")[0]
    return found
