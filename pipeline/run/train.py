"""Training alone, without TFX: the same code and the same model as in the pipeline."""

import contextlib
import types
from collections.abc import Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.feeding.analysis import read_graph
from image_pipeline.components.feeding.rules import VIEW
from image_pipeline.components.locks import hold_lock
from image_pipeline.components.rules import check
from image_pipeline.components.training.cluster import Cluster
from image_pipeline.components.training.devices import find_cluster
from image_pipeline.components.training.history import read_history
from image_pipeline.components.training.trainer import run_fn
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.config import PipelineConfig
from image_pipeline.named_folder import list_split
from image_pipeline.run_folder import SERVED_MODEL

CHECKPOINTS = "checkpoints"


def train_folder(
    data_dir: str,
    graph_dir: str,
    output_dir: str,
    config: PipelineConfig,
    train_splits: Sequence[str] = ("train",),
    eval_split: str = "eval",
) -> dict[str, Any]:
    """Trains a model on splits of a data set, and exports it.

    Where it was interrupted, it goes on. Of several machines that TF_CONFIG names, each calls this
    with the same arguments.

    Args:
      data_dir: the folder that ingest wrote.
      graph_dir: the transform graph's folder.
      output_dir: where the model, its history and, by default, checkpoints go: one folder for all
        machines.
      config: its groups `feeding` and `training` are used; the view is the graph's.
      train_splits: from which the model learns.
      eval_split: with which it is measured after each epoch.

    Returns:
      The `model`'s folder, its `metrics` of each epoch, and `worker`, `workers`: which machine of
      how many this is. Only the first writes, and has `metrics`.
    """
    cluster = find_cluster(config.training) or Cluster()
    training = config.training.model_dump(mode="json")
    training["checkpoint_dir"] = training["checkpoint_dir"] or files.join(output_dir, CHECKPOINTS)
    model_dir = files.join(output_dir, SERVED_MODEL)
    view = read_graph(graph_dir).view
    if config.view != ViewOptions():
        check(VIEW, analysed=view, view=config.view, graph_dir=graph_dir)
    fn_args = types.SimpleNamespace(
        train_files=[list_split(data_dir, split) for split in train_splits],
        eval_files=[list_split(data_dir, eval_split)],
        transform_graph_path=graph_dir,
        serving_model_dir=model_dir,
        model_run_dir=output_dir,
        base_model=None,
        custom_config={
            "view": view.model_dump(mode="json"),
            "feeding": config.feeding.model_dump(mode="json"),
            "training": training,
        },
    )
    with hold_lock(output_dir) if cluster.is_chief else contextlib.nullcontext():
        run_fn(fn_args)
    history = read_history(output_dir) if cluster.is_chief else None
    return {
        "model": model_dir,
        "metrics": None if history is None else history.metrics,
        "worker": cluster.number,
        "workers": cluster.size,
    }
