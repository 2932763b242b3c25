"""What there is to report on: a data set, or a run with its data set, graph, model and results."""

import dataclasses
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import (
    Manifest,
    has_manifest,
    read_whole_manifest,
)
from image_pipeline.config import PipelineConfig
from image_pipeline.preview.source import PreviewSource, find_source, read_config
from image_pipeline.run_folder import RunFolder, read_json
from image_pipeline.show.graph import read_graph

_HISTORY = "history.json"


@dataclasses.dataclass(frozen=True)
class ReportSource:
    """Where everything lies that a report describes.

    Attributes:
      folder: as it was named.
      data_dir: the data set's folder.
      manifest: the data set's.
      run_dir: the output folder of the run; None for a data set alone.
      summary: what the run's `summary.json` holds; None if there is none.
      graph_dir: the transform graph's folder; None without one.
    """

    folder: str
    data_dir: str
    manifest: Manifest
    run_dir: str | None = None
    summary: dict[str, Any] | None = None
    graph_dir: str | None = None

    def artifact(self, name: str) -> str | None:
        """The folder that the summary calls `name`, where the run's folder is now."""
        path = None if self.summary is None else self.summary["paths"].get(name)
        if path is None or self.run_dir is None:
            return None
        return RunFolder(self.run_dir).relocate(path)


def find_report_source(folder: str) -> ReportSource:
    """Finds out whether a folder is a data set or a run, and what it has.

    Raises:
      UserError: if it is neither.
    """
    folder = folder.rstrip("/") or folder
    run = RunFolder(folder)
    if not has_manifest(folder) and (summary := run.read_summary()):
        data_dir = run.relocate(summary["paths"]["examples"])
        graph_dir = run.relocate(summary["paths"]["transform_graph"])
        return ReportSource(
            folder, data_dir, read_whole_manifest(data_dir), folder, summary, graph_dir
        )
    found = find_source(folder)
    manifest = read_whole_manifest(found.data_dir)
    return ReportSource(folder, found.data_dir, manifest, found.run_dir, None, found.graph_dir)


def read_run_config(source: ReportSource) -> PipelineConfig:
    """The options that the run's training had.

    Raises:
      UserError: if the run's metadata does not say, or says what is not valid here.
    """
    return read_config(PreviewSource(source.data_dir, source.graph_dir, source.run_dir), None, ())


def read_history(source: ReportSource) -> dict[str, Any] | None:
    """What training reported, as `components.training.trainer.write_history` wrote it."""
    model_dir = source.artifact("model")
    if model_dir is None:
        return None
    # TFX puts all outputs of an execution under its number: Trainer/model/5, Trainer/model_run/5.
    kinds_dir, _, number = model_dir.rpartition("/")
    path = files.join(kinds_dir.rpartition("/")[0], "model_run", number, _HISTORY)
    return read_json(path) if files.exists(path) else None


def read_analysis(source: ReportSource) -> dict[str, Any] | None:
    """What the transform graph says of itself; None without a graph."""
    return None if source.graph_dir is None else read_graph(source.graph_dir)
