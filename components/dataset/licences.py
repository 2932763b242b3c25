"""Whose images these are: a table's columns of licence and attribution, by what they are called."""

from collections.abc import Sequence

from image_pipeline.components.dataset.index_file import index_name
from image_pipeline.components.dataset.record import Column

# What people call them; the first that a data set has says the licence.
_LICENCE = (
    *("license", "licence", "license_name", "licence_name", "license_id", "licence_id"),
    *("rights", "usage_rights", "license_url", "licence_url", "copyright"),
)
_ATTRIBUTION = (
    *("source", "source_url", "origin", "url", "image_url", "original_url", "flickr_url", "link"),
    *("author", "artist", "creator", "photographer", "owner", "credit", "credits", "attribution"),
)
USUAL = "license, licence or rights"


def find_licence(further: Sequence[Column]) -> str | None:
    """What the index calls the column of licences; None if there is none that is text."""
    return next(iter(_find(further, _LICENCE)), None)


def find_attribution(further: Sequence[Column]) -> list[str]:
    """What the index calls the columns that say where images are from, and who made them."""
    return _find(further, _ATTRIBUTION)


def _find(further: Sequence[Column], usual: Sequence[str]) -> list[str]:
    texts = [index_name(each) for each in further if each.dtype == "bytes" and not each.is_list]
    # The index has a `source` of its own, so that of a table is `table_source`.
    found = {name.lower().removeprefix("table_"): name for name in texts}
    return [found[name] for name in usual if name in found]
