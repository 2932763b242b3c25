"""Which task a data set is for."""

from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.training.classification import CLASSIFICATION
from image_pipeline.components.training.task import Task


def choose_task(ingest: IngestOptions) -> Task:
    """The task of data sets that are made with these options."""
    del ingest
    return CLASSIFICATION


def find_task(transform_graph_dir: str) -> Task:
    """The task of the data sets that a transform graph was made from."""
    del transform_graph_dir
    return CLASSIFICATION
