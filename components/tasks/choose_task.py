"""Which task a data set is for."""

from image_pipeline.components.feeding.analysis import read_analysis
from image_pipeline.components.labels.kinds import CLASSES
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.tasks.detection import DETECTION
from image_pipeline.components.tasks.image_tasks import CLASSIFICATION, REGRESSION, TAGGING
from image_pipeline.components.tasks.segmentation import SEGMENTATION
from image_pipeline.components.tasks.task import Task

_ALL = (CLASSIFICATION, DETECTION, REGRESSION, SEGMENTATION, TAGGING)
TASKS = {task.name: task for task in _ALL}
"""All tasks by their names."""
TASK_OF = {task.label: task for task in _ALL}
"""The task of each kind of labels."""


def choose_task(ingest: IngestOptions) -> Task:
    """The task of data sets that are made with these options."""
    return TASK_OF[ingest.label_kind]


def find_task(transform_graph_dir: str) -> Task:
    """The task of the data sets that a transform graph was made from."""
    analysis = read_analysis(transform_graph_dir)
    return TASK_OF[CLASSES if analysis is None else analysis.label_kind]


def name_model(training: TrainingOptions, task: Task) -> TrainingOptions:
    """The options with the task's own model, unless they name one."""
    if training.model is not None:
        return training
    return training.model_copy(update={"model": task.default_model})
