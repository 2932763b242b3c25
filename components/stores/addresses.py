"""The URIs of Amazon's and Azure's stores, in the forms that people's other tools take."""

import dataclasses
import re

# Hadoop's and Spark's names for the same buckets.
_S3 = re.compile(r"(s3a?)://([^/]+)")
_AZURE = (
    re.compile(r"(?P<root>az://(?P<container>[^/@]+))"),
    re.compile(r"(?P<root>abfss?://(?P<container>[^/@]+))(?=/|$)"),
    re.compile(
        r"(?P<root>(?:abfs|wasb)s?://(?P<container>[^/@]+)"
        r"@(?P<account>[^/.]+)\.(?:dfs|blob)\.[^/]+)"
    ),
    re.compile(
        r"(?P<root>https://(?P<account>[^/.]+)\.(?:dfs|blob)\.core\.[^/]+/(?P<container>[^/]+))"
    ),
)


@dataclasses.dataclass(frozen=True)
class Address:
    """Where a bucket, or a container, is.

    Attributes:
      kind: "s3" or "az".
      root: what all its files' URIs begin with, which ends with a slash.
      bucket: its name.
      account: Azure's, if the URI names it; None for the environment's.
    """

    kind: str
    root: str
    bucket: str
    account: str | None = None


def find_address(uri: str) -> Address | None:
    """The bucket that a URI is in; None for other stores' URIs."""
    if found := _S3.match(uri):
        return Address("s3", f"{found[0]}/", found[2])
    for form in _AZURE:
        if found := form.match(uri):
            parts = found.groupdict()
            return Address("az", f"{parts['root']}/", parts["container"], parts.get("account"))
    return None
