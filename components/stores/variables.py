"""The environment's variables that name a store and its credentials, before obstore reads them.

They often come from files and secrets, with a newline at the end; or they are set to nothing.
"""

import os
import re

from image_pipeline.components.errors import UserError

_PREFIXES = {"s3": "AWS_", "az": "AZURE_"}
_ADDRESSES = {
    "s3": ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
    "az": ("AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT"),
}
_ADDRESS = re.compile(r"(?i)https?://[^\s/:]\S*")


def tidy_variables(scheme: str) -> None:
    """Strips the variables of a kind of store, and unsets those that are empty.

    Raises:
      UserError: if one that holds an address does not.
    """
    for name in list_variables(scheme):
        value = os.environ[name].strip()
        if not value:
            del os.environ[name]
        elif value != os.environ[name]:
            os.environ[name] = value
    for name in _ADDRESSES[scheme]:
        if name in os.environ and not _ADDRESS.fullmatch(os.environ[name]):
            raise UserError(
                f"{name} must be a URL with http:// or https:// and a host, not "
                f"{os.environ[name]!r}; set it to the store's, like http://localhost:9000."
            )


def list_variables(scheme: str) -> list[str]:
    """The names of those that are set."""
    return sorted(name for name in os.environ if name.startswith(_PREFIXES[scheme]))
