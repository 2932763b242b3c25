"""A data set in place has the order, the lists and the batches of one with a copy."""

import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from image_pipeline.components.augment.options import FlipHorizontal
from image_pipeline.components.dataset.index import read_index, read_table
from image_pipeline.components.dataset.paths import DUPLICATES, INDEX, QUARANTINE
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.images import load_image
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.views.options import ViewOptions
from tests.array_files import IMAGES, write_hdf5
from tests.drawings import write_folder
from tests.ingest_runs import ingest, update

pytestmark = pytest.mark.beam

PREPARE = {"encoding": "raw", "resize": "none"}
LABELS = np.arange(len(IMAGES)) % 3
OTHER = {"record_offset", "record_length", "payload_offset", "payload_length"}
SETTINGS = {"contiguous": {}, "chunked": {"chunks": (7, 4, 5, 2), "compression": "gzip"}}


@pytest.fixture(scope="module", params=SETTINGS)
def outputs(request, tmp_path_factory):
    """Of one file with a copy of an image, and a label that is missing: copied, and in place."""
    folder = tmp_path_factory.mktemp("in_place")
    images, labels = IMAGES.copy(), LABELS.astype(float)
    images[30], labels[7], labels[30] = images[3], np.nan, labels[3]
    path = write_hdf5(folder / "a.h5", {"x": images, "y": labels}, **SETTINGS[request.param])
    for name in ("copied", "placed"):
        options = {"prepare": PREPARE, "in_place": name == "placed", "max_bad_fraction": 0.1}
        ingest(path, folder / name, **options)
    return folder


def _read(output, mode, **options):
    batches = _make(output, mode, **options)
    return [(image.tolist(), label.tolist()) for image, label in batches.as_numpy_iterator()]


def _make(output, mode, split="train", **options):
    feeding = FeedingOptions(batch_size=4, augment=(FlipHorizontal(),), **options)
    arguments = {"view": ViewOptions(height_px=5, width_px=5), "feeding": feeding}
    where = {"transform_graph_dir": None, "mode": mode, "seed": 3, "first_epoch": 2}
    files = [f"{output}/Split-{split}/*"]
    return input_fn(files, **arguments, **where, first_step=3 if split == "train" else 0)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize(
    "options",
    [{}, {"hold_decoded": False}, {"balance": "uniform"}],
)
def test_batches_are_the_same(outputs, mode, options):
    copied = _read(outputs / "copied", mode, **options)
    assert _read(outputs / "placed", mode, **options) == copied
    assert len(copied) > 4


def test_the_index_and_the_lists_are_the_same(outputs):
    tables = [pq.read_table(outputs / name / INDEX) for name in ("copied", "placed")]
    same = [name for name in tables[0].column_names if name not in OTHER]
    assert tables[0].select(same) == tables[1].select(same)
    for name in (QUARANTINE, DUPLICATES):
        content = (outputs / "placed" / name).read_bytes()
        assert content == (outputs / "copied" / name).read_bytes()
        assert content
    assert verify_data_set(str(outputs / "placed")) == []


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz"])
def test_members_of_an_archive_stay_there(tmp_path, name):
    images = write_folder(tmp_path / "images", per_class=20)
    ending = {"a.zip": "zip", "a.tar": "tar", "a.tar.gz": "gztar"}[name]
    shutil.make_archive(str(tmp_path / "a"), ending, images)
    prepare = {"encoding": "original", "resize": "none"}
    ingest(images, tmp_path / "copied", prepare=prepare)
    ingest(tmp_path / name, tmp_path / "placed", prepare=prepare, in_place=True)
    assert _read(tmp_path / "placed", "train") == _read(tmp_path / "copied", "train")


@pytest.mark.parametrize("is_placed", [True, False])
def test_floats_of_many_channels(tmp_path, is_placed):
    images = np.random.default_rng(2).normal(size=(20, 6, 5, 4)).astype(np.float32)
    path = write_hdf5(tmp_path / "a.h5", {"x": images}, chunks=(7, 6, 5, 2), compression="gzip")
    prepare = PREPARE | {"dtype": "float32", "channels": 4}
    ingest(path, tmp_path / "out", prepare=prepare, in_place=is_placed)
    shards = sorted(map(str, tmp_path.glob("out/Split-*/*")))
    records = StoredRecords(read_index(shards))
    names = read_table(shards, ["source"])["source"].to_pylist()
    for row, name in enumerate(names):
        pixels = load_image(records, row, channels=4)
        assert np.array_equal(pixels, images[int(name.rpartition("/")[2])])
        assert pixels.dtype == np.float32
    assert len(names) == 20


def test_a_file_that_is_gone_is_an_error_before_the_first_batch(tmp_path):
    path = write_hdf5(tmp_path / "a.h5", {"x": IMAGES, "y": LABELS})
    ingest(path, tmp_path / "out", prepare=PREPARE, in_place=True)
    batches = _make(tmp_path / "out", "train")
    path.rename(tmp_path / "b.h5")
    with pytest.raises(UserError, match=r"a.h5' \(ingest.in_place\), which is gone"):
        _make(tmp_path / "out", "train")
    # While batches are read, TensorFlow quotes the error: its sentence, and little more.
    with pytest.raises(tf.errors.UnknownError, match=r"a.h5' \(ingest.in_place\)") as caught:
        list(batches)
    assert len(str(caught.value).splitlines()) < 30
    assert "FileNotFoundError" not in str(caught.value)


def test_a_data_set_is_looked_at_by_the_first_record_of_every_shard(tmp_path):
    for split, rows in {"train": slice(30), "eval": slice(30, 50)}.items():
        write_hdf5(tmp_path / f"{split}.h5", {"x": IMAGES[rows], "y": LABELS[rows]})
    pattern = tmp_path / "{SPLIT}.h5"
    ingest(pattern, tmp_path / "out", prepare=PREPARE, in_place=True)
    (tmp_path / "eval.h5").write_bytes(b"")
    assert _read(tmp_path / "out", "train")
    with pytest.raises(UserError, match=r"eval.h5' \(ingest.in_place\), which was changed"):
        _make(tmp_path / "out", "eval", split="eval")


def test_references_are_taken_where_the_file_has_not_changed(outputs, tmp_path):
    options = {"prepare": PREPARE, "in_place": True, "max_bad_fraction": 0.1}
    taken = update(outputs / "a.h5", outputs / "placed", tmp_path / "again", **options)
    assert taken == len(IMAGES) - 2  # A copy is stored nowhere, and one has no label.


def test_references_are_made_anew_where_images_have_moved(tmp_path):
    path, options = tmp_path / "a.h5", {"prepare": PREPARE, "in_place": True}
    ingest(write_hdf5(path, {"x": IMAGES, "y": LABELS}), tmp_path / "out", **options)
    path.unlink()
    write_hdf5(path, {"x": IMAGES[::-1], "y": LABELS[::-1]})
    assert update(path, tmp_path / "out", tmp_path / "moved", **options) == 0


def test_images_that_would_be_converted_stop_the_run(tmp_path):
    path = write_hdf5(tmp_path / "a.h5", {"x": IMAGES[..., 0], "y": LABELS})
    with pytest.raises(UserError, match="needs pixels as they are to be stored"):
        ingest(path, tmp_path / "out", prepare=PREPARE, in_place=True)
    ingest(path, tmp_path / "out", prepare=PREPARE | {"color": "gray"}, in_place=True)


def test_frames_of_videos_are_nowhere_in_a_file():
    with pytest.raises(ValueError, match="in_place cannot read frames of videos; leave out"):
        IngestOptions(prepare=PREPARE, in_place=True, video={"frames_per_second": 1})
