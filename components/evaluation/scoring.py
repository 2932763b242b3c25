"""An exported model's answers for stored records."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from image_pipeline.components.arrays.in_place import fetch, refers
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.stored import take_parsed_image
from image_pipeline.components.tasks.signatures import EXAMPLES, PROBABILITIES, SERVE_EXAMPLES
from image_pipeline.components.training.non_finite import check_probabilities
from image_pipeline.components.trees import fetch_tree


def score_records(
    model_dir: str, batches: Iterable[Sequence[bytes]], answer: str = PROBABILITIES
) -> Iterator[np.ndarray]:
    """Asks a model about records as evaluation does: by its signature for records.

    Args:
      model_dir: a SavedModel that `serving.export_model` wrote.
      batches: batches of serialized tf.train.Examples; read lazily.
      answer: which of the signature's outputs, see `signatures`.

    Yields:
      That output for each batch; probabilities are float32 [batch, classes], in the order of the
      vocabulary.

    Raises:
      UserError: if probabilities are not finite, the file that has the images is gone, or the
        model's store does not answer.
    """
    model = tf.saved_model.load(fetch_tree(model_dir))
    classify = model.signatures[SERVE_EXAMPLES]
    for batch in batches:
        found = classify(**{EXAMPLES: tf.constant(list(map(fetch_record, batch)), tf.string)})[
            answer
        ].numpy()
        yield check_probabilities(found, "stored records") if answer == PROBABILITIES else found


def fetch_record(serialized: bytes) -> bytes:
    """A serialized record with its image, also if it holds only where that is.

    Raises:
      UserError: if the file that has the image is gone, or was changed.
    """
    if not refers(serialized):
        return serialized
    example = tf.train.Example.FromString(serialized)
    feature = example.features.feature
    feature[record.IMAGE].bytes_list.value[0] = bytes(fetch(take_parsed_image(feature)).encoded)
    return example.SerializeToString()
