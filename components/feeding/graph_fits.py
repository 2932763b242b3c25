"""Whether a transform graph is one for the data sets that are read behind it.

It need not have been made of them: of others, what would be fed wrongly in silence is refused.
"""

import collections
import functools
import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from image_pipeline.components.dataset.index import find_index, is_indexed, read_table
from image_pipeline.components.dataset.index_file import index_name
from image_pipeline.components.dataset.manifest import Manifest, Square, hash_manifest
from image_pipeline.components.dataset.paths import group_by_root, numbers_by_split
from image_pipeline.components.dataset.record import LABEL_ID
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.analysis import Analysis, read_vocabulary
from image_pipeline.components.feeding.found_columns import Manifests
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Mode
from image_pipeline.components.feeding.rules import VIEW
from image_pipeline.components.feeding.selection import select_labels
from image_pipeline.components.labels.kinds import BOXES, MASKS, find_kind
from image_pipeline.components.messages import show
from image_pipeline.components.rules import check
from image_pipeline.components.views.options import ViewOptions

if TYPE_CHECKING:
    from image_pipeline.components.feeding.graph import TransformGraph

_WAY_OUT = "give the graph of that data set's own analysis (`image-pipeline analyze`)"
# No vocabulary has these: they are records without a class.
_NO_CLASS = re.compile(r"|[^\n\r]*[\n\r].*", re.DOTALL)
_MOST_NAMED = 3
_LOG = logging.getLogger(__name__)


def check_fits(
    graph_dir: str,
    analysis: Analysis | None,
    graph: "TransformGraph | None",
    manifests: Manifests,
    paths: Sequence[str],
    feeding: FeedingOptions,
    mode: Mode,
) -> None:
    """Checks a graph against what manifests say of the data sets.

    Args:
      graph_dir: the graph's folder.
      analysis: what it says of itself; None of a graph of tf.Transform's own.
      graph: the graph; None where its analysis alone is read, without TensorFlow.
      manifests: those of the data sets, by their folders.
      paths: of the shards that are read.
      feeding: which records are read.
      mode: of reading.

    Raises:
      UserError: if it was made for other labels, or pixels that mean something else.
    """
    hashes = {} if analysis is None else {root: hash_manifest(root) for root in manifests}
    if analysis is not None and mode == "train":
        _compare_sets(graph_dir, set(analysis.manifests), set(hashes.values()))
    for root, manifest in manifests.items():
        _check_labels(analysis, graph, manifest, root)
        if manifest.has_class_ids:
            names = read_vocabulary(graph_dir) or []
            _compare_ids(tuple(names), manifest.class_names, graph_dir, root)
        # The analysis has already reported what its own data set lacks.
        if analysis is None or hashes[root] in analysis.manifests:
            continue
        _check_pixels(analysis, manifest, graph_dir, root)
        if (kind := analysis.label_kind) in (MASKS, BOXES):
            known, found = analysis.mask_classes or analysis.box_classes, kind.class_names(manifest)
            _check_ids(kind.name, known or [], found, graph_dir, root)
        else:
            own = dict(group_by_root(paths))[root]
            _check_classes(graph_dir, analysis, graph, manifest, root, own, feeding, mode)


def check_view(graph: "TransformGraph", view: ViewOptions) -> None:
    """Raises UserError if a graph was made for another view."""
    if graph.analysis is not None:
        check(VIEW, analysed=graph.analysis.view, view=view, graph_dir=graph.folder)
    spec, shape = graph.view_spec, (None, view.height_px, view.width_px, view.channels)
    if not spec.shape.is_compatible_with(shape) or spec.dtype != view.dtype:
        raise UserError(
            f"view must be what the transform graph in {graph.folder!r} was made for, "
            f"{spec.dtype.name} {spec.shape}, got {view.model_dump()}; set view to that, or "
            "analyze again."
        )


def _check_labels(
    analysis: Analysis | None, graph: "TransformGraph | None", manifest: Manifest, root: str
) -> None:
    """Checks that a data set has the labels that the graph makes ids of: of one kind."""
    if analysis is None:  # It does not tell whether there were masks or boxes.
        assert graph is not None
        found = find_kind([] if manifest.label is None else [manifest.label])
        wanted = find_kind(graph.columns)
    else:
        found, wanted = find_kind(manifest.columns), analysis.label_kind
    if found is not wanted:
        raise UserError(
            f"the transform graph is of {wanted.name}, but the labels of {root!r} are "
            f"{found.name}; "
            f"{_WAY_OUT}."
        )


def _check_pixels(analysis: Analysis, manifest: Manifest, graph_dir: str, root: str) -> None:
    """Checks that the same numbers mean the same: their type, and how sounds were drawn."""
    prepare = manifest.options.get("prepare", {})
    for name, was, now in (
        ("dtype", analysis.dtype, manifest.dtype),
        ("depth", tuple(analysis.depth), manifest.depth),
        ("sound", analysis.sound and analysis.sound.model_dump(mode="json"), prepare.get("sound")),
    ):
        if was != now:
            raise UserError(
                f"the transform graph in {graph_dir!r} is of images with ingest.prepare.{name} "
                f"{show(was)}, but {root!r} has {show(now)}; {_WAY_OUT}."
            )
    _compare_shapes(analysis.resize, manifest.square, graph_dir, root)


@functools.cache  # Once, for all data sets of a process that feed from the same.
def _compare_shapes(
    analysed: Square | None, stored: Square | None, graph_dir: str, root: str
) -> None:
    """Warns if a served model would give files another shape than its stored images have.

    Graphs of earlier versions do not know that images were distorted.
    """

    def describe(square: Square | None) -> str:
        return f"distorted to {square.size_px} px squares" if square else "not distorted"

    if analysed != stored:
        _LOG.warning(
            "models that are exported with the transform graph %r get files that are %s, but the "
            "images of %r are %s (ingest.prepare: resize, size_px, enlarge); %s.",
            *(graph_dir, describe(analysed), root, describe(stored), _WAY_OUT),
        )


def _check_ids(
    what: str, known: Sequence[str], found: Sequence[str], graph_dir: str, root: str
) -> None:
    """Checks that ids, which are stored as such, mean the same classes."""
    if list(found) != list(known[: len(found)]):
        raise UserError(
            f"the {what} of {root!r} must have the classes of the transform graph in "
            f"{graph_dir!r} in the same order, {show(list(known))}, got "
            f"{show(list(found))}; {_WAY_OUT}."
        )


def _compare_sets(graph_dir: str, analysed: set[str], read: set[str]) -> None:
    """Warns if training reads some of the data sets that were analysed, and not the others."""
    if (both := analysed & read) and both != analysed:
        _LOG.warning(
            "the transform graph %r was made of %d data sets, but training reads %d of them. To "
            "train on all, give input_fn the folders of all in a list; in a run_fn these are the "
            "folders of all of fn_args.train_files.",
            *(graph_dir, len(analysed), len(both)),
        )


@functools.cache  # Once, for all data sets of a process that feed from the same.
def _compare_ids(
    known: tuple[str, ...], stored: tuple[str, ...], graph_dir: str, root: str
) -> None:
    """Warns if records number a class otherwise than the graph does; both can be corrected.

    Graphs of earlier versions number the most frequent class first, and so may a function of the
    user's own. A class without analysed records is not in a graph, but in `ingest.classes` it is.
    """
    ids = {name: number for number, name in enumerate(stored)}
    wrong = [name for number, name in enumerate(known) if ids.get(name, number) != number]
    if wrong:
        name = wrong[0]
        _LOG.warning(
            "%s of %r is not the class's number in the transform graph %r: %s is %d there, and %d "
            "in the graph, whose ids models learn. What compares a model's answers with that key, "
            "such as tfma.ModelSpec(label_key=%r), is wrong. Analyze again (`image-pipeline "
            "analyze`), with classes numbered by labels.label_ids, and every class among the "
            "analysed records or in ingest.classes.",
            *(LABEL_ID, root, graph_dir, show(name), ids[name], known.index(name), LABEL_ID),
        )


def _check_classes(
    graph_dir: str,
    analysis: Analysis,
    graph: "TransformGraph | None",
    manifest: Manifest,
    root: str,
    paths: Sequence[str],
    feeding: FeedingOptions,
    mode: Mode,
) -> None:
    """Refuses classes or tags that were not analysed: nobody has been told of them."""
    counts = _count_labels(manifest, paths)
    known = set(analysis.other_labels or ()).union(*analysis.unknown_classes.values())
    unknown = sorted(each for each in counts if each not in known and not _NO_CLASS.fullmatch(each))
    if unknown:
        vocabulary = set(read_vocabulary(graph_dir) or ())
        unknown = [name for name in unknown if name not in vocabulary]
    # A `preprocessing_fn` may number other names than it says, or look at further columns.
    if unknown and manifest.label is None and analysis.columns:
        return
    if unknown and manifest.label is None and graph is not None:
        ids = zip(unknown, graph.find_ids(unknown), strict=True)
        unknown = [name for name, number in ids if number < 0]
    if unknown and manifest.label is None and feeding.select.where is not None:
        index = find_index(paths)
        if index is not None:  # Without one, the option is refused.
            codes = np.unique(select_labels(index, feeding, mode == "train"))
            unknown = [name for name in unknown if name in {index.classes[i] for i in codes}]
    if unknown:
        records = sum(counts[name] for name in unknown)
        kind, fed = ("classes", "-1") if manifest.label is None else ("tags", "0")
        more = f" and {len(unknown) - _MOST_NAMED:,} more" if len(unknown) > _MOST_NAMED else ""
        raise UserError(
            f"the transform graph in {graph_dir!r} does not know {kind} of {root!r}: "
            f"{', '.join(map(show, unknown[:_MOST_NAMED]))}{more} ({records:,} records), which "
            f"would be fed as {fed}; {_WAY_OUT}, or leave them out by feeding.select.where."
        )


def _count_labels(manifest: Manifest, paths: Sequence[str]) -> collections.Counter[str]:
    """How often classes or tags occur in the splits that are read; none of values."""
    counts: collections.Counter[str] = collections.Counter()
    if manifest.label is None:
        for split in numbers_by_split(paths):
            counts.update(manifest.books.classes.get(split, {}))
    elif manifest.label.is_list and is_indexed(paths):
        name = index_name(manifest.label)
        counts.update(pc.list_flatten(read_table(paths, [name])[name]).to_pylist())
    return counts
