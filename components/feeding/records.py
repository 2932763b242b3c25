"""The records of shards, by their index: the one that ingest wrote, or one that a scan makes."""

import contextlib
import glob
import logging
from collections.abc import Sequence

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.examples import parse_example
from image_pipeline.components.dataset.index import find_index
from image_pipeline.components.dataset.manifest import Manifest, read_manifest
from image_pipeline.components.dataset.other_records import explain_version_name
from image_pipeline.components.dataset.paths import group_by_root, match_path
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.found_columns import find_labels
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.reader import BatchReader
from image_pipeline.components.feeding.rules import PIXELS
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.labels.kinds import BOXES, CLASSES, MASKS
from image_pipeline.components.record_files.scanned import scan_files
from image_pipeline.components.record_files.tfrecord_frames import list_frames
from image_pipeline.components.rules import check
from image_pipeline.components.views.options import ViewOptions

_LOG = logging.getLogger(__name__)


def match_files(patterns: Sequence[str]) -> list[str]:
    """Resolves paths and patterns to paths, sorted: the same on every file system.

    Raises:
      UserError: if one of them matches no file, or none are given.
    """
    matches = {
        each: glob.glob(each) if files.is_local(each) else files.list_files(*_split_pattern(each))
        for each in patterns
    }
    missing = [pattern for pattern, paths in matches.items() if not paths]
    if missing or not matches:
        named = (explain_version_name(each.rsplit("/", 2)[0]) for each in missing)
        raise UserError(
            next(filter(None, named), None)
            or "every pattern must match a TFRecord file, but no file matches "
            f"{missing or 'none'}; check the path, or run ingest first."
        )
    return sorted({path for paths in matches.values() for path in paths})


def _split_pattern(uri: str) -> tuple[str, str]:
    """The folder above the first wildcard of a URI, and the rest; a bucket's name has none."""
    parts = uri.split("/")
    wild = [place for place, part in enumerate(parts) if place > 2 and set("*?[") & set(part)]
    first = wild[0] if wild else len(parts) - 1
    return "/".join(parts[:first]), "/".join(parts[first:])


def read_manifests(files: Sequence[str]) -> dict[str, Manifest]:
    """The manifests of the data sets that shards are of, by their folders."""
    bare = [path.removesuffix(".gz") for path in match_files(files)]
    roots = [root for root, _ in group_by_root(bare)] if all(map(match_path, bare)) else []
    found = {}
    for root in roots:
        # Asked for at once: in a store, whether there is one would be a request of its own.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found[root] = read_manifest(root)
    return found


def find_label_kind(files: Sequence[str]) -> LabelKind:
    """The kind of labels of shards: as manifests say, or else whether the first record has some.

    Raises:
      UserError: if data sets have several kinds, or boxes of different classes.
    """
    manifests = read_manifests(files)
    return find_labels(manifests) if manifests else _find_in_first_record(match_files(files))


def _find_in_first_record(paths: Sequence[str]) -> LabelKind:
    """By whether the first record has a mask or boxes: what files without a manifest say."""
    frames = (next(list_frames(path), None) for path in paths)
    first = next(filter(None, frames), None)
    if first is None or first.problem:
        return CLASSES  # Whoever reads it says so.
    try:
        features = parse_example(first.buffer, first.at, first.at + first.length)
    except (ValueError, OSError):
        return CLASSES
    if record.MASK in features:
        return MASKS
    return BOXES if record.BOX_LABEL.key in features else CLASSES


def open_records(
    files: Sequence[str],
    view: ViewOptions | None,
    feeding: FeedingOptions,
    passes: Passes,
    columns: Sequence[record.Column] = (),
    rows: np.ndarray | None = None,
) -> BatchReader:
    """Opens shards for reading in any order; those without an index of ingest's are scanned first.

    Args:
      files: shards, or patterns of them.
      view: the model's input size; None if no views are made.
      feeding: which records, in which batches.
      passes: which epochs are read.
      columns: further columns to read.
      rows: see `BatchReader`.

    Raises:
      UserError: if a pattern matches no file, a file without an index is damaged, or what is asked
        for needs columns of an index that ingest wrote.
    """
    paths = match_files(files)
    index = find_index(paths)
    if index is None:
        if needing := feeding.table_options():
            raise UserError(
                f"feeding.{', '.join(needing)} needs the index of a data set, but {paths[0]} has "
                "none beside its Split folder; ingest the files, or leave it out."
            )
        index = scan_files(paths, feeding.cache_folder)
        if view is not None:
            check(PIXELS[:1], stored=index, images=f"the images of {paths[0]!r}", view=view)
        _LOG.info("%d records, by an index of a scan: ingest wrote none beside them.", len(index))
    return BatchReader(index, view or ViewOptions(), feeding, passes, columns, rows)
