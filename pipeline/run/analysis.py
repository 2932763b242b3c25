"""The analysis alone, without TFX: the same code and the same graph as in the pipeline."""

import time
from collections.abc import Sequence
from typing import Any

from image_pipeline.components.beam.flags import make_pipeline
from image_pipeline.components.locks import hold_lock
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.run.engine import make_paths_absolute
from image_pipeline.run.used_memory import watch_memory


def analyze_folder(
    data_dir: str,
    graph_dir: str,
    view: ViewOptions,
    options: TransformOptions,
    beam_args: Sequence[str],
    cache_dir: str | None = None,
    earlier: str | None = None,
) -> dict[str, Any]:
    """Analyses a data set and writes its transform graph.

    Args:
      data_dir: the folder that ingest wrote.
      graph_dir: the transform graph's folder; an earlier graph in it is replaced.
      view: the model's input.
      beam_args: Beam flags; they name the runner and its mode.
      cache_dir: where the findings for a data set are kept for later analyses; None keeps nothing.
      earlier: the folder of an earlier graph, whose images are not decoded again; None for the one
        that is replaced.

    Returns:
      What `run_analysis` returns, and the seconds and peak memory of the work.
    """
    data_dir, graph_dir = make_paths_absolute(beam_args, data_dir, graph_dir)
    if cache_dir is not None:
        (cache_dir,) = make_paths_absolute(beam_args, cache_dir)
    if earlier is not None:
        (earlier,) = make_paths_absolute(beam_args, earlier)
    started = time.monotonic()
    with hold_lock(graph_dir), watch_memory() as memory:
        analysis = run_analysis(
            data_dir,
            graph_dir,
            view,
            options,
            lambda: make_pipeline(beam_args),
            cache_dir,
            earlier,
        )
    return analysis | {
        "seconds": round(time.monotonic() - started, 1),
        "peak_rss_mb": round(memory.peak_rss_mb),
    }
