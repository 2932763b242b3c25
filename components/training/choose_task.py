"""Which task a data set is for."""

from image_pipeline.components.feeding.graph import read_mask_classes
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.training.classification import CLASSIFICATION
from image_pipeline.components.training.segmentation import SEGMENTATION
from image_pipeline.components.training.task import Task


def choose_task(ingest: IngestOptions) -> Task:
    """The task of data sets that are made with these options."""
    return SEGMENTATION if ingest.has_masks else CLASSIFICATION


def find_task(transform_graph_dir: str) -> Task:
    """The task of the data sets that a transform graph was made from."""
    has_masks = read_mask_classes(transform_graph_dir) is not None
    return SEGMENTATION if has_masks else CLASSIFICATION
