"""An exported model's answers for stored records."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from image_pipeline.components.training.non_finite import check_probabilities
from image_pipeline.components.training.signatures import EXAMPLES, PROBABILITIES, SERVE_EXAMPLES


def score_records(model_dir: str, batches: Iterable[Sequence[bytes]]) -> Iterator[np.ndarray]:
    """Classifies records as evaluation does: by the model's signature for records.

    Args:
      model_dir: a SavedModel that `serving.export_model` wrote.
      batches: batches of serialized tf.train.Examples; read lazily.

    Yields:
      float32 [batch, classes], probabilities in the order of the vocabulary, for each batch.

    Raises:
      UserError: if they are not finite.
    """
    model = tf.saved_model.load(model_dir)
    classify = model.signatures[SERVE_EXAMPLES]
    for batch in batches:
        answer = classify(**{EXAMPLES: tf.constant(list(batch), tf.string)})
        yield check_probabilities(answer[PROBABILITIES].numpy(), "stored records")
