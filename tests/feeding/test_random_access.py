"""The records of a split by number, as PyTorch and Grain read them. No TensorFlow is imported."""

import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from image_pipeline.api import random_access
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.dataset.tfrecord import read_records
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.random_access import RandomAccess
from tests.drawings import write_folder
from tests.ingest_runs import ingest
from tests.tiers import wide

pytestmark = pytest.mark.beam

READ = """
import sys
from image_pipeline.api import random_access
records = random_access(sys.argv[1])
items = records.__getitems__(range(len(records)))
print(len(items), sum(int(item["image"].sum()) for item in items), "tensorflow" in sys.modules)
"""


@pytest.fixture
def records(data_set):
    """The train split of `data_set`."""
    return RandomAccess(str(data_set), columns=[record.FILENAME, record.SOURCE_ID])


def _stored(train_shards):
    for path in train_shards:
        with open(path, "rb") as file:
            yield from map(record.decode_example, read_records(file))


def _sums(records):
    return [int(records[number]["image"].sum()) for number in range(len(records))]


def test_items_are_the_records_in_their_order(records, data_set, train_shards):
    expected = list(_stored(train_shards))
    assert len(records) == len(expected)
    for item, features in zip(records, expected, strict=True):
        source = data_set.parent / "images" / os.fsdecode(features[record.FILENAME])
        assert np.array_equal(item["image"], np.asarray(Image.open(source).convert("RGB")))
        assert records.classes[item["label"]] == features[record.LABEL].decode()
        assert item[record.FILENAME] == features[record.FILENAME]
        assert item[record.SOURCE_ID] == features[record.SOURCE_ID]
    assert item["image"].flags.writeable


def test_numbers_count_from_both_ends(records):
    last = len(records) - 1
    assert records[-1][record.SOURCE_ID] == records[np.int64(last)][record.SOURCE_ID]
    several = records.__getitems__([3, 0])
    assert [item[record.SOURCE_ID] for item in several] == [
        records[3][record.SOURCE_ID],
        records[0][record.SOURCE_ID],
    ]
    for number in (last + 1, -last - 2):
        with pytest.raises(IndexError, match=f"the records 0 to {last}, got {number}"):
            records[number]


def test_undecoded_images_are_the_stored_bytes(data_set, train_shards):
    records = RandomAccess(str(data_set), decode="none")
    for item, features in zip(records, _stored(train_shards), strict=True):
        assert item["image"] == features[record.IMAGE]


@pytest.mark.parametrize("encoding", ["jpeg", "png", "raw"])
@pytest.mark.parametrize("gray", [False, True])
def test_pixels_are_those_that_training_sees(encoding, gray, tmp_path):
    from image_pipeline.api import input_fn

    images = write_folder(tmp_path / "images", per_class=3)
    if gray:
        for path in images.rglob("*.png"):
            Image.open(path).convert("L").save(path)
    ingest(images, tmp_path / "data", prepare={"encoding": encoding, "resize": "none"})
    records = random_access(str(tmp_path / "data"))
    found = {item["image"].tobytes() for item in records}
    height, width, channels = records[0]["image"].shape
    view = {"height_px": height, "width_px": width, "channels": channels, "crop_fraction": 1.0}
    fed = input_fn(str(tmp_path / "data"), mode="eval", view=view, batch_size=1)
    assert found == {images[0].numpy().tobytes() for images, _ in fed}


def test_a_split_without_some_class_numbers_it_as_the_others_do(data_set, tmp_path):
    images = write_folder(tmp_path / "images", per_class=2)
    first, second = sorted(path.name for path in images.iterdir())
    pattern = rf"(?P<split>{second})/.+"
    ingest(images, tmp_path / "data", split_pattern=pattern, split_names={second: "eval"}, shards=1)
    records = RandomAccess(str(tmp_path / "data"), "eval")
    assert records.classes == (first, second)
    assert records[0]["label"] in (0, 1)
    for split in ("train", "eval"):
        for item in RandomAccess(str(tmp_path / "data"), split, columns=[record.LABEL]):
            assert records.classes[item["label"]] == item[record.LABEL].decode()


def test_it_needs_no_tensorflow(data_set, records):
    done = subprocess.run(
        [sys.executable, "-c", READ, str(data_set)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(len(records)), str(sum(_sums(records))), "False"]


@pytest.mark.parametrize("start", ["fork", wide("spawn")])
def test_processes_share_it(records, start):
    records[0]  # Its file is open before.
    context = multiprocessing.get_context(start)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(_sums, [records, records])) == [_sums(records)] * 2


def test_threads_share_it(records):
    expected = _sums(records)
    numbers = np.random.default_rng(0).integers(0, len(records), 500).tolist()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: int(records[number]["image"].sum()), numbers))
    assert found == [expected[number] for number in numbers]


def test_pickled_it_is_its_arguments(records):
    pickled = pickle.dumps(records)
    assert len(pickled) < 1000
    again = pickle.loads(pickled)
    assert repr(again) == repr(records) and "checksum='" in repr(records)
    assert _sums(again) == _sums(records)


def test_another_data_set_in_its_place_is_not_taken_for_it(tmp_path):
    images = write_folder(tmp_path / "images", per_class=3)
    ingest(images, tmp_path / "data")
    pickled = pickle.dumps(RandomAccess(str(tmp_path / "data")))
    shutil.rmtree(tmp_path / "data")
    ingest(images, tmp_path / "data", seed=1)
    with pytest.raises(UserError, match=r"was replaced since these records were opened; open it"):
        pickle.loads(pickled)


def test_damage_names_the_record(damaged):
    data_dir = damaged[0].rpartition("/Split-")[0]
    index = read_index(damaged)
    records = RandomAccess(data_dir)
    assert len(index) == len(records)
    with pytest.raises(UserError, match=r"record 2 of .*data_tfrecord-00000.* is damaged"):
        records[2]
    assert records[1]["image"].ndim == 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"split": "trian"}, r"split must be one of those in .*, got 'trian'; known: train, eval"),
        ({"decode": "tensor"}, r"decode must name what there is, pixels, none, got 'tensor'"),
        ({"columns": ["image/file"]}, r"columns must name .*image/class/text.*, got 'image/file'"),
    ],
)
def test_wrong_arguments_are_refused(data_set, wrong, message):
    with pytest.raises(UserError, match=message):
        RandomAccess(str(data_set), **wrong)


def test_masks_come_with_their_images(tmp_path):
    folder = tmp_path / "pairs"
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True)
    ids = np.arange(12, dtype=np.uint8).reshape(3, 4) % 3
    for number in range(3):
        Image.new("RGB", (4, 3), (number, 0, 0)).save(folder / f"images/{number}.png")
        Image.fromarray((ids + number) % 3).save(folder / f"masks/{number}.png")
    masks = {"images": "images/{key}.png", "masks": "masks/{key}.png"}
    ingest(folder, tmp_path / "data", masks=masks, splits={"train": 1.0}, shards=1)
    items = list(RandomAccess(str(tmp_path / "data")))
    assert len(items) == 3
    for item in items:
        assert item.keys() == {"image", "mask"}
        assert np.array_equal(item["mask"], (ids + item["image"][0, 0, 0]) % 3)
