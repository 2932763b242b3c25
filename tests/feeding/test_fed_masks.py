"""Masks in batches: beside the pixels of images without, damaged, moved by a user's step, packed.

What all labels have in common is in `tests/contracts`.
"""

import collections
import gzip
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from image_pipeline.components.augment import draws
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.views.options import ViewOptions
from tests.contracts.fed import assert_same, check_follow, each, number_of, read
from tests.contracts.kinds import CROP, KINDS, WIDTH
from tests.ingest_runs import ingest
from tests.shards import flip_bit

pytestmark = pytest.mark.beam

MASK = KINDS["mask"]
SMALL = ViewOptions(height_px=18, width_px=20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """`data` with masks and `plain` of the same images without."""
    folder = tmp_path_factory.mktemp("fed")
    table = MASK.write(folder / "raw")
    ingest(table, folder / "data")
    ingest(table, folder / "plain", columns={"mask": None}, label_pattern=None)
    return folder


def test_the_order_and_the_pixels_are_those_of_images_without_masks(folder):
    plain = [str(folder / "plain/Split-train/*")]
    for options in ({"augment": CROP, "seed": 5, "epochs": 2}, {"view": SMALL}):
        both = read(folder, **options), read(folder, files=plain, **options)
        for (images, _), (others, labels) in zip(*both, strict=True):
            np.testing.assert_array_equal(images, others)
            assert set(labels) == {b""}


@pytest.mark.parametrize("more", [{}, {"augment": CROP}, {"mode": "eval"}], ids=str)
def test_masks_of_a_smaller_view_follow(folder, more):
    check_follow(MASK, read(folder, view=SMALL, **more))


def move(images, keys, masks=None):
    """A user's step: the left half to the right, of some."""
    is_moved = (draws.uniform(keys, 1)[:, 0] < 0.5)[:, None, None, None]
    moved = [
        None if each is None else tf.where(is_moved, tf.roll(each, WIDTH // 2, axis=2), each)
        for each in (images, masks)
    ]
    return moved[0] if masks is None else moved


def test_a_user_s_step_moves_masks(folder):
    batches = read(folder, augment=[f"{__name__}.move"])
    check_follow(MASK, batches)
    moved = [(mask != MASK.truth(number_of(image))).any() for image, mask in each(batches)]
    assert 0 < sum(moved) < len(moved)


@pytest.fixture
def damaged(folder, tmp_path):
    """A copy of which a record of the first shard has a damaged mask; and its image's number."""
    shutil.copytree(folder / "data", tmp_path / "data")
    rows = pq.read_table(folder / "data/index.parquet").to_pylist()
    row = [each for each in rows if each["split"] == "train" and each["shard"] == 0][2]
    shard = min((tmp_path / "data/Split-train").iterdir())
    flip_bit(str(shard), shard.read_bytes().index(b"\x89PNG", row["record_offset"]) + 1)
    return tmp_path, int(row["source"][:2])


@pytest.mark.whole
@pytest.mark.parametrize("verify", ["always", "none"])
@pytest.mark.parametrize("hold_decoded", [True, False])
def test_a_damaged_mask_stops_or_is_skipped_with_its_image(damaged, verify, hold_decoded):
    folder, number = damaged
    options = {"verify": verify, "hold_decoded": hold_decoded, "batch_size": 5, "split": "train"}
    whole = read_manifest(str(folder / "data")).splits["train"].records
    with pytest.raises(tf.errors.OpError, match=r"mask|checksum"):
        read(folder, "eval", **options)
    for mode in ("eval", "train"):
        found = collections.Counter()
        for image, mask in each(read(folder, mode, bad_records="skip", epochs=2, **options)):
            assert_same(mask, MASK.truth(number_of(image)))
            found[number_of(image)] += 1
        assert number not in found
        assert (sum(found.values()) == 2 * whole) == (mode == "train")


def test_compressed_and_copied_shards_have_masks_too(folder, tmp_path):
    shard = min((folder / "data/Split-train").iterdir())
    copied, packed = tmp_path / "some.tfrecord", tmp_path / "Split-train"
    shutil.copy(shard, copied)
    packed.mkdir()
    (packed / f"{shard.name}.gz").write_bytes(gzip.compress(shard.read_bytes()))
    shutil.copy(folder / "data/manifest.json", tmp_path)
    for files in ([str(copied)], [str(packed / "*.gz")]):
        batches = read(folder, "eval", files=files, cache_dir=str(tmp_path / "cache"))
        assert batches
        for image, mask in each(batches):
            assert_same(mask, MASK.truth(number_of(image)))
