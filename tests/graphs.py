"""A real transform graph for tests, made by tf.Transform from a handful of images."""

import functools
import json
import pathlib
import tempfile
from collections.abc import Mapping, Sequence

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from apache_beam.options.pipeline_options import PipelineOptions
from google.protobuf import text_format
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public import tfxio

from image_pipeline.components import contract
from image_pipeline.components.feeding.analysis import CHECKSUMS


def scale_to_unit(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Pixels to [0, 1]; labels to their line in the vocabulary, or -1."""
    return {
        contract.IMAGE_OUTPUT: tf.cast(inputs[contract.IMAGE_INPUT], tf.float32) / 255.0,
        contract.LABEL_OUTPUT: tft.compute_and_apply_vocabulary(
            inputs[contract.LABEL_INPUT], default_value=-1, vocab_filename=contract.LABEL_VOCABULARY
        ),
    }


def write_graph(
    folder: str | pathlib.Path,
    size: tuple[int, int, int] = (8, 8, 3),
    labels: Sequence[str] = ("cat", "dog"),
    preprocessing_fn=scale_to_unit,
) -> str:
    """Analyses one image a label with tf.Transform, and saves the transform graph.

    Args:
      folder: where the graph goes.
      size: height, width and channels of the model's input.
      labels: the classes. The vocabulary lists those that come later here first less often.
      preprocessing_fn: what tf.Transform analyses.

    Returns:
      The folder, as `tft.TFTransformOutput` wants it.
    """
    batch = _record_batch(size, labels)
    options = PipelineOptions(runner="FnApiRunner", direct_running_mode="in_memory")
    with (
        tempfile.TemporaryDirectory() as scratch,
        beam.Pipeline(options=options) as pipeline,
        tft_beam.Context(temp_dir=scratch),
    ):
        batches = pipeline | beam.Create([batch])
        transform_fn = (batches, _adapter_config(size)) | tft_beam.AnalyzeDataset(preprocessing_fn)
        _ = transform_fn | tft_beam.WriteTransformFn(str(folder))
    return str(folder)


def write_analysis(folder: str | pathlib.Path, size: Sequence[int] = (8, 8, 3), **further) -> None:
    """Writes what the analysis would say of such a graph; earlier versions noted no checksums."""
    height, width, channels = size
    said = {
        "view": {"height_px": height, "width_px": width, "channels": channels},
        **{"channel_order": "RGB", "color_space": "sRGB", "preprocessing_fn": "f"},
        **{"function_version": "0", "code_version": "0", "columns": [], "manifests": []},
        **{"splits": ["train"], "fraction": 1.0, "records_in_splits": 2, "records": 2},
        **{"statistics": {}, "large_statistics": {}, "constant_channels": [], "classes": []},
        **{"unknown_label": "minus_one", "unknown_classes": {}},
    }
    (pathlib.Path(folder) / contract.ANALYSIS).write_text(json.dumps(said | further))


@functools.cache
def shared_graph_dir(size: tuple[int, int, int] = (8, 8, 3)) -> str:
    """A graph for the classes cat and dog that all tests of a run share; do not write to it."""
    folder = tempfile.TemporaryDirectory(prefix="graph-")
    _KEPT.append(folder)
    return write_graph(folder.name, size)


_KEPT: list[tempfile.TemporaryDirectory] = []  # removed when the interpreter ends


def _record_batch(size: tuple[int, int, int], labels: Sequence[str]) -> pa.RecordBatch:
    """One image a label; the earlier the label, the more often, which orders the vocabulary."""
    rows = [label for turn, label in enumerate(labels) for _ in range(len(labels) - turn)]
    pixels = np.arange(len(rows) * np.prod(size), dtype=np.int64).astype(np.uint8)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(list(pixels.reshape(len(rows), -1)), type=pa.list_(pa.uint8())),
            pa.array([[label.encode()] for label in rows], type=pa.list_(pa.binary())),
        ],
        names=[contract.IMAGE_INPUT, contract.LABEL_INPUT],
    )


def _adapter_config(size: tuple[int, int, int]) -> tfxio.TensorAdapterConfig:
    """How the columns become tensors: image [batch, *size] uint8, label [batch] string."""
    dims = " ".join(f"dim {{ size: {length} }}" for length in size)
    image = f'dense_tensor {{ column_name: "{contract.IMAGE_INPUT}" shape {{ {dims} }} }}'
    label = f'dense_tensor {{ column_name: "{contract.LABEL_INPUT}" shape {{}} }}'
    return tfxio.TensorAdapterConfig(
        _record_batch(size, ["any"]).schema,
        {
            contract.IMAGE_INPUT: text_format.Parse(image, schema_pb2.TensorRepresentation()),
            contract.LABEL_INPUT: text_format.Parse(label, schema_pb2.TensorRepresentation()),
        },
    )


def read_graph_files(graph: pathlib.Path) -> tuple[dict[str, bytes], list[bytes]]:
    """What a graph's folder holds; of the model its constants, since it holds random names, too."""
    held = {
        str(path.relative_to(graph)): path.read_bytes()
        for path in sorted(graph.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }
    model = saved_model_pb2.SavedModel.FromString(held.pop("transform_fn/saved_model.pb"))
    held.pop("transform_fn/fingerprint.pb")
    held.pop(CHECKSUMS, None)  # Of the model's bytes, too.
    graph_def = model.meta_graphs[0].graph_def
    nodes = [*graph_def.node, *(n for each in graph_def.library.function for n in each.node_def)]
    constants = sorted(
        node.attr["value"].tensor.SerializeToString(deterministic=True)
        for node in nodes
        if node.op == "Const" and node.attr["dtype"].type != types_pb2.DT_STRING
    )
    return held, constants
