"""What can be checked in a second, before TensorFlow and TFX are even imported."""

import os
import tempfile
from collections.abc import Sequence

from image_pipeline.components import files
from image_pipeline.components.dataset.other_records import explain_version_name
from image_pipeline.components.dataset.paths import FORGET
from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.kinds import CLASSES, VALUES
from image_pipeline.components.meaning.complete_options import check_splits
from image_pipeline.components.meaning.listing import Listing, check_listing, list_images
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.run.engine import make_paths_absolute


def survey_images(images_dir: str, options: IngestOptions) -> Listing:
    """Lists what is given as images, and checks that there is something to ingest.

    Raises:
      UserError: if the folder is missing or empty, or holds masks, or no row can be used.
    """
    return check_listing(list_images(images_dir, options))


def check_ingest(
    images_dir: str, output_dir: str, options: IngestOptions, beam_args: Sequence[str]
) -> Listing:
    """Checks the images and the output folder before Beam is imported.

    Returns:
      The images, and the options with what a table says of its columns.

    Raises:
      UserError: if ingest cannot use them.
    """
    (images_dir,) = make_paths_absolute(beam_args, images_dir)
    files.check_text(images_dir, "--images")
    files.check_text(output_dir, "--output")
    listing = survey_images(images_dir, options)
    check_splits(images_dir, listing.options)
    check_labels(listing)
    check_output(output_dir, images_dir)
    if files.is_local(output_dir) and files.exists(files.join(output_dir, FORGET)):
        sentence = f"pictures of it are still to be forgotten: image-pipeline forget {output_dir}"
        listing.noticed += (sentence,)
    return listing


def check_labels(listing: Listing) -> None:
    """Checks that some path names a class; otherwise every file would be read and quarantined.

    Raises:
      UserError: if none does, and labels are required.
    """
    images_dir, options = listing.images, listing.options
    if options.label_kind is VALUES or not listing.kind.lists_images:
        return
    if not listing.classes and "label" in options.columns:
        raise UserError(
            f"The column {options.columns['label']!r} of {images_dir!r} is empty in all rows; name "
            "another by ingest.columns={label: …}, or leave it out by ingest.columns={label: null}."
        )
    if options.path_label_pattern is not None and not listing.classes:
        raise UserError(
            f"{_explain_links(listing)}None of {listing.found:,} files in {images_dir!r} names a "
            f"class by ingest.label_pattern={options.label_pattern!r}, by default from folders: "
            f"<images>/<class>/<file>; {_suggest_parent(images_dir)}correct the pattern, or, for "
            "images without labels, give --set ingest.label_pattern=null."
        )


def _explain_links(listing: Listing) -> str:
    """A possible reason why no class is named: a folder of links to class folders elsewhere."""
    if not listing.outside:
        return ""
    return (
        f"{listing.outside:,} links lead out of the folder and are not followed; --follow-links "
        "(ingest.follow_links=true) follows them. "
    )


def _suggest_parent(images_dir: str) -> str:
    """A hint if one class's folder was named instead of the folder of all classes."""
    if not os.path.isdir(images_dir):
        return ""
    parent, name = os.path.split(os.path.abspath(images_dir))
    try:
        with os.scandir(parent) as entries:
            folders = sum(each.is_dir() and not each.name.startswith(".") for each in entries)
    except OSError:  # It may be accessible, but not listable.
        return ""
    if folders < 2:
        return ""
    return f"if {name!r} is one of several classes, give --images {parent!r}; or "


def check_classes(listing: Listing, images_dir: str) -> None:
    """Checks that there are two classes, as a classifier needs.

    Args:
      listing: what there is, perhaps of several spans.
      images_dir: what is given as images, perhaps a pattern of spans.

    Raises:
      UserError: if there are fewer.
    """
    options = listing.options
    if options.label_kind is not CLASSES:
        return
    if not listing.kind.lists_images:
        if options.columns.get("label") is None and options.path_label_pattern is None:
            raise UserError(
                f"The items of {images_dir} have no label, but training needs at least two "
                "classes; yield (image, label), or a dict with a label."
            )
    elif len(listing.classes) < 2:
        classes = list(filter(None, listing.classes))
        named = f"only the class {classes[0]!r}" if classes else "no class"
        if listing.kind.has_rows:
            raise UserError(
                f"{listing.found} rows of {images_dir!r} name {named}, but training needs at least "
                "two; name the column or array of labels by ingest.columns={label: …}."
            )
        raise UserError(
            f"{_explain_links(listing)}{listing.found} files in {images_dir!r} name {named}, but "
            "training needs at least two; classes are read by "
            f"ingest.label_pattern={options.label_pattern!r}, by default from folders: "
            "<images>/<class>/<file>."
        )


def check_output(output_dir: str, images_dir: str) -> None:
    """Checks that the output folder is writable, not inside the images folder, and no version.

    On an object store only the bucket is checked.

    Raises:
      UserError: if it is not.
    """
    files.check_answers(output_dir)
    if "@" in output_dir and explain_version_name(output_dir):
        root = output_dir.rpartition("@")[0]
        raise UserError(
            f"A new output folder must not be called like a version of the data set {root!r}, "
            f"which no command could then name, got {output_dir!r}; choose another --output, or "
            f"give {root!r} to bring that data set up to date."
        )
    if not (files.is_local(output_dir) and files.is_local(images_dir)):
        return
    inside = os.path.realpath(output_dir) + os.sep
    if inside.startswith(os.path.realpath(images_dir) + os.sep):
        raise UserError(
            f"The output folder {output_dir!r} is inside the images folder {images_dir!r}, so the "
            "next run would read it as images; choose another --output."
        )
    try:
        os.makedirs(output_dir, exist_ok=True)
        with tempfile.TemporaryFile(dir=output_dir):
            pass
    except OSError as error:
        raise UserError(
            f"Cannot write to the output folder {output_dir!r}: {error.strerror}."
        ) from error
