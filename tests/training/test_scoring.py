import numpy as np
import pytest
import tensorflow as tf

from components.training.scoring import score_records
from components.training.serving import EXAMPLES, PROBABILITIES, SERVE_EXAMPLES

pytestmark = pytest.mark.unit


@pytest.fixture
def model_dir(tmp_path):
    """A model that gives each record its length, and 1."""

    class Lengths(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name=EXAMPLES)])
        def classify(self, examples):
            length = tf.cast(tf.strings.length(examples), tf.float32)
            return {PROBABILITIES: tf.stack([length, tf.ones_like(length)], axis=1)}

    model = Lengths()
    signatures = {SERVE_EXAMPLES: model.classify}
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=signatures)
    return str(tmp_path / "model")


def test_each_batch_gets_its_probabilities_when_it_is_asked_for(model_dir):
    read = []

    def batches():
        for batch in ([b"a", b"bb"], [b"ccc"]):
            read.append(batch)
            yield batch

    scores = score_records(model_dir, batches())
    np.testing.assert_array_equal(next(scores), [[1, 1], [2, 1]])
    assert len(read) == 1
    np.testing.assert_array_equal(next(scores), [[3, 1]])
    assert next(scores, None) is None
