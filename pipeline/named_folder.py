"""Finds out what a folder named by the user is: a data set, a run, or a transform graph."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from image_pipeline.components import contract, files
from image_pipeline.components.dataset.manifest import (
    Manifest,
    has_manifest,
    hash_manifest,
    read_whole_manifest,
)
from image_pipeline.components.dataset.other_records import (
    explain_no_data_set,
    explain_other_records,
    explain_version_name,
)
from image_pipeline.components.dataset.paths import MANIFEST, QUARANTINE, WORK, in_split
from image_pipeline.components.errors import UserError
from image_pipeline.components.extras import need
from image_pipeline.components.feeding.analysis import Analysis, read_graph
from image_pipeline.components.training.history import History, read_history
from image_pipeline.run_folder import DATA_SETS, GRAPHS, METADATA, MODEL_RUN, OUTPUTS, RunFolder

NOT_A_RUN = "Only the report of a run has this; this is the report of a data set alone."
_NAMED = ("examples", "transform_graph")  # what a summary must name


@dataclasses.dataclass(frozen=True)
class Source:
    """The contents of a folder that the user named: a data set alone, or a run.

    Attributes:
      folder: the path as given.
      data_dir: the data set's folder.
      manifest: the data set's manifest.
      run: the run's folder; None for a data set alone.
      graph_dir: the folder of the run's transform graph; None for a data set alone, or before it.
      summary: the content of the run's `summary.json`; or of its `paths` what TFX's metadata says;
        None if it was not asked for, or nothing is known.
      trouble: why the summary is not the run's own; "" if it is.
    """

    folder: str
    data_dir: str
    manifest: Manifest
    run: RunFolder | None = None
    graph_dir: str | None = None
    summary: dict[str, Any] | None = None
    trouble: str = ""

    def artifact(self, name: str) -> str | None:
        """The folder that the summary calls `name`, where the run's folder is now."""
        path = None if self.summary is None else self.summary["paths"].get(name)
        return None if path is None or self.run is None else self.run.relocate(path)

    def find_artifact(self, name: str) -> str:
        """Like `artifact`, but raises UserError with why there is none."""
        if self.run is None:
            raise UserError(NOT_A_RUN)
        if (path := self.artifact(name)) is None:
            raise UserError(f"The run has no {name}; run again from the {OUTPUTS[name][0]} on.")
        return path

    def read_graph(self) -> Analysis | None:
        """The transform graph's description of itself; None without a graph."""
        return None if self.graph_dir is None else read_graph(self.graph_dir)

    def read_history(self) -> History:
        """What training reported; raises UserError if there was none, or that is damaged."""
        # TFX puts all of an execution's outputs under its number: Trainer/{model,model_run}/5.
        trainer_dir, _, number = self.find_artifact("model").rsplit("/", 2)
        if (history := read_history(files.join(trainer_dir, MODEL_RUN, number))) is None:
            raise UserError("The run's history.json is missing; run again from the Trainer on.")
        return history


def find_source(folder: str) -> Source:
    """Finds out whether a folder is a data set or a run, whose latest transform graph is taken.

    Raises:
      UserError: if it is neither.
    """
    folder = folder.rstrip("/") or folder
    if has_manifest(folder):
        return Source(folder, folder, read_whole_manifest(folder))
    if files.split_prefix(folder)[0]:
        raise UserError(
            f"{folder!r} is where images come from, but only what was ingested can be looked at; "
            "ingest it, and give the --output of that."
        )
    if not files.exists(folder):
        raise UserError(
            explain_no_data_set(folder)
            or f"{folder!r} does not exist; give the --output of ingest or run."
        )
    run = RunFolder(folder)
    data_sets = run.list_data_sets()
    if not data_sets:
        raise UserError(
            explain_other_records(folder)
            or f"{folder!r} holds neither a complete data set ({MANIFEST}) nor a run "
            f"({DATA_SETS}/<number>/{MANIFEST}); give the --output of ingest or run."
        )
    graph_dir, _ = find_graph(folder)
    analysed = read_graph(graph_dir).manifests
    matching = [each for each in data_sets if hash_manifest(each) in analysed]
    if not matching:
        raise UserError(
            f"{graph_dir!r} must have been made from a data set in {folder}/{DATA_SETS}, but that "
            "is gone or was changed; run the pipeline again."
        )
    return Source(folder, matching[-1], read_whole_manifest(matching[-1]), run, graph_dir)


def find_whole_run(folder: str) -> Source:
    """Like `find_source`, but finds what a finished run's summary describes, or just a data set.

    Without a whole summary it is what the last run that has a data set made, as TFX noted it.

    Raises:
      UserError: if the folder is neither a data set nor a run.
    """
    folder = folder.rstrip("/") or folder
    if has_manifest(folder):
        return find_source(folder)
    run = RunFolder(folder)
    summary, trouble = _read_summary(run)
    if summary is None:
        summary = {"paths": _read_paths(run)}
        if "examples" not in summary["paths"]:
            found = _find_ingested(run) or find_source(folder)
            return dataclasses.replace(found, trouble=f"{trouble}.")
        trouble += f"; {METADATA} says what the last run made. Run again to have it written."
    data_dir, graph_dir = (
        path and run.relocate(path) for path in map(summary["paths"].get, _NAMED)
    )
    whole = read_whole_manifest(data_dir)
    return Source(folder, data_dir, whole, run, graph_dir, summary, trouble)


def _read_summary(run: RunFolder) -> tuple[dict[str, Any] | None, str]:
    """A run's summary and ""; or None and what is wrong with it, a sentence without its end."""
    path = run.summary_path
    try:
        summary = run.read_summary()
    except UserError as error:
        return None, str(error).partition(";")[0]
    if summary is None:
        return None, f"{path!r} is missing: the run did not finish, or it was lost"
    if None in map(summary.get("paths", {}).get, _NAMED):
        return None, f"{path!r} must name {' and '.join(_NAMED)}, but does not"
    return summary, ""


def _read_paths(run: RunFolder) -> dict[str, str | None]:
    """What the last run that has a data set gave, by TFX's metadata; {} if they cannot be read."""
    if not (files.is_local(run.metadata_path) and files.exists(run.metadata_path)):
        return {}
    try:
        need("tfx", "Reading the runs of a folder")
        from image_pipeline.history.past_runs import read_runs

        runs = read_runs(run.metadata_path)
    except UserError:
        return {}  # What asks for the run's options says why.
    found = (past.list_paths() for past in reversed(runs))
    return next((paths for paths in found if "examples" in paths), {})


def _find_ingested(run: RunFolder) -> Source | None:
    """What a run that has not come as far as its first transform graph has: its last data set."""
    data_sets = [] if run.list_graphs() else run.list_data_sets()
    if not data_sets:
        return None
    return Source(run.path, data_sets[-1], read_whole_manifest(data_sets[-1]), run)


def find_graph(folder: str) -> tuple[str, int]:
    """Finds the transform graph in a folder: the folder itself, or a run's latest one.

    Returns:
      Its folder, and how many graphs the run has; 0 if the graph's own folder was named.

    Raises:
      UserError: if there is none.
    """
    if files.exists(files.join(folder, contract.ANALYSIS)):
        return folder.rstrip("/"), 0
    found = RunFolder(folder).list_graphs()
    if not found:
        what = "holds no transform graph" if files.exists(folder) else "does not exist"
        raise UserError(
            explain_version_name(folder)
            or f"{folder!r} {what}: there must be {contract.ANALYSIS} in it, or in "
            f"{GRAPHS}/<number>; give the --output of `image-pipeline run`, or a transform graph's "
            "own folder."
        )
    return found[-1], len(found)


def find_latest_data_set(folder: str) -> str:
    """The latest data set in a run's output folder; any other folder is taken as it is."""
    found = [] if has_manifest(folder) else RunFolder(folder).list_data_sets()
    return found[-1] if found else folder


def find_refused(folder: str) -> str | None:
    """The working folder of the last ingest into a folder, or of its run, if that was refused."""
    lists = [files.join(folder, WORK, QUARANTINE), *RunFolder(folder).list_refused()]
    # A run has a working folder for each choice of options, of which older ones may be left.
    written = {path: files.stat_file(path)[1] for path in lists if files.is_file(path)}
    manifest = files.join(find_latest_data_set(folder), MANIFEST)
    since = files.stat_file(manifest)[1] if files.is_file(manifest) else 0
    last = max(written, key=written.__getitem__, default=None)
    return last.rpartition("/")[0] if last and written[last] > since else None


def refuse_run(folder: str, command: str) -> None:
    """Refuses a run's folder where a data set is expected: it may hold several data sets.

    Raises:
      UserError: if it is the output folder of a run; the message names the latest data set in it.
    """
    if has_manifest(folder):
        return
    if found := RunFolder(folder).list_data_sets():
        raise UserError(
            f"{folder!r} is a run's folder, not a data set's; for its latest data set, write: "
            f"image-pipeline {command} {found[-1]}"
        )


def list_split(data_dir: str, split: str) -> str:
    """The pattern that matches a split's shards.

    Raises:
      UserError: if the data set has no such split.
    """
    read_whole_manifest(data_dir).find_split(split, data_dir)
    return files.join(data_dir, in_split(split))


def list_splits(data_dirs: str | Sequence[str], split: str) -> list[str]:
    """`list_split` of one data set, or of several."""
    named = [data_dirs] if isinstance(data_dirs, str) else data_dirs
    return [list_split(data_dir, split) for data_dir in named]
