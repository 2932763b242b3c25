import types

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.training.scoring import score_records
from image_pipeline.components.training.signatures import EXAMPLES, PROBABILITIES, SERVE_EXAMPLES

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


@pytest.fixture
def length_of_nothing(model_dir, monkeypatch):
    """Makes the model give NaN for an empty record."""
    load = tf.saved_model.load

    def load_broken(folder):
        model = load(folder)
        classify = model.signatures[SERVE_EXAMPLES]

        def divide(**inputs):
            lengths = classify(**inputs)[PROBABILITIES]
            return {PROBABILITIES: lengths / lengths}

        return types.SimpleNamespace(signatures={SERVE_EXAMPLES: divide})

    monkeypatch.setattr(tf.saved_model, "load", load_broken)
    return model_dir


def test_a_model_that_gives_no_numbers_is_refused(length_of_nothing):
    scores = score_records(length_of_nothing, [[b"a"], [b""]])
    np.testing.assert_array_equal(next(scores), [[1, 1]])
    with pytest.raises(UserError, match="finite probabilities, but gives nan for stored records"):
        next(scores)


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
