"""Images of other types than 8-bit gray and RGB, from files to batches: every value stays."""

import numpy as np
import pytest

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.feeding.images import load_image
from image_pipeline.components.feeding.input_fn import input_fn, read_views
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions
from tests.ingest_runs import ingest

pytestmark = pytest.mark.unit

HEIGHT, WIDTH, COUNT = 6, 8, 10
KINDS = [("uint8", 4), ("uint16", 1), ("uint16", 13), ("float16", 2), ("float32", 3)]


def draw(dtype, channels, number, height=HEIGHT, width=WIDTH):
    """Values of which no two images have the same, and which use all of the type."""
    random = np.random.default_rng([number, channels])
    shape = (height, width, channels)
    if dtype.startswith("uint"):
        return random.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    return (random.normal(0, 300, shape)).astype(dtype)


def write(folder, dtype, channels, **size):
    for number in range(COUNT):
        path = folder / f"class {number % 2}" / f"{number}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, draw(dtype, channels, number, **size))
    return folder


def store(tmp_path, dtype, channels, **options):
    images = write(tmp_path / "images", dtype, channels)
    prepare = {"encoding": "raw", "resize": "none", "dtype": dtype, "channels": channels}
    return ingest(images, tmp_path / "data", prepare=prepare | options)


def shard_paths(tmp_path):
    return sorted(str(path) for path in tmp_path.glob("data/Split-*/*"))


def view_of(dtype, channels):
    kind = "uint8" if dtype == "uint8" else "float32"
    return ViewOptions(height_px=HEIGHT, width_px=WIDTH, channels=channels, dtype=kind)


@pytest.mark.parametrize(("dtype", "channels"), KINDS)
def test_every_value_is_stored_and_read_back(tmp_path, dtype, channels):
    manifest = store(tmp_path, dtype, channels)
    assert (manifest.dtype, manifest.channels) == (dtype, channels)
    assert manifest.books.written == COUNT
    assert not verify_data_set(str(tmp_path / "data"))
    records = StoredRecords(read_index(shard_paths(tmp_path)))
    assert records.index.dtype == dtype
    for row in range(COUNT):
        values = record.decode_example(records.read(row))
        number = int(values[record.FILENAME].split(b"/")[1].removesuffix(b".npy"))
        expected = draw(dtype, channels, number)
        assert values[record.FORMAT] == record.name_raw(dtype)
        assert values[record.CHANNELS] == channels
        assert values[record.IMAGE] == expected.tobytes()
        loaded = load_image(records, row, channels)
        assert loaded.dtype == expected.dtype
        np.testing.assert_array_equal(loaded, expected)


@pytest.mark.parametrize(("dtype", "channels"), KINDS)
@pytest.mark.parametrize("source", ["indexed", "streaming"])
def test_batches_have_every_value(tmp_path, dtype, channels, source):
    store(tmp_path, dtype, channels)
    view = view_of(dtype, channels)
    feeding = FeedingOptions(batch_size=4, augment=(), source=source)
    expected = {draw(dtype, channels, n).astype(view.dtype).tobytes() for n in range(COUNT)}
    for mode in ("train", "eval"):
        batches = input_fn(
            shard_paths(tmp_path), view=view, feeding=feeding, transform_graph_dir=None, mode=mode,
            epochs=2,
        )  # fmt: skip
        found = [image for images, _ in batches.as_numpy_iterator() for image in images]
        assert {image.dtype.name for image in found} == {view.dtype}
        assert len(found) == 2 * COUNT
        assert {image.tobytes() for image in found} == expected
    views = read_views(shard_paths(tmp_path), view, 4)
    assert {i.tobytes() for b in views.as_numpy_iterator() for i in b["image"]} == expected
