"""Ingest, analysis, batches and training of a folder or a URI, all with the same options."""

import json
import pathlib
import types

import apache_beam as beam
import numpy as np
import tensorflow as tf
from apache_beam.options.pipeline_options import PipelineOptions

from image_pipeline.components import files
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.dataset.paths import SOURCES
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.ingest.earlier import Earlier
from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.training import trainer
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.components.trees import fetch_tree
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import draw, encode_png
from tests.ingest_runs import OPTIONS

SIZE_PX = 8


def ingest(images_dir: str, output_dir: str, earlier: Earlier | None = None, **options) -> Manifest:
    """Ingests; returns the manifest."""
    chosen = IngestOptions.model_validate(OPTIONS | {"max_bad_fraction": 0.5} | options)
    work_dir = f"{output_dir}/.work"
    return run_ingest(images_dir, output_dir, work_dir, chosen, _make_pipeline, earlier=earlier)


def analyze(data_dir: str, graph_dir: str, cache_dir: str | None = None) -> dict:
    """Computes the transform graph; returns what `analysis.json` holds."""
    view = ViewOptions(height_px=SIZE_PX, width_px=SIZE_PX)
    return run_analysis([data_dir], graph_dir, view, TransformOptions(), _make_pipeline, cache_dir)


def read_batches(
    root: str, mode: str, graph_dir: str | None = None, **options
) -> list[list[np.ndarray]]:
    """One epoch: each batch's images and labels."""
    data = input_fn(
        [f"{root}/data/Split-{mode}/*"],
        mode=mode,
        view=ViewOptions(height_px=SIZE_PX, width_px=SIZE_PX),
        feeding=FeedingOptions(batch_size=4, **options),
        transform_graph_dir=graph_dir or f"{root}/graph",
    )
    return [list(batch) for batch in data.as_numpy_iterator()]


def train(root: str, target: str | None = None) -> tuple[dict, np.ndarray]:
    """Trains on a root's data for two epochs, and writes to it or to another one.

    Returns:
      The metrics, and what the exported model answers.
    """
    target = target or root
    arguments = types.SimpleNamespace(
        train_files=[f"{root}/data/Split-train/*"],
        eval_files=[f"{root}/data/Split-eval/*"],
        transform_graph_path=f"{root}/graph",
        serving_model_dir=f"{target}/serving",
        model_run_dir=f"{target}/run",
        custom_config={
            "view": {"height_px": SIZE_PX, "width_px": SIZE_PX},
            "feeding": {"batch_size": 4},
            "training": {
                "model": "tests.training.models.build_linear_model",
                "epochs": 2,
                "learning_rate": 0.1,
                "checkpoint_dir": f"{target}/checkpoints",
            },
        },
    )
    trainer.run_fn(arguments)
    history = json.loads(files.read_file(f"{target}/run/history.json"))
    model = tf.saved_model.load(fetch_tree(arguments.serving_model_dir))
    picture = tf.constant([encode_png(draw(0))])
    answer = model.signatures["serving_default"](image_bytes=picture)
    return history["metrics"], answer["probabilities"].numpy()


def read_tree(root: str) -> dict[str, bytes]:
    """All files below a folder or URI, but for what an ingest knows of its sources' times."""
    if files.is_local(root):
        names = [str(p.relative_to(root)) for p in pathlib.Path(root).rglob("*") if p.is_file()]
    else:
        names = [name for name, _, _ in files.list_remote_tree(root)]
    named = [name for name in names if name.rpartition("/")[2] != SOURCES]
    return {name: files.read_file(files.join(root, name)) for name in named}


def _make_pipeline() -> beam.Pipeline:
    return beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS)))
