"""The environment's variables that name a store and its credentials, before obstore reads them.

They often come from files and secrets, with a newline at the end; or they are set to nothing. For
Amazon, `~/.aws` counts, too; for Azure, what its own tools take from the environment.
"""

import configparser
import contextlib
import os
import re
import socket

from image_pipeline.components.errors import UserError
from image_pipeline.components.stores.refusals import no_credentials

_PREFIXES = {"s3": "AWS_", "az": "AZURE_"}
_ADDRESSES = {
    "s3": ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
    "az": ("AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT"),
}
_ADDRESS = re.compile(r"(?i)https?://[^\s/:]\S*")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
# With one of these nobody looks for keys in a profile.
_OWN_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_SKIP_SIGNATURE")
# Other ways to credentials than keys, by the beginnings of their variables' names.
_OTHER_WAYS = {
    "s3": ("AWS_CONTAINER_", "AWS_METADATA_ENDPOINT"),
    "az": (
        *("AZURE_CLIENT_", "AZURE_STORAGE_CLIENT_", "AZURE_FEDERATED_", "AZURE_IDENTITY_"),
        *("AZURE_MSI_", "AZURE_STORAGE_SAS_", "AZURE_STORAGE_TOKEN", "AZURE_SKIP_", "AZURE_USE_"),
        *("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY"),
    ),
}
_KEYS = {"s3": ("access_key_id",), "az": ("account_key", "sas_key")}
# Where a machine of Amazon's or Azure's asks for its own credentials.
_MACHINE_S_ADDRESS, _MACHINE_TIMEOUT_S = ("169.254.169.254", 80), 2


def read_settings(kind: str, root: str) -> dict[str, str]:
    """Settings of a kind of store besides those that obstore reads from the environment.

    Args:
      kind: "s3" or "az".
      root: the bucket's URI, for messages.

    Returns:
      Values by obstore's names.

    Raises:
      UserError: if a variable's value cannot be one, or there are no credentials.
    """
    tidy_variables(kind)
    if kind == "s3":
        found = read_profile(needs_keys=not any(name in os.environ for name in _OWN_KEYS))
        for ours, theirs in (("region", _REGIONS), ("endpoint", _ADDRESSES["s3"])):
            if any(name in os.environ for name in theirs):
                found.pop(ours, None)
    else:
        found = read_azure()
    is_given = any(name in found for name in _KEYS[kind])
    ways = (*(_OWN_KEYS if kind == "s3" else ()), *_OTHER_WAYS[kind])
    if not is_given and not any(name.startswith(ways) for name in os.environ):
        # Has this machine credentials of its own? obstore would try for minutes.
        with contextlib.suppress(OSError):
            socket.create_connection(_MACHINE_S_ADDRESS, _MACHINE_TIMEOUT_S).close()
            return found
        raise no_credentials(root, kind)
    return found


def tidy_variables(kind: str) -> None:
    """Strips the variables of a kind of store, and unsets those that are empty.

    Raises:
      UserError: if one that holds an address does not.
    """
    for name in list_variables(kind):
        value = os.environ[name].strip()
        if not value:
            del os.environ[name]
        elif value != os.environ[name]:
            os.environ[name] = value
    for name in _ADDRESSES[kind]:
        if name in os.environ and not _ADDRESS.fullmatch(os.environ[name]):
            raise UserError(
                f"{name} must be a URL with http:// or https:// and a host, not "
                f"{os.environ[name]!r}; set it to the store's, like http://localhost:9000."
            )


def is_amazon(settings: dict[str, str]) -> bool:
    """Tells whether no other S3 than Amazon's own is named, by the environment or the profile."""
    named = [settings.get("endpoint"), *map(os.environ.get, _ADDRESSES["s3"])]
    return all(".amazonaws." in address for address in named if address)


def list_variables(kind: str) -> list[str]:
    """The names of those that are set."""
    return sorted(name for name in os.environ if name.startswith(_PREFIXES[kind]))


# By what the files in `~/.aws` call them, and what obstore does.
_PROFILE_KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}
_PLACE = {"region": "region", "endpoint_url": "endpoint"}


def read_profile(needs_keys: bool) -> dict[str, str]:
    """What the profile `AWS_PROFILE`, or the one called default, says; by obstore's names.

    Args:
      needs_keys: whether its keys are used; else its region and address only.

    Raises:
      UserError: if there is no such profile, a file cannot be read, or the profile has no keys.
    """
    asked = os.environ.get("AWS_PROFILE")
    name = asked or "default"
    keys = _read_section("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", name)
    section = name if name == "default" else f"profile {name}"
    config = _read_section("AWS_CONFIG_FILE", "~/.aws/config", section)
    if asked and keys is None and config is None:
        raise UserError(
            f"AWS_PROFILE must name a profile in ~/.aws/credentials or ~/.aws/config, but {name!r} "
            "is in neither; correct it, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    settings = {**(config or {}), **(keys or {})}
    if asked and needs_keys and "aws_access_key_id" not in settings:
        raise UserError(
            f"The profile {name!r} must have aws_access_key_id, but gets its keys in another way "
            "(a role, SSO or a process); fetch them into the environment: "
            f'eval "$(aws configure export-credentials --profile {name} --format env)".'
        )
    wanted = _PLACE | (_PROFILE_KEYS if needs_keys else {})
    return {ours: settings[theirs] for theirs, ours in wanted.items() if settings.get(theirs)}


def _read_section(variable: str, default: str, section: str) -> dict[str, str] | None:
    path = os.path.expanduser(os.environ.get(variable) or default)
    parser = configparser.RawConfigParser(default_section="", strict=False)
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"{path} cannot be read: {reason}; correct it, or name another by {variable}."
        ) from error
    return dict(parser[section]) if parser.has_section(section) else None


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
