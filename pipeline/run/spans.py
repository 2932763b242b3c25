"""Which spans' images a run reads: its own span, and earlier ones in its window."""

import collections
import dataclasses
from typing import Literal

from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.listing import (
    Listing,
    check_listing,
    list_images,
    offer,
)
from image_pipeline.components.sources.span_pattern import (
    LATEST,
    SpanFolder,
    has_span,
    list_spans,
    pick_span,
)


@dataclasses.dataclass(frozen=True)
class ImageSource:
    """The images of a run.

    Attributes:
      folders: the folders that hold them, the newest last; one without a number if there are no
        spans.
      span: the newest folder's; None if there are no spans.
    """

    folders: tuple[SpanFolder, ...]
    span: int | None


def find_images(images_dir: str, span: str | None, window: int | Literal["all"]) -> ImageSource:
    """Finds the folders of images.

    Args:
      images_dir: a folder, or a pattern of spans' folders.
      span: the number or date of a span; None for the latest.
      window: how many spans are used together, at most.

    Raises:
      UserError: if there is no such span, or if spans are asked for without a pattern.
    """
    if not has_span(images_dir):
        asked = f"--span {span}" if span else f"spans.window={window}" if window != 1 else None
        if asked:
            raise UserError(
                f"{asked} needs spans, but --images {images_dir!r} is one folder; give a pattern "
                "such as photos/day-{SPAN} or photos/{YYYY}-{MM}-{DD}."
            )
        return ImageSource((SpanFolder(0, None, images_dir),), None)
    folders = list_spans(images_dir)
    newest = pick_span(folders, images_dir, span or LATEST).span
    upto = [folder for folder in folders if folder.span <= newest]
    return ImageSource(tuple(upto if window == "all" else upto[-window:]), newest)


def survey_source(source: ImageSource, newest: Listing) -> tuple[Listing, dict[int, str]]:
    """Lists the other folders, and offers all listings to whoever ingests them.

    Args:
      source: the folders.
      newest: what the last of them holds; the others are read with its options.

    Returns:
      What they hold together: the newest one's listing with the counts of all; and the numbers and
      fingerprints of the others.

    Raises:
      UserError: if a folder is missing or empty.
    """
    found, outside, classes = 0, 0, collections.Counter[str]()
    fingerprints: dict[int, str] = {}
    for folder in source.folders:  # One by one: each listing has files open.
        is_newest = folder is source.folders[-1]
        listing = check_listing(newest if is_newest else list_images(folder.path, newest.options))
        offer(listing, newest.options)
        found, outside = found + listing.found, outside + listing.outside
        classes.update(listing.classes)
        fingerprints |= {} if is_newest else {folder.span: listing.fingerprint}
    counts = dict(sorted(classes.items()))
    together = dataclasses.replace(newest, found=found, outside=outside, classes=counts)
    return together, fingerprints
