"""Whether images can be read as a view asks for them: their type, and their channels."""

from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.found_columns import Manifests
from image_pipeline.components.views.options import ViewOptions


def check_pixels(manifests: Manifests, view: ViewOptions) -> None:
    """Checks what manifests say of images; those of other shards are checked when they are read.

    Raises:
      UserError: if the view asks for another type, or for channels that there are not.
    """
    for root, manifest in manifests.items():
        check_data_set(manifest, view, root)


def check_data_set(manifest: Manifest, view: ViewOptions, root: str) -> None:
    """Checks one data set, as `check_pixels` does."""
    check_type(manifest.dtype, view, root)
    stored, asked = manifest.channels, view.channels
    if stored is None and asked not in (1, 3):
        raise UserError(
            f"the images of {root!r} are gray or RGB, but view.channels={asked}; set it to 1 or 3, "
            "or ingest with ingest.prepare.channels."
        )
    if stored not in (None, asked):
        raise UserError(
            f"the images of {root!r} have {stored} channels, but view.channels={asked}; set "
            f"view.channels={stored}."
        )


def check_type(stored: str, view: ViewOptions, named: str) -> None:
    """Raises UserError if values of this type are not read as the view asks for."""
    wanted = "uint8" if stored == "uint8" else "float32"
    if view.dtype != wanted:
        raise UserError(
            f"the images of {named!r} are stored as {stored}, which is read as {wanted}, but "
            f"view.dtype={view.dtype}; set view.dtype={wanted}."
        )
