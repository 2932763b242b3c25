"""What a transform graph's folder says about the graph, read without TensorFlow."""

import dataclasses
import json
from typing import Any

from image_pipeline.components import contract, files
from image_pipeline.components.errors import UserError

# Written by tf.Transform, whose import would take seconds.
_VOCABULARY = f"transform_fn/assets/{contract.LABEL_VOCABULARY}"
# Not in `analysis.json`, or not in older ones.
_ADDED = {"vocabulary", "content", "alpha_background", "mask_classes", "mask_pixels", "label"}
_ADDED |= {"box_classes", "box_counts", "sound"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphFigures:
    """What a transform graph says of itself: `analysis.json`, which `analysis_file` writes.

    Attributes:
      label: the record's key of tags or values; None for classes.
      vocabulary: the class names in the order of their ids; None if the `preprocessing_fn` made no
        such vocabulary.
      content: all that `analysis.json` holds, for machines.
    """

    view: dict[str, Any]
    channel_order: str
    color_space: str
    alpha_background: list[int]
    preprocessing_fn: str
    function_version: str
    code_version: str
    columns: list[str]
    manifests: list[str]
    splits: list[str]
    fraction: float
    records_in_splits: int
    records: int
    statistics: dict[str, Any]
    large_statistics: dict[str, dict[str, Any]]
    constant_channels: list[int]
    classes: list[dict[str, Any]]
    unknown_label: str
    unknown_classes: dict[str, dict[str, int]]
    mask_classes: list[str]
    mask_pixels: list[int]
    box_classes: list[str]
    box_counts: list[int]
    label: str | None
    sound: dict[str, Any] | None
    vocabulary: list[str] | None
    content: dict[str, Any]


_READ = {field.name for field in dataclasses.fields(GraphFigures)} - _ADDED


def read_graph(graph_dir: str) -> GraphFigures:
    """Reads a transform graph's description of itself.

    Raises:
      UserError: if it was not written by the analysis, or by a version that wrote less.
    """
    path = files.join(graph_dir, contract.ANALYSIS)
    try:
        with files.open_input(path) as file:
            analysis = json.loads(file.read())
        missing = sorted(_READ - analysis.keys())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(
            f"{graph_dir!r} is not a transform graph's folder: it has no {contract.ANALYSIS}; give "
            "the folder that the analysis wrote, or run `image-pipeline analyze`."
        ) from error
    except (ValueError, AttributeError) as error:
        raise UserError(f"{path!r} is damaged: {error}; run the analysis again.") from error
    if missing:
        raise UserError(
            f"{path!r} lacks {missing}: another version wrote it; run the analysis again."
        )
    return GraphFigures(
        **{name: analysis[name] for name in _READ},
        alpha_background=analysis.get("alpha_background", []),
        mask_classes=analysis.get("mask_classes", []),
        mask_pixels=analysis.get("mask_pixels", []),
        box_classes=analysis.get("box_classes", []),
        box_counts=analysis.get("box_counts", []),
        label=analysis.get("label"),
        sound=analysis.get("sound"),
        vocabulary=_read_vocabulary(graph_dir),
        content=analysis,
    )


def _read_vocabulary(graph_dir: str) -> list[str] | None:
    try:
        with files.open_input(files.join(graph_dir, _VOCABULARY)) as file:
            names = file.read().decode(errors="replace").removesuffix("\n")
            return names.split("\n") if names else []  # not splitlines: names may hold U+2028
    except FileNotFoundError:
        return None
