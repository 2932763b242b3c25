"""One deterministic view: analysis, evaluation, serving and TFMA see the same pixels.

Each path is taken to its end with a transform graph and a model that hand pixels through, so what
is compared is what the path really feeds: not the function that they are meant to share.
"""

import dataclasses
import io
import pathlib

import apache_beam as beam
import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_model_analysis as tfma
from PIL import Image
from tfx_bsl.public import tfxio
from tfx_bsl.tfxio.tf_example_record import TFExampleRecord

from image_pipeline.components import contract
from image_pipeline.components.dataset import record
from image_pipeline.components.evaluation.evaluation import evaluation_config
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.components.tasks.signatures import PROBABILITIES, SERVE_IMAGES
from image_pipeline.components.training import serving
from image_pipeline.components.transform.labels import label_ids
from image_pipeline.components.transform.record_batches import (
    ALL_PIXELS,
    adapter_config,
    read_view_batches,
)
from image_pipeline.components.views.options import ViewOptions
from tests import graphs
from tests.drawings import draw_smooth
from tests.tiers import wide
from tests.transform.analyze import make_pipeline

pytestmark = pytest.mark.beam

# Stored with a shorter side of 64 px: the view's centre crop takes 56 of those 64 pixels, and
# resizes nothing. 224 of 256 is the same at ImageNet's size.
STORED_PX = 64
VIEW = ViewOptions(height_px=56, width_px=56, crop_fraction=0.875)
# Needs a resize of what is stored.
RESIZING_VIEW = ViewOptions(height_px=40, width_px=48, crop_fraction=0.9)
PHOTOS = 8


@dataclasses.dataclass(frozen=True)
class DataSet:
    """Smooth photos and what ingest made of them; the file names are the photos' numbers."""

    photos: list[bytes]
    shard: str
    examples: list[bytes]

    def stored_images(self) -> list[bytes]:
        return [_feature(example, record.IMAGE) for example in self.examples]

    def photos_of_records(self) -> list[bytes]:
        names = [
            pathlib.PurePath(_feature(each, record.FILENAME).decode()) for each in self.examples
        ]
        return [self.photos[int(name.stem)] for name in names]


def _feature(example: bytes, key: str) -> bytes:
    return tf.train.Example.FromString(example).features.feature[key].bytes_list.value[0]


def _draw_photo(number: int) -> bytes:
    """A camera's file: 300 x 400 or upright, of sizes that do not divide evenly, lossless."""
    height, width = (300 + number, 401) if number % 2 else (400, 307 + number)
    # A sensor's noise, without which pixels that were never averaged would pass as well.
    noise = np.random.default_rng(number).normal(0, 4, (height, width, 3))
    pixels = np.clip(draw_smooth(number, height, width) + noise, 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def _ingest(folder: pathlib.Path, encoding: str) -> DataSet:
    photos = [_draw_photo(number) for number in range(PHOTOS)]
    for number, photo in enumerate(photos):
        path = folder / "images" / f"class{number % 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(photo)
    options = IngestOptions.model_validate(
        {"prepare": {"encoding": encoding, "size_px": STORED_PX}, "splits": {"eval": 1.0}}
    )
    paths = (str(folder / name) for name in ("images", "data", "work"))
    run_ingest(*paths, options, make_pipeline)
    (shard,) = (folder / "data" / "Split-eval").iterdir()
    return DataSet(
        photos, str(shard), list(tf.data.TFRecordDataset(str(shard)).as_numpy_iterator())
    )


@pytest.fixture(scope="module", params=[wide("png"), "jpeg"])
def data_set(request, tmp_path_factory):
    return _ingest(tmp_path_factory.mktemp(request.param), request.param)


def _hand_pixels_through(inputs):
    images = tf.cast(inputs[contract.IMAGE_INPUT], tf.float32)
    return {contract.IMAGE_OUTPUT: images, contract.LABEL_OUTPUT: label_ids(inputs["label"])}


@pytest.fixture(scope="module", params=[VIEW, wide(RESIZING_VIEW)], ids=["cropping", "resizing"])
def view(request):
    return request.param


@pytest.fixture(scope="module")
def export_dir(view, tmp_path_factory):
    """A model whose probabilities are the pixels of its normalised input, 0 to 255."""
    folder, size = tmp_path_factory.mktemp("export"), (view.height_px, view.width_px, view.channels)
    graph_dir = graphs.write_graph(folder / "graph", size, preprocessing_fn=_hand_pixels_through)
    inputs = keras.Input(size)
    model = keras.Model(inputs, keras.layers.Flatten()(inputs))
    names = [str(number) for number in range(model.output_shape[-1])]
    serving.export_model(model, graph_dir, view, names, str(folder / "model"))
    return str(folder / "model")


def _as_images(values, view) -> np.ndarray:
    """Handed-through pixels back to uint8 [n, height, width, channels]; none may be between two."""
    pixels = np.asarray(values).reshape(-1, view.height_px, view.width_px, view.channels)
    assert np.array_equal(pixels, np.round(pixels)) and 0 <= pixels.min() <= pixels.max() <= 255
    return pixels.astype(np.uint8)


def _seen_by_analysis(data_set, view) -> np.ndarray:
    adapter = tfxio.TensorAdapter(adapter_config(view))
    batches = read_view_batches(data_set.shard, view, 3, ALL_PIXELS, 1)
    tensors = [adapter.ToBatchTensors(batch)[contract.IMAGE_INPUT] for batch in batches]
    assert all(tensor.dtype == tf.uint8 for tensor in tensors)
    return np.concatenate(tensors)


def _seen_by_evaluation(data_set, view) -> np.ndarray:
    feeding = FeedingOptions(batch_size=3)
    batches = input_fn(
        [data_set.shard], view=view, feeding=feeding, transform_graph_dir=None, mode="eval"
    )
    return np.concatenate([images for images, _ in batches])


def _served(export_dir, encoded, view) -> np.ndarray:
    signature = tf.saved_model.load(export_dir).signatures[SERVE_IMAGES]
    outputs = signature(image_bytes=tf.constant(encoded))
    return _as_images(outputs[PROBABILITIES], view)


def _seen_by_tfma(export_dir, data_set, view, log: pathlib.Path) -> np.ndarray:
    """What the Evaluator's extractors predict for serialized records, in the records' order."""
    config = evaluation_config(EvaluationOptions())
    shared = tfma.default_eval_shared_model(export_dir, eval_config=config)
    extractors = tfma.default_extractors(eval_shared_model=shared, eval_config=config)
    log.mkdir()

    def keep(extracts):  # of one record
        name = _feature(extracts[tfma.INPUT_KEY].item(), record.SOURCE_ID).decode()
        np.save(log / name, extracts[tfma.PREDICTIONS_KEY])

    with make_pipeline() as root:
        # As TFX's Evaluator reads: Arrow batches, with the serialized records as a column.
        source = TFExampleRecord(data_set.shard, raw_record_column_name=tfma.ARROW_INPUT_COLUMN)
        extracts = root | source.BeamSource(batch_size=3) | tfma.BatchedInputsToExtracts()
        for extractor in extractors:
            extracts = extracts | extractor.stage_name >> extractor.ptransform
        _ = extracts | beam.Map(keep)
    names = [_feature(example, record.SOURCE_ID).decode() for example in data_set.examples]
    return _as_images([np.load(log / f"{name}.npy") for name in names], view)


def test_four_paths_see_the_same_pixels_of_a_stored_image(data_set, view, export_dir, tmp_path):
    expected = _seen_by_analysis(data_set, view)
    assert expected.shape == (PHOTOS, view.height_px, view.width_px, 3)
    assert len({image.tobytes() for image in expected}) == PHOTOS
    np.testing.assert_array_equal(_seen_by_evaluation(data_set, view), expected)
    np.testing.assert_array_equal(_served(export_dir, data_set.stored_images(), view), expected)
    np.testing.assert_array_equal(
        _seen_by_tfma(export_dir, data_set, view, tmp_path / "log"), expected
    )


def _mean_difference(one: np.ndarray, other: np.ndarray) -> float:
    """Mean absolute difference, in grey levels."""
    return float(np.abs(one.astype(int) - other.astype(int)).mean())


@pytest.mark.wide
@pytest.mark.parametrize("view", [VIEW], ids=["cropping"], indirect=True)
@pytest.mark.parametrize("data_set", ["png"], indirect=True)
def test_a_cameras_file_gives_nearly_the_pixels_of_its_stored_copy(data_set, view, export_dir):
    stored = _served(export_dir, data_set.stored_images(), view)
    camera = _served(export_dir, data_set.photos_of_records(), view)
    difference = _mean_difference(camera, stored)
    assert 0 < difference < 1
    assert _mean_difference(camera, stored[::-1]) > 10  # the measure does tell photos apart


@pytest.mark.wide
def test_a_turned_cameras_file_is_served_upright(view, export_dir):
    picture, turned = Image.fromarray(draw_smooth(1, 300, 400)), io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise
    picture.save(turned, "JPEG", quality=95, exif=exif)
    options = PrepareOptions(encoding="png", resize="none")
    stored = prepare_image(turned.getvalue(), options).encoded
    served = _served(export_dir, [turned.getvalue(), stored], view)
    np.testing.assert_array_equal(served[0], served[1])
