"""Which task a data set is for."""

from image_pipeline.components.dataset.record import (
    LABEL_COLUMNS,
    Column,
    further_columns,
    label_column,
)
from image_pipeline.components.feeding.analysis import read_analysis
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.tasks.classification import CLASSIFICATION
from image_pipeline.components.tasks.detection import DETECTION
from image_pipeline.components.tasks.regression import REGRESSION
from image_pipeline.components.tasks.segmentation import SEGMENTATION
from image_pipeline.components.tasks.tagging import TAGGING
from image_pipeline.components.tasks.task import Task

TASKS: dict[str, Task] = {
    "classification": CLASSIFICATION,
    "detection": DETECTION,
    "regression": REGRESSION,
    "segmentation": SEGMENTATION,
    "tagging": TAGGING,
}
"""All tasks by their names."""
# By the column of labels that are no class.
_BY_COLUMN: dict[Column | None, Task] = {
    None: CLASSIFICATION,
    LABEL_COLUMNS["strings"]: TAGGING,
    LABEL_COLUMNS["float"]: REGRESSION,
}


def choose_task(ingest: IngestOptions) -> Task:
    """The task of data sets that are made with these options."""
    if ingest.has_masks:
        return SEGMENTATION
    if ingest.has_boxes:
        return DETECTION
    return _BY_COLUMN[label_column(further_columns(ingest.column_types))]


def name_task(task: Task) -> str:
    """A task's name in `TASKS`."""
    return next(name for name, each in TASKS.items() if each is task)


def find_task(transform_graph_dir: str) -> Task:
    """The task of the data sets that a transform graph was made from."""
    analysis = read_analysis(transform_graph_dir)
    if analysis is None:
        return CLASSIFICATION
    if analysis.mask_classes is not None:
        return SEGMENTATION
    if analysis.box_classes is not None:
        return DETECTION
    return _BY_COLUMN[analysis.label_column]


def name_model(training: TrainingOptions, task: Task) -> TrainingOptions:
    """The options with the task's own model, unless they name one."""
    if training.model is not None:
        return training
    return training.model_copy(update={"model": task.default_model})
