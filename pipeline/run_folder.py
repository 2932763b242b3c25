"""What is in a run's output folder, and where: its names are spelled out only here."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import pydantic

from image_pipeline.components import contract, files
from image_pipeline.components.dataset.paths import MANIFEST, QUARANTINE, WORK
from image_pipeline.components.json_files import read_json
from image_pipeline.components.tasks.signatures import MODEL_FILE

_ARTIFACTS, _PUSHED = "artifacts", "pushed_model"
# Each of TFX's components has a folder for each execution, with ascending numbers.
DATA_SETS = f"{_ARTIFACTS}/ImageExampleGen/examples"
GRAPHS = f"{_ARTIFACTS}/ImageTransform/transform_graph"
MODELS = f"{_ARTIFACTS}/Trainer/model"
METADATA = "metadata.db"
MODEL_RUN = "model_run"  # The Trainer's output beside the model.
# What a run's summary calls its outputs: each one's component, and what TFX calls it.
OUTPUTS = {
    "examples": ("ImageExampleGen", "examples"),
    "statistics": ("StatisticsGen", "statistics"),
    "schema": ("SchemaGen", "schema"),
    "anomalies": ("ExampleValidator", "anomalies"),
    "transform_graph": ("ImageTransform", "transform_graph"),
    "model": ("Trainer", "model"),
    "evaluation": ("Evaluator", "evaluation"),
    "predictions": ("ImagePredictor", "predictions"),
}
SERVED_MODEL = "Format-Serving"  # TFX's name of the folder in a Trainer's output that is served.


class _Statistics(pydantic.BaseModel, extra="allow"):
    mean: list[float | None] | None = None
    std: list[float | None] | None = None


class _Summary(pydantic.BaseModel, extra="allow"):
    """What is read of all that `show.summary.summarize_run` says of a whole run."""

    paths: dict[str, str | None] = pydantic.Field(default_factory=dict)
    statistics: _Statistics = pydantic.Field(default_factory=_Statistics)
    blessed: bool | None = None


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """The output folder of a run.

    Attributes:
      path: the folder's path or URI.
    """

    path: str

    @property
    def artifacts_dir(self) -> str:
        """Holds the components' outputs."""
        return files.join(self.path, _ARTIFACTS)

    @property
    def metadata_path(self) -> str:
        """TFX's metadata."""
        return files.join(self.path, METADATA)

    @property
    def pushed_dir(self) -> str:
        """Where models are pushed, a folder for each version."""
        return files.join(self.path, _PUSHED)

    @property
    def log_path(self) -> str:
        """The libraries' messages while it ran."""
        return files.join(self.path, "run.log")

    @property
    def examination_path(self) -> str:
        """What `image-pipeline doctor` found last."""
        return files.join(self.path, "doctor.json")

    @property
    def summary_path(self) -> str:
        """The summary of a whole run, as JSON."""
        return files.join(self.path, "summary.json")

    def list_data_sets(self) -> list[str]:
        """The folders of all complete data sets, in the order in which they were made."""
        return self._list_outputs(DATA_SETS, MANIFEST)

    def list_refused(self) -> list[str]:
        """The lists of what refused ingests could not use, in their working folders."""
        if not files.exists(self.path):
            return []
        return files.list_files(self.path, f"{DATA_SETS}/{WORK}-*/{QUARANTINE}")

    def list_graphs(self) -> list[str]:
        """The folders of all transform graphs, in the order in which they were made."""
        return self._list_outputs(GRAPHS, contract.ANALYSIS)

    def list_pushed(self) -> list[str]:
        """The folders of the models that were pushed into the run's folder, the latest last."""
        return list_versions(self.pushed_dir)

    def list_models(self) -> list[str]:
        """The folders of all models that were trained, the latest last."""
        folders = self._list_outputs(MODELS, f"{SERVED_MODEL}/{MODEL_FILE}", above=2)
        return [files.join(folder, SERVED_MODEL) for folder in folders]

    def read_summary(self) -> dict[str, Any] | None:
        """What `summary_path` holds; None if there is none.

        Raises:
          UserError: if it is damaged.
        """
        try:
            way_out = "run the pipeline again to write it again"
            found = read_json(self.summary_path, _Summary, way_out)
            return found.model_dump(exclude_unset=True, by_alias=True)
        except FileNotFoundError:
            return None

    def relocate(self, path: str) -> str:
        """A path from the run's summary, in the folder where the run is now: folders get moved."""
        for room in (_ARTIFACTS, _PUSHED):
            _, found, rest = path.rpartition(f"/{room}/")
            if found:
                return files.join(self.path, room, rest)
        return path

    def _list_outputs(self, kind: str, name: str, above: int = 1) -> list[str]:
        if not files.exists(self.path):
            return []
        paths = files.list_files(self.path, f"{kind}/*/{name}")
        return _sort_by_number(path.rsplit("/", above)[0] for path in paths)


def list_versions(push_dir: str) -> list[str]:
    """The folders of the models in a folder of versions, as servers look at it, the latest last."""
    if not files.exists(push_dir):
        return []
    found = files.list_files(push_dir, f"*/{MODEL_FILE}")
    return _sort_by_number(path.rpartition("/")[0] for path in found)


def _sort_by_number(folders: Iterable[str]) -> list[str]:
    """The execution folders, which are named by numbers, in numeric order."""
    numbered = (path for path in folders if path.rpartition("/")[2].isdigit())
    return sorted(numbered, key=lambda path: int(path.rpartition("/")[2]))
