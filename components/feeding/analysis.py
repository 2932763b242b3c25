"""`analysis.json`: what a transform graph was made from, and the checksums of its files.

Read without TensorFlow.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic

from image_pipeline.components import contract, files
from image_pipeline.components.dataset.checksums import (
    ListedFile,
    ManifestPart,
    describe_bytes,
    describe_file,
)
from image_pipeline.components.dataset.manifest import Square, has_manifest
from image_pipeline.components.dataset.record import LABEL_COLUMNS, PixelType
from image_pipeline.components.dataset.verify_shard import Finding
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.sound import SoundOptions
from image_pipeline.components.json_files import check_json, read_json, read_whole
from image_pipeline.components.json_text import parse_own, to_json
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.labels.kinds import BOXES, MASKS, find_kind
from image_pipeline.components.trees import list_names
from image_pipeline.components.views.options import ViewOptions

# Where tf.Transform puts its SavedModel (`tft.TFTransformOutput.TRANSFORM_FN_DIR`), repeated here
# because importing tf.Transform would cost every reader of batches ten seconds.
SAVED_MODEL_DIR = "transform_fn"
MODEL = f"{SAVED_MODEL_DIR}/saved_model.pb"
VOCABULARY = f"{SAVED_MODEL_DIR}/assets/{contract.LABEL_VOCABULARY}"
# TensorFlow leaves this folder to others.
CHECKSUMS = f"{SAVED_MODEL_DIR}/assets.extra/checksums.json"
_CHANGED = "not what the analysis wrote, by its checksum"
_WAY_OUT = "run `image-pipeline analyze` again, or restore the whole folder from a copy"


class AnalysedClass(ManifestPart):
    """A class: its analysed records, and what follows from them; None where they are not known."""

    name: str
    records: int | None = None
    prior: float | None = None
    weight: float | None = None


class LargeStatistic(ManifestPart):
    """The shape of a statistic, and between which numbers its values lie, if any are finite."""

    shape: list[int]
    min: float | None = None
    max: float | None = None


class Analysis(ManifestPart):
    """What a transform graph says of itself. Earlier versions lack the fields with defaults.

    Attributes:
      view: the model's input.
      channel_order, color_space: what the numbers of the image input mean.
      alpha_background: RGB colour on which ingest laid transparent images.
      depth: the values of 16 bits that ingest made 0 and 255 of.
      dtype: the type of the stored values.
      sound: how ingest drew sounds; None if it read none.
      resize: to what ingest distorted images (`resize: exact`); None if it did not.
      preprocessing_fn: its dotted path.
      function_version, code_version: hashes of its source, and of this project's.
      columns: the further columns that it reads.
      manifests: the SHA-256 of the manifest of each data set that was analysed.
      splits, fraction: which of their records.
      records_in_splits, records: how many these splits have, and how many were read.
      label: the record's key of tags or values; None for classes.
      statistics, large_statistics: what the `preprocessing_fn` named.
      constant_channels: the channels that have the same value everywhere.
      classes: in the order of their ids.
      unknown_label: the option.
      unknown_classes: split to class to records, of classes without an analysed record.
      other_labels: analysed labels that name no class, since the `preprocessing_fn` renames
        them or leaves them out; None if it was not noted.
      mask_classes, mask_pixels: of masks, in the order of their ids; None without masks.
      box_classes, box_counts: of boxes, in the order of their ids; None without boxes.
      files: the paths of the graph's other files below its folder, which have checksums; None if
        they have none.
    """

    view: ViewOptions
    channel_order: str
    color_space: str
    alpha_background: list[int] = pydantic.Field([255, 255, 255], min_length=3, max_length=3)
    depth: list[int] = pydantic.Field([0, 65_535], min_length=2, max_length=2)
    dtype: PixelType = "uint8"
    sound: SoundOptions | None = None
    resize: Square | None = None
    preprocessing_fn: str
    function_version: str
    code_version: str
    columns: list[str]
    manifests: list[str]
    splits: list[str]
    fraction: float
    records_in_splits: int
    label: str | None = None
    records: int
    statistics: dict[str, Any]
    large_statistics: dict[str, LargeStatistic]
    constant_channels: list[int]
    classes: list[AnalysedClass]
    unknown_label: str
    unknown_classes: dict[str, dict[str, int]]
    other_labels: list[str] | None = None
    mask_classes: list[str] | None = None
    mask_pixels: list[int] | None = None
    ignored_pixels: int | None = None
    box_classes: list[str] | None = None
    box_counts: list[int] | None = None
    files: list[str] | None = None

    @pydantic.model_validator(mode="after")
    def _check_counts(self) -> "Analysis":
        if not 0 <= self.depth[0] < self.depth[1] < 65_536:
            raise ValueError(f"depth must be two values of 16 bits in order, got {self.depth}")
        for names, counts in (
            (self.mask_classes, self.mask_pixels),
            (self.box_classes, self.box_counts),
        ):
            if counts is not None and len(names or ()) != len(counts):
                raise ValueError(f"{len(names or ())} classes have {len(counts)} counts")
        return self

    @property
    def label_kind(self) -> LabelKind:
        """The kind of labels."""
        if self.mask_classes is not None or self.box_classes is not None:
            return BOXES if self.mask_classes is None else MASKS
        return find_kind([each for each in LABEL_COLUMNS.values() if each.key == self.label])


def read_analysis(graph_dir: str) -> Analysis | None:
    """Reads the analysis beside a graph; None for a graph of tf.Transform's own, which has none.

    Raises:
      UserError: if it is damaged, or was written by a version that wrote less.
    """
    path = files.join(graph_dir, contract.ANALYSIS)
    try:
        content = read_whole(path, _WAY_OUT)
    except FileNotFoundError:
        return None
    try:
        analysis = check_json(parse_own(content), Analysis)
    except ValueError as error:
        raise UserError(f"{path!r} is damaged ({error}); {_WAY_OUT}.") from error
    listed = read_checksums(graph_dir, analysis)
    if listed is not None and listed.get(contract.ANALYSIS) != describe_bytes(content):
        raise damaged_graph(graph_dir, f"{contract.ANALYSIS} is {_CHANGED}")
    return analysis


def read_content(graph_dir: str) -> dict[str, Any]:
    """The whole analysis of a graph that is known to be complete, for machines."""
    return read_json(files.join(graph_dir, contract.ANALYSIS), dict[str, Any], _WAY_OUT)


def read_graph(graph_dir: str) -> Analysis:
    """`read_analysis` of a folder that must be that of a graph of this project's.

    Raises:
      UserError: if it is not, or is damaged.
    """
    if (analysis := read_analysis(graph_dir)) is None:
        raise UserError(
            f"{graph_dir!r} is not a transform graph's folder: it has no {contract.ANALYSIS}; give "
            "the folder that the analysis wrote, or run `image-pipeline analyze`."
        )
    return analysis


def read_vocabulary(graph_dir: str) -> list[str] | None:
    """The names of classes or tags, in the order of their ids; None if the graph has none.

    Raises:
      UserError: if it is damaged.
    """
    try:
        content = read_whole(files.join(graph_dir, VOCABULARY), _WAY_OUT)
    except FileNotFoundError:
        return None
    try:
        # As bytes: a name may hold what text mode takes for a line end.
        return [name.decode() for name in content.split(b"\n")[:-1]]
    except UnicodeDecodeError as error:
        raise damaged_graph(graph_dir, f"{VOCABULARY} is not UTF-8") from error


def describe_files(graph_dir: str) -> dict[str, ListedFile]:
    """Size and checksum of each file that tf.Transform wrote, by its path below the folder."""
    own = (contract.ANALYSIS, CHECKSUMS)
    names = [name for name in list_names(graph_dir) if name not in own]
    return {name: describe_file(files.join(graph_dir, name)) for name in names}


def write_checksums(graph_dir: str, analysis: bytes) -> None:
    """Notes the checksums of a graph's files, and that of what `analysis.json` is going to hold.

    They are not in `analysis.json` itself, which is the same wherever a data set is analysed:
    TensorFlow writes other bytes for the same graph each time.
    """
    listed = {**describe_files(graph_dir), contract.ANALYSIS: describe_bytes(analysis)}
    noted = {name: each.model_dump() for name, each in listed.items()}
    files.write_file(files.join(graph_dir, CHECKSUMS), to_json(noted, indent=1).encode())


def read_checksums(graph_dir: str, analysis: Analysis | None) -> dict[str, ListedFile] | None:
    """The checksums that were noted of a graph's files; None of one of an earlier version.

    Raises:
      UserError: if they are missing, or damaged.
    """
    try:
        return read_json(files.join(graph_dir, CHECKSUMS), dict[str, ListedFile], _WAY_OUT)
    except FileNotFoundError as error:
        if analysis is None or analysis.files is None:
            return None
        raise damaged_graph(graph_dir, f"{CHECKSUMS} is missing") from error


def find_damage(
    graph_dir: str, analysis: Analysis | None, listed: Mapping[str, ListedFile]
) -> Iterator[tuple[str, str]]:
    """What is wrong with the files of a graph: the file's path below the folder, and what."""
    for name, expected in listed.items():
        path = files.join(graph_dir, name)
        try:
            size_bytes, _ = files.stat_file(path)
            is_same = size_bytes == expected.bytes and describe_file(path) == expected
        except (FileNotFoundError, NotADirectoryError):
            yield name, "missing"
        except OSError as error:
            yield name, f"unreadable ({error.strerror})"
        else:
            if not is_same:
                yield name, _CHANGED
    known = {*listed, CHECKSUMS}
    yield from (
        (name, "without a checksum")
        for name in (analysis and analysis.files) or ()
        if name not in known
    )
    # TensorFlow would prefer some files that nobody listed, such as `saved_model.cpb`.
    for name in list_names(files.join(graph_dir, SAVED_MODEL_DIR)):
        path = files.join(SAVED_MODEL_DIR, name)
        if path not in known and not os.path.basename(name).startswith("."):
            yield path, "not a file that the analysis wrote"


def check_files(
    graph_dir: str, analysis: Analysis | None, local: str | None = None
) -> Mapping[str, ListedFile] | None:
    """Makes sure that a graph's files are those that the analysis wrote, if it noted which.

    Args:
      graph_dir: the graph's folder.
      analysis: that of the graph.
      local: a copy of the folder, of which the files are read.

    Returns:
      Their checksums; None of a graph of an earlier version, or of tf.Transform's own.

    Raises:
      UserError: if one is missing or was changed.
    """
    listed = read_checksums(graph_dir, analysis)
    if listed is None:
        return None
    for name, problem in find_damage(local or graph_dir, analysis, listed):
        raise damaged_graph(graph_dir, f"{name} is {problem}")
    return listed


def holds_graph(folder: str) -> bool:
    """Tells whether a folder is that of a transform graph, and not of a data set."""
    return not has_manifest(folder) and files.exists(files.join(folder, contract.ANALYSIS))


def verify_graph(graph_dir: str) -> list[Finding]:
    """What is wrong with a graph's files by their checksums, file by file; empty if nothing is.

    Raises:
      UserError: if `analysis.json` is damaged, or an earlier version wrote no checksums.
    """
    analysis = read_graph(graph_dir)
    if (listed := read_checksums(graph_dir, analysis)) is None:
        raise UserError(
            f"the transform graph in {graph_dir!r} cannot be verified: an earlier version made it, "
            "which noted no checksums; run `image-pipeline analyze` again."
        )
    return [Finding(name, problem) for name, problem in find_damage(graph_dir, analysis, listed)]


def damaged_graph(graph_dir: str, why: object) -> UserError:
    """The error for a transform graph that cannot be relied on."""
    return UserError(f"the transform graph in {graph_dir!r} is damaged ({why}); {_WAY_OUT}.")
