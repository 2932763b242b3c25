"""Images of other types than 8-bit gray and RGB, from files to batches: every value stays."""

import pathlib

import cv2
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.images import load_image
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.views.fast import take_eval_view
from image_pipeline.components.views.graph import eval_view
from image_pipeline.components.views.options import ViewOptions
from tests.fed_views import read_views
from tests.ingest_runs import ingest, read_lines

pytestmark = pytest.mark.unit

HEIGHT, WIDTH, COUNT = 6, 8, 10
KINDS = [("uint8", 4), ("uint16", 1), ("uint16", 13), ("float16", 2), ("float32", 3)]
OPTIONS = {"encoding": "raw", "resize": "none"}


def draw(dtype, channels, number):
    """Values of which no two images have the same, and which use all of the type."""
    random = np.random.default_rng([number, channels])
    shape = (HEIGHT, WIDTH, channels)
    if dtype.startswith("uint"):
        return random.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    return (random.normal(0, 300, shape)).astype(dtype)


def write(folder, dtype, channels):
    for number in range(COUNT):
        path = folder / f"class {number % 2}" / f"{number}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, draw(dtype, channels, number))
    return folder


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: f"{kind[0]} x {kind[1]}")
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def data_set(kind, tmp_path_factory):
    dtype, channels = kind
    folder = tmp_path_factory.mktemp("deep")
    images = write(folder / "images", dtype, channels)
    prepare = OPTIONS | {"dtype": dtype, "channels": channels}
    manifest = ingest(images, folder / "data", prepare=prepare)
    return folder / "data", manifest


@pytest.fixture
def shards(data_set):
    return sorted(str(path) for path in data_set[0].glob("Split-*/*"))


def view_of(dtype, channels, height_px=HEIGHT, width_px=WIDTH):
    kind = "uint8" if dtype == "uint8" else "float32"
    return ViewOptions(height_px=height_px, width_px=width_px, channels=channels, dtype=kind)


def test_every_value_is_stored_and_read_back(kind, data_set, shards):
    dtype, channels = kind
    manifest = data_set[1]
    assert (manifest.dtype, manifest.channels) == (dtype, channels)
    assert manifest.books.written == COUNT
    assert not verify_data_set(str(data_set[0]))
    records = StoredRecords(read_index(shards))
    assert records.index.dtype == dtype
    for row in range(COUNT):
        values = record.decode_example(records.read(row))
        number = int(values[record.FILENAME].split(b"/")[1].removesuffix(b".npy"))
        expected = draw(dtype, channels, number)
        assert values[record.FORMAT] == record.name_raw(dtype)
        assert values[record.CHANNELS] == channels
        assert values[record.COLORSPACE] == {1: b"GRAY", 3: b"RGB"}.get(channels, b"OTHER")
        assert values[record.IMAGE] == expected.tobytes()
        loaded = load_image(records, row, channels)
        assert loaded.dtype == expected.dtype
        np.testing.assert_array_equal(loaded, expected)


@pytest.mark.parametrize("options", [{}, {"hold_decoded": False}], ids=str)
def test_batches_have_every_value(kind, shards, options):
    view = view_of(*kind)
    feeding = FeedingOptions(batch_size=4, augment=(), **options)
    expected = {draw(*kind, number).astype(view.dtype).tobytes() for number in range(COUNT)}
    for mode in ("train", "eval"):
        batches = input_fn(
            *[shards], view=view, feeding=feeding, transform_graph_dir=None, mode=mode, epochs=2
        )
        found = [image for images, _ in batches.as_numpy_iterator() for image in images]
        assert {image.dtype.name for image in found} == {view.dtype}
        assert len(found) == 2 * COUNT
        assert {image.tobytes() for image in found} == expected


def test_views_for_the_analysis_have_every_value(kind, shards):
    view = view_of(*kind)
    expected = {draw(*kind, number).astype(view.dtype).tobytes() for number in range(COUNT)}
    views = read_views(shards, view, 4)
    assert {i.tobytes() for b in views.as_numpy_iterator() for i in b["image"]} == expected


def test_serving_makes_the_same_views(kind, shards):
    """Cut, shrunk and enlarged: in a graph, and by the faster libraries."""
    records = StoredRecords(read_index(shards))
    for size in ((HEIGHT, WIDTH), (4, 4), (4, 7), (11, 13)):
        view = view_of(*kind, *size)
        found = np.empty((*size, kind[1]), view.dtype)
        for row in (0, 7):
            features = parse.parse_record(tf.constant(records.read(row)), parse.IMAGE_COLUMNS)
            take_eval_view(load_image(records, row, kind[1]), view, found)
            served = eval_view(parse.decode_record(features, view), view)
            np.testing.assert_array_equal(served, found)


def test_a_view_of_another_type_or_number_of_channels_is_refused(kind, shards):
    dtype, channels = kind
    other = "float32" if dtype == "uint8" else "uint8"
    feeding = FeedingOptions(batch_size=4)
    wrong = ViewOptions(dtype=other, channels=channels), view_of(dtype, channels + 1)
    messages = f"set view.dtype={view_of(*kind).dtype}", f"have {channels} channels"
    for view, message in zip(wrong, messages, strict=True):
        with pytest.raises(UserError, match=message):
            input_fn(shards, view=view, feeding=feeding, transform_graph_dir=None, mode="train")


def test_records_without_a_manifest_are_told_by_themselves(kind, shards, tmp_path):
    path = tmp_path / "some.tfrecord"
    path.write_bytes(pathlib.Path(shards[0]).read_bytes())
    feeding, view = FeedingOptions(batch_size=1, augment=()), view_of(*kind)
    batches = input_fn(
        [str(path)], view=view, feeding=feeding, transform_graph_dir=None, mode="eval"
    )
    assert next(batches.as_numpy_iterator())[0].dtype == view.dtype
    other = view.model_copy(update={"dtype": "float32" if kind[0] == "uint8" else "uint8"})
    with pytest.raises(UserError, match=f"stored as {kind[0]}"):
        input_fn([str(path)], view=other, feeding=feeding, transform_graph_dir=None, mode="eval")


def test_what_does_not_fit_is_quarantined_and_says_why(tmp_path):
    images = write(tmp_path / "images", "uint16", 2)
    gray = draw("uint16", 1, 0)[..., 0]
    np.save(images / "class 0" / "gray.npy", gray)
    np.save(images / "class 0" / "floats.npy", draw("float32", 2, 0))
    (images / "class 0" / "cut.npy").write_bytes((images / "class 0" / "0.npy").read_bytes()[:-5])
    cv2.imwrite(str(images / "class 0" / "gray.png"), gray)
    cv2.imwrite(str(images / "class 0" / "small.png"), (gray >> 8).astype(np.uint8))
    np.save(images / "labels.npy", np.arange(10))
    prepare = OPTIONS | {"dtype": "uint16", "channels": 2}
    manifest = ingest(images, tmp_path / "data", prepare=prepare, max_bad_fraction=0.9)
    assert (manifest.books.written, manifest.books.quarantined) == (COUNT, 5)
    assert manifest.books.skipped_examples == {"other_file": "labels.npy"}
    lines = read_lines(tmp_path / "data" / "quarantine.jsonl")
    assert {line["path"].split("/")[1]: (line["reason"], line["message"]) for line in lines} == {
        name: (reason, message)
        for name, reason, message in [
            (
                *("cut.npy", "truncated"),
                "187 bytes of data, where the .npy header asks for 192",
            ),
            (
                *("floats.npy", "unsupported"),
                "its values are float32, but ingest.prepare.dtype=uint16; store such images by "
                "themselves, with ingest.prepare.dtype=float32",
            ),
            *(
                (
                    *(name, "unsupported"),
                    "it has 1 channel, but ingest.prepare.channels=2; store other images by "
                    "themselves",
                )
                for name in ("gray.npy", "gray.png")
            ),
            (
                *("small.png", "unsupported"),
                "its values are uint8, but ingest.prepare.dtype=uint16; store such images by "
                "themselves, with ingest.prepare.dtype=uint8",
            ),
        ]
    }


def test_gray_of_16_bits_is_read_as_rgb_too(tmp_path):
    images = write(tmp_path / "images", "uint16", 1)
    prepare = OPTIONS | {"dtype": "uint16", "color": "gray"}
    ingest(images, tmp_path / "data", prepare=prepare)
    shards = sorted(str(path) for path in tmp_path.glob("data/Split-*/*"))
    expected = {draw("uint16", 1, n).repeat(3, axis=2).astype("f4").tobytes() for n in range(COUNT)}
    batches = input_fn(
        shards,
        view=view_of("uint16", 3),
        feeding=FeedingOptions(batch_size=4, augment=()),
        transform_graph_dir=None,
        mode="train",
        epochs=2,
    )
    found = {image.tobytes() for images, _ in batches.as_numpy_iterator() for image in images}
    assert found == expected


def test_data_sets_of_different_types_are_not_read_together(tmp_path):
    shards = []
    for dtype in ("uint16", "float32"):
        images = write(tmp_path / dtype, dtype, 2)
        prepare = OPTIONS | {"dtype": dtype, "channels": 2}
        ingest(images, tmp_path / f"of {dtype}", prepare=prepare)
        shards += sorted(str(path) for path in tmp_path.glob(f"of {dtype}/Split-train/*"))
    with pytest.raises(UserError, match=r"of one type, got float32 .* and uint16 .*; ingest"):
        read_index(shards)


def test_near_duplicates_are_of_8_bits():
    with pytest.raises(ValueError, match="near_duplicates compares 8-bit gray or RGB images only"):
        IngestOptions.model_validate(
            {"near_duplicates": 4, "prepare": {"dtype": "uint16", "encoding": "raw"}}
        )
