"""What a transform graph's folder says about the graph, read without TensorFlow."""

import json
from typing import Any

from image_pipeline.components import contract, files
from image_pipeline.components.errors import UserError

# Written by tf.Transform, whose import would take seconds.
_VOCABULARY = f"transform_fn/assets/{contract.LABEL_VOCABULARY}"
# What is shown of it. Older ones lack `alpha_background`.
_SHOWN = {
    *("view", "channel_order", "color_space", "preprocessing_fn", "function_version"),
    *("code_version", "columns", "manifests", "splits", "fraction", "records_in_splits", "records"),
    *("statistics", "large_statistics", "constant_channels"),
    *("classes", "unknown_label", "unknown_classes"),
}


def read_graph(graph_dir: str) -> dict[str, Any]:
    """Reads a transform graph's description of itself.

    Returns:
      What `analysis.json` holds, and `vocabulary`: the class names in the order of their ids, or
      None if the `preprocessing_fn` made no such vocabulary.

    Raises:
      UserError: if it was not written by the analysis, or by a version that wrote less.
    """
    path = files.join(graph_dir, contract.ANALYSIS)
    try:
        with files.open_input(path) as file:
            analysis = json.loads(file.read())
        missing = sorted(_SHOWN - analysis.keys())
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
    return {**analysis, "vocabulary": _read_vocabulary(graph_dir)}


def _read_vocabulary(graph_dir: str) -> list[str] | None:
    try:
        with files.open_input(files.join(graph_dir, _VOCABULARY)) as file:
            names = file.read().decode(errors="replace").removesuffix("\n")
            return names.split("\n") if names else []  # not splitlines: names may hold U+2028
    except FileNotFoundError:
        return None
