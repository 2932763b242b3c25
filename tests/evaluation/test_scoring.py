import types

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.arrays.in_place import make_reference
from image_pipeline.components.dataset.stored import IMAGE_KEYS
from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.scoring import score_records
from image_pipeline.components.tasks.signatures import EXAMPLES, PROBABILITIES, SERVE_EXAMPLES
from tests.array_files import IMAGES, write_npz
from tests.arrays.test_array_tables import open_table

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


def _write_record(image):
    """A record of a raw image of 6 x 5 x 3; `image` is its pixels, or where they are."""
    example = tf.train.Example()
    for key, value in zip(IMAGE_KEYS, (image, 6, 5, 3, b"raw"), strict=True):
        values = example.features.feature[key]
        kind = values.int64_list if isinstance(value, int) else values.bytes_list
        kind.value.append(value)
    return example.SerializeToString()


def test_images_that_stay_where_they_are_are_fetched(model_dir, tmp_path):
    table = open_table(write_npz(tmp_path / "a.npz", {"x": IMAGES}))
    ref = next(table.list())
    pixels = IMAGES[0].tobytes()
    placed = _write_record(make_reference(ref, table.read(ref, 10**6), pixels))
    whole = _write_record(pixels)
    assert len(placed) != len(whole)
    (scores,) = score_records(model_dir, [[placed, whole, b"a"]])
    np.testing.assert_array_equal(scores[:, 0], [len(whole), len(whole), 1])
