"""`image-pipeline init`: a starter configuration from a look at a folder of images."""

import dataclasses
import itertools
import os
import shlex
from typing import Any

import click

from image_pipeline.commands.shared import say

_MOST_CLASSES = 5
_NAMES = {"boxes": "classes of boxes"}


@click.command()
@click.argument("images_dir", metavar="IMAGES")
@click.option("--output", "output_path", default="config.yaml", show_default=True)
@click.option("--yes", is_flag=True, help="Write the guess without asking.")
def init(images_dir: str, output_path: str, yes: bool) -> None:
    """Look at a folder, a table or a generator, and write a starter configuration for it.

    Guesses the classes and splits from names, and the model's input from some images' headers;
    shows the guess, and asks before it writes the file. Of a generator, runs the first items.
    """
    from image_pipeline.components.ingest.source_kind import kind_of
    from image_pipeline.components.sources.span_pattern import check_one_source
    from image_pipeline.init.starter import measure_sizes, write_starter

    _check_new(output_path)
    check_one_source(images_dir)
    read = _read_table if kind_of(images_dir).has_rows else _read_folder
    images_dir, layout, source, refs = read(images_dir)  # A COCO file may be in the folder.
    sizes: Any = measure_sizes(source, refs)
    _check_guess(images_dir, layout, sizes)
    _show(layout, sizes)
    if not yes:
        click.confirm(f"Write {output_path}?", default=True, abort=True)
    with open(output_path, "w", encoding="utf-8") as file:
        file.write(write_starter(layout, sizes))
    # Training needs something to learn.
    is_labelled = layout.classes or layout.has_masks or layout.values
    verb = "run" if is_labelled else "ingest"
    say(
        f"{output_path} is written. Next: image-pipeline {verb} --images {shlex.quote(images_dir)} "
        f"--output out --config {output_path}"
    )


def _read_folder(images_dir: str) -> tuple[str, Any, Any, list[Any]]:
    from image_pipeline.components import files
    from image_pipeline.components.errors import UserError
    from image_pipeline.components.ingest.open_source import open_source
    from image_pipeline.components.ingest.options import IngestOptions
    from image_pipeline.components.ingest.source_kind import FOLDER, kind_of
    from image_pipeline.init.annotations import explain_boxes, find_coco
    from image_pipeline.init.layout import find_said, guess_layout, list_images_of, split_pairs

    source = open_source(images_dir, IngestOptions())
    refs = {ref.path: ref for ref in source.list() if ref.problem is None}
    paths = list(refs)
    if (coco := find_coco(paths)) and kind_of(images_dir) is FOLDER:
        return _read_table(files.join(images_dir, coco))
    layout = find_said(refs.values()) or guess_layout(paths)
    if layout.masks is None:
        if explained := explain_boxes(source, refs):
            raise UserError(explained)
        own = [refs[path] for path in list_images_of(paths)]
        return images_dir, *_open_videos(layout, source, own)
    from image_pipeline.init.mask_levels import read_levels

    images, masks = split_pairs(paths, layout.masks)
    levels = read_levels(source, [refs[path] for path in masks])
    layout = dataclasses.replace(layout, images=len(images), levels=levels)
    return images_dir, layout, source, [refs[path] for path in images]


def _open_videos(layout: Any, source: Any, refs: list[Any]) -> tuple[Any, Any, list[Any]]:
    """Of videos, their first frames; of images, what is given."""
    from image_pipeline.components.sources.frames import VIDEO_ENDINGS, Frames
    from image_pipeline.components.sources.options import VideoOptions

    if not refs or not refs[0].path.lower().endswith(VIDEO_ENDINGS):
        return layout, source, refs
    videos = Frames(source, VideoOptions())
    firsts = [frame for ref in refs for frame in itertools.islice(videos.list_frames(ref), 1)]
    return dataclasses.replace(layout, video=videos.options), videos, firsts


def _read_table(table: str) -> tuple[str, Any, Any, list[Any]]:
    from image_pipeline.init.table_layout import read_layout

    return table, *read_layout(table)


def _check_new(output_path: str) -> None:
    from image_pipeline.components.errors import UserError

    if os.path.exists(output_path):
        raise UserError(
            f"{output_path!r} already exists; choose another --output, or move it away."
        )
    folder = os.path.dirname(output_path) or "."
    if not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        raise UserError(f"{folder!r} must be a folder that can be written to; make it first.")


def _check_guess(images_dir: str, layout: Any, sizes: Any) -> None:
    """Refuses a folder without images, and one whose masks' names follow no one rule."""
    from image_pipeline.components.errors import UserError
    from image_pipeline.components.ingest.masks import explain_masks

    if layout.masks is not None and layout.masks.templates is None:
        raise UserError(explain_masks(images_dir, layout.masks))
    if sizes is None:
        found = layout.images + layout.others
        raise UserError(f"{images_dir!r} must hold images, but none of its {found:,} files is one.")


def _show(layout: Any, sizes: Any) -> None:
    """Shows what was found and guessed, a line each."""
    from image_pipeline.init.starter import guess_view

    kind = layout.kind_of_label
    height, width, channels = guess_view(sizes, kind == "boxes")
    rows = [("layout", layout.kind)]
    known = "" if layout.generator is None else "; how many there are is known when it has run"
    rows.append(("images" if layout.video is None else "videos", f"{layout.images:,}{known}"))
    if layout.columns:
        rows.append(("columns", _list_columns(layout)))
    if layout.others and layout.columns:
        rows.append(("bad rows", f"{layout.others:,}, to be quarantined"))
    elif layout.others:
        rows.append(("other files", f"{layout.others:,}, to be skipped or quarantined"))
    rows += _label_rows(layout, kind)
    if layout.root_dir:
        rows.append(("paths start from", f"{layout.root_dir}, seen from the table's folder"))
    if layout.splits:
        rows.append(("splits", ", ".join(f"{k} {n:,}" for k, n in layout.splits.items())))
    if sizes.sound is not None:
        sound = f"{sizes.sound.duration_s:g} s at {sizes.sound.sample_rate_hz:,} Hz, as pictures"
        rows.append(("sounds", sound))
    kind = "all" if sizes.equal else "median"
    rows.append(("sizes", f"{kind} {sizes.height_px} × {sizes.width_px} (height × width)"))
    rows.append(("model's input", f"{height} × {width} × {channels}"))
    for name, text in rows:
        say(f"{name:<18}{text}")


def _label_rows(layout: Any, kind: str) -> list[tuple[str, str]]:
    """What the images' labels were taken for."""
    from image_pipeline.init.mask_levels import describe_levels
    from image_pipeline.init.starter import describe_labels

    if layout.masks:
        images, masks = layout.masks.templates
        shown = describe_levels(layout.levels)
        return [("images are", images), ("masks are", masks), ("masks show", shown)]
    if layout.classes:
        return [(_NAMES.get(kind, kind), f"{len(layout.classes):,}: {_list_some(layout)}")]
    if kind == "values":
        return [("values", describe_labels(layout).removeprefix("values "))]
    if layout.has_masks:
        return [("classes", "those of the masks")]
    return [("classes", "none found: the images can be ingested, but not used for training")]


def _list_columns(layout: Any) -> str:
    """Each name with the column that it stands for, or with its type."""
    said = [
        f"{name}: {column!r}" if name not in layout.column_types else f"{name} ({type_})"
        for name, column in layout.columns.items()
        if column is not None
        for type_ in [layout.column_types.get(name)]
    ]
    return ", ".join(said)


def _list_some(layout: Any) -> str:
    classes = layout.classes
    some = [f"{name} ({count:,})" for name, count in list(classes.items())[:_MOST_CLASSES]]
    text = ", ".join(some + ["…"] * (len(classes) > _MOST_CLASSES))
    return text + (f"; separated by {layout.tag_separator!r}" if layout.tag_separator else "")
