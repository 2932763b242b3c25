"""Any number of objects an image: boxes with a class."""

from typing import Any

import numpy as np
import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.analysis import read_graph
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.labels import box_batches as boxes
from image_pipeline.components.labels import boxes as box_labels
from image_pipeline.components.models.names import Head
from image_pipeline.components.tasks.signatures import (
    BOXES,
    CLASSES,
    COUNT,
    LABELS,
    OBJECTS,
    SCORES,
)
from image_pipeline.components.tasks.task import Task, is_tensor, repeat_names
from image_pipeline.components.views.options import ViewOptions

# As RetinaNet's (arXiv 1708.02002): candidates of one class that overlap more than this are one
# object, and those with a lower score are none. As COCO's: so many objects an image.
MOST_OVERLAP = 0.5
LEAST_SCORE = 0.05
MOST_OBJECTS = 100

Outputs = dict[str, tf.Tensor]
"""`BOXES` float32 [batch, candidates, 4], `SCORES` float32 [batch, candidates, classes]."""


class Detection(Task):
    """Labels are boxes, see `input_fn`; outputs are candidates with a score for each class."""

    name = "detection"
    label = box_labels.BOXES
    default_model = "detector"
    head: Head = "boxes"
    each = "candidate"
    kind = "a dict of boxes and scores"
    activation = "sigmoid"
    truth = OBJECTS
    prediction = OBJECTS
    metrics = ("map_50_95",)  # COCO's, with each class's

    def read_class_names(self, transform_graph_dir: str) -> list[str]:
        """The boxes' classes, in the order of their ids."""
        return read_graph(transform_graph_dir).box_classes or []

    def describe_shape(self, view: ViewOptions) -> str:
        """Of both."""
        return (
            "[batch, candidates, 4] (top, left, bottom, right as shares of the image's sides) and "
            "[batch, candidates, num_classes] (probabilities)"
        )

    def has_shape(self, outputs: Outputs, images: int, view: ViewOptions) -> bool:
        """Whether there is a box, and a score for each class, of every candidate."""
        places, scores = outputs[BOXES], outputs[SCORES]
        are_floats = places.dtype.is_floating and scores.dtype.is_floating
        shapes = tuple(places.shape), tuple(scores.shape)[:-1]
        return are_floats and shapes == ((images, *shapes[0][1:2], 4), (images, *shapes[0][1:2]))

    def find_values(self, outputs: Any) -> tf.Tensor | None:
        """The scores."""
        is_kind = isinstance(outputs, dict) and outputs.keys() == {BOXES, SCORES}
        return outputs[SCORES] if is_kind and all(map(is_tensor, outputs.values())) else None

    def make_labels(self, outputs: Outputs, gives_shares: bool) -> tuple[dict[str, tf.Tensor], str]:
        """Images with one box of the first class and with none, by turns."""
        count = tf.range(outputs[SCORES].shape[0]) % 2
        labels = {
            boxes.PLACES: tf.cast(count, tf.float32)[:, None, None] * [[[0.25, 0.25, 0.75, 0.75]]],
            boxes.LABELS: count[:, None] - 1,
            boxes.COUNT: count,
        }
        return labels, "a dict of boxes [batch, most, 4], labels [batch, most] and count [batch]"

    def are_final(self, rows: np.ndarray, close: float) -> bool:
        """Whether they are probabilities, of each class by itself."""
        return bool(((rows >= 0) & (rows <= 1)).all())

    def finish(self, outputs: Outputs) -> Outputs:
        """Probabilities of logits; boxes stay as they are."""
        return {**outputs, SCORES: tf.nn.sigmoid(outputs[SCORES])}

    def answer_files(
        self, outputs: Outputs, is_valid: tf.Tensor, class_names: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The objects that were found; a row that is not valid has none."""
        found, scores, ids, count = _suppress(outputs)
        count = tf.where(is_valid, count, 0)
        is_there = tf.sequence_mask(count, MOST_OBJECTS)
        return {
            BOXES: tf.where(is_there[..., None], found, 0.0),
            SCORES: tf.where(is_there, scores, 0.0),
            LABELS: tf.where(is_there, tf.gather(class_names, tf.cast(ids, tf.int32)), b""),
            COUNT: count,
            CLASSES: repeat_names(class_names, count),
        }

    def place_answers(
        self, answers: dict[str, tf.Tensor], windows: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Boxes of the images: the view has cut off some of them."""
        corners, lengths = (tf.tile(part, [1, 2])[:, None] for part in tf.split(windows, 2, axis=1))
        is_there = tf.sequence_mask(answers[COUNT], MOST_OBJECTS)[..., None]
        placed = tf.clip_by_value(corners + answers[BOXES] * lengths, 0, 1)
        return {**answers, BOXES: tf.where(is_there, placed, 0.0)}

    def answer_records(self, outputs: Outputs) -> dict[str, tf.Tensor]:
        """The objects that were found, all NaN if any output is not finite."""
        found, scores, ids, count = _suppress(outputs)
        ids = tf.where(tf.sequence_mask(count, MOST_OBJECTS), ids, -1.0)
        objects = tf.concat([found, ids[..., None], scores[..., None]], axis=-1)
        # A score that is not a number is less than any, and would not show.
        is_finite = tf.reduce_all(tf.math.is_finite(outputs[BOXES]), axis=[1, 2]) & tf.reduce_all(
            tf.math.is_finite(outputs[SCORES]), axis=[1, 2]
        )
        return {OBJECTS: tf.where(is_finite[:, None, None], objects, np.float32("nan"))}

    def read_truth(
        self, examples: tf.Tensor, transform: TransformGraph, view: ViewOptions
    ) -> dict[str, tf.Tensor]:
        """The boxes, as the model sees their images.

        Crowds are not to be counted, and neither are boxes of which the view shows so little that
        they are not fed (if `feeding.min_visible` is as by default): who finds them is not wrong.
        """
        sides = parse.columns_of((record.HEIGHT, record.WIDTH))
        parsed = parse.parse_batch(examples, [*boxes.COLUMNS, *sides])
        crowds = parsed[record.BOX_CROWD.key]
        own = {
            record.BOX_CROWD.key: tf.zeros_like(crowds),
            "height": parsed[record.HEIGHT],
            "width": parsed[record.WIDTH],
        }
        placed = boxes.place_boxes({**parsed, **own}, None, view, None)
        is_there = tf.reduce_any(placed[boxes.PLACES] > 0, axis=-1)
        ids = tf.where(is_there, placed[boxes.BOX_LABELS], boxes.NO_BOX)
        # Where no image has a box, the list is padded to one; crowds would have none.
        crowds = tf.pad(crowds, [[0, 0], [0, tf.shape(ids)[1] - tf.shape(crowds)[1]]])
        is_seen = placed[boxes.VISIBLE] >= FeedingOptions().min_visible
        is_left_out = (crowds != 0) | ~is_seen
        further = (tf.cast(each, tf.float32)[..., None] for each in (ids, is_left_out))
        return {OBJECTS: tf.concat([placed[boxes.PLACES], *further], axis=-1)}


def _suppress(outputs: Outputs) -> tuple[tf.Tensor, ...]:
    """The objects of candidates: of those that overlap, the likeliest, and none that is unlikely.

    Returns:
      float32 [batch, MOST_OBJECTS, 4], clipped at the view's sides, and their scores and classes'
      ids, float32 [batch, MOST_OBJECTS]; and how many there are, int32 [batch].
    """
    return tuple(
        tf.image.combined_non_max_suppression(
            outputs[BOXES][:, :, tf.newaxis],
            outputs[SCORES],
            max_output_size_per_class=MOST_OBJECTS,
            max_total_size=MOST_OBJECTS,
            iou_threshold=MOST_OVERLAP,
            score_threshold=LEAST_SCORE,
        )
    )


DETECTION: Task = Detection()
