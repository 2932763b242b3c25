"""The environment's variables that name a store and its credentials, before obstore reads them.

They often come from files and secrets, with a newline at the end; or they are set to nothing.
"""

import contextlib
import os
import re
import socket

from image_pipeline.components.errors import UserError
from image_pipeline.components.stores.aws_profile import read_profile
from image_pipeline.components.stores.azure_variables import read_azure
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
    found = _read_profile() if kind == "s3" else read_azure()
    is_given = any(name in found for name in _KEYS[kind])
    ways = (*(_OWN_KEYS if kind == "s3" else ()), *_OTHER_WAYS[kind])
    if not is_given and not any(name.startswith(ways) for name in os.environ):
        _check_machine(kind, root)
    return found


def _read_profile() -> dict[str, str]:
    found = read_profile(needs_keys=not any(name in os.environ for name in _OWN_KEYS))
    for ours, theirs in (("region", _REGIONS), ("endpoint", _ADDRESSES["s3"])):
        if any(name in os.environ for name in theirs):
            found.pop(ours, None)
    return found


def _check_machine(kind: str, root: str) -> None:
    """Makes sure that this machine has credentials of its own: obstore would try for minutes."""
    with (
        contextlib.suppress(OSError),
        socket.create_connection(_MACHINE_S_ADDRESS, _MACHINE_TIMEOUT_S),
    ):
        return
    raise no_credentials(root, kind)


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
