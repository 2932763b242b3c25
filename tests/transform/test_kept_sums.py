"""Sums that an earlier graph has: only new images are decoded, and no bit of the result moves."""

import hashlib
import os
import pathlib
import shutil

import numpy as np
import pytest

from image_pipeline.components.dataset.record import IMAGE_COLUMN, read_feature
from image_pipeline.components.dataset.stored import StoredImage
from image_pipeline.components.dataset.tfrecord import read_records
from image_pipeline.components.transform import kept_sums
from image_pipeline.components.transform.kept_sums import (
    KEY,
    find_latest,
    hash_image,
    read_sums,
    write_sums,
)
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.record_batches import PixelSums, Wanted, read_views
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.components.views.options import ViewOptions
from tests import shards
from tests.drawings import draw, encode_png, write_folder
from tests.graphs import read_graph_files
from tests.ingest_runs import ingest
from tests.shards import flip_bit
from tests.tiers import wide
from tests.transform.analyze import make_pipeline

VIEW = ViewOptions(height_px=6, width_px=7)
FILE = ".pixel_sums"


def _draw_rows(count, channels=3):
    rng = np.random.default_rng(count)
    return rng.integers(-(2**63), 2**63, (count, KEY + 1 + 2 * channels), np.int64)


@pytest.mark.unit
def test_each_image_is_kept_once_and_found_whatever_the_order(tmp_path):
    rows = _draw_rows(40)
    rows[1, 0] = rows[2, 0] = rows[0, 0]  # Half of a hash may be that of others.
    write_sums(str(tmp_path / "a"), VIEW, [rows[:30], rows[:0], rows[20:]])
    write_sums(str(tmp_path / "b"), VIEW, [rows[::-1]])
    assert (tmp_path / "a" / FILE).read_bytes() == (tmp_path / "b" / FILE).read_bytes()
    kept = read_sums(str(tmp_path / "a"), VIEW)
    assert kept.rows.shape == (40, 9) and not kept.problem
    for row in rows:
        np.testing.assert_array_equal(kept.find(row[:KEY]), row)
        assert kept.find(row[:KEY] ^ [0, 1]) is None and kept.find(row[:KEY] ^ [1, 0]) is None
    write_sums(str(tmp_path / "b"), VIEW, [rows[5:12], _draw_rows(3)])
    assert kept.count_shared(read_sums(str(tmp_path / "b"), VIEW)) == 7


@pytest.mark.unit
def test_sums_of_images_that_are_gone_do_not_stay(tmp_path):
    write_sums(str(tmp_path), VIEW, [_draw_rows(4)])
    write_sums(str(tmp_path), VIEW, [_draw_rows(3)])
    assert len(read_sums(str(tmp_path), VIEW).rows) == 3
    write_sums(str(tmp_path), VIEW, [])
    assert not (tmp_path / FILE).exists()
    assert read_sums(str(tmp_path), VIEW)[1:] == ("",)


DAMAGED, FOREIGN = "damaged sums, by their checksum", "the sums of another view or version"


@pytest.mark.unit
@pytest.mark.parametrize("offset", [0, 31, 32, 63, 64, 64 + 8 * 9 * 3 - 1])
def test_damaged_sums_are_not_trusted(tmp_path, offset):
    write_sums(str(tmp_path), VIEW, [_draw_rows(3)])
    flip_bit(str(tmp_path / FILE), offset)
    kept = read_sums(str(tmp_path), VIEW)
    assert kept.rows.shape == (0, 9) and kept.problem == f"has {DAMAGED}"


@pytest.mark.unit
@pytest.mark.parametrize("size", [0, 10, 64, 64 + 8 * 9])
def test_cut_sums_are_not_trusted(tmp_path, size):
    write_sums(str(tmp_path), VIEW, [_draw_rows(3)])
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole[:size])
    assert read_sums(str(tmp_path), VIEW).problem == f"has {DAMAGED}"


@pytest.mark.unit
@pytest.mark.parametrize(
    "other", [{"height_px": 7}, {"width_px": 6}, {"channels": 1}, {"crop_fraction": 0.5}]
)
def test_sums_of_another_view_are_not_taken(tmp_path, other):
    write_sums(str(tmp_path), VIEW, [_draw_rows(3)])
    view = VIEW.model_copy(update=other)
    kept = read_sums(str(tmp_path), view)
    assert kept.rows.shape == (0, KEY + 1 + 2 * view.channels)
    assert kept.problem == f"has {FOREIGN}"


@pytest.mark.unit
def test_sums_of_other_code_or_another_library_are_not_taken(tmp_path, monkeypatch):
    write_sums(str(tmp_path), VIEW, [_draw_rows(3)])
    with monkeypatch.context() as patch:
        patch.setattr(kept_sums, "code_version", lambda *rooms: "another")
        kept_sums._read.cache_clear()
        assert read_sums(str(tmp_path), VIEW).problem == f"has {FOREIGN}"
    with monkeypatch.context() as patch:
        patch.setattr(kept_sums.cv2, "__version__", "0.0.0")
        kept_sums._read.cache_clear()
        assert read_sums(str(tmp_path), VIEW).problem == f"has {FOREIGN}"
    kept_sums._read.cache_clear()
    assert len(read_sums(str(tmp_path), VIEW).rows) == 3


@pytest.mark.unit
def test_the_hash_is_of_all_that_a_record_stores_of_an_image():
    image = StoredImage(b"pixels", 1, 2, 3, False, "uint8")
    others = [
        *(image._replace(encoded=b"pixelz"), image._replace(height=2), image._replace(width=1)),
        *(image._replace(channels=1), image._replace(is_raw=True), image._replace(dtype="uint16")),
    ]
    assert len({hash_image(each).tobytes() for each in (image, *others)}) == 7
    same = image._replace(encoded=memoryview(b"pixels"))
    expected = hashlib.sha256(b"(1, 2, 3, False, 'uint8')pixels").digest()
    assert hash_image(same).tobytes() == expected[: 8 * KEY]


@pytest.mark.unit
@pytest.mark.parametrize("latest", ["3", "10"])
def test_the_latest_of_several_graphs_is_found(tmp_path, latest):
    assert find_latest(str(tmp_path)) is None
    for name in ("3", "10"):
        write_sums(str(tmp_path / name), VIEW, [_draw_rows(3)])
        changed_s = 10**9 + (name == latest)
        os.utime(tmp_path / name / FILE, (changed_s, changed_s))
    assert find_latest(str(tmp_path)) == str(tmp_path / latest)


@pytest.mark.unit
@pytest.mark.parametrize("image_format", ["png", "jpeg", "raw"])
def test_pixels_that_are_wanted_are_read_whatever_is_known(tmp_path, decoded, image_format):
    shards.write_shards(tmp_path, shards.make_examples(9, image_format=image_format))
    shard = str(tmp_path / "data_tfrecord-00000-of-00001")
    only_sums, both = (Wanted(pixels=pixels, sums=True) for pixels in (False, True))
    (first,) = read_views(shard, VIEW, 9, only_sums)
    write_sums(str(tmp_path), VIEW, [first.sums[::2]])
    kept = read_sums(str(tmp_path), VIEW)
    assert len(decoded) == 9
    (second,) = read_views(shard, VIEW, 9, only_sums, kept=kept)
    assert len(decoded) == 9 + 4
    np.testing.assert_array_equal(second.sums, first.sums)
    (third,) = read_views(shard, VIEW, 9, both, kept=kept)
    assert len(decoded) == 9 + 4 + 9
    np.testing.assert_array_equal(third.sums, first.sums)
    sums = PixelSums(VIEW.height_px, VIEW.width_px, VIEW.channels)
    expected = [sums.sum(image) for image in third.images]
    np.testing.assert_array_equal(third.sums[:, KEY:], expected)


def _read_stored(data):
    """The stored images of the train split, in the order of the shards."""
    found = []
    for shard in sorted((data / "Split-train").iterdir()):
        with open(shard, "rb") as file:
            found += [read_feature(each, IMAGE_COLUMN) for each in read_records(file)]
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data set, and one of whose pictures some are gone, some are new and one is of two names."""
    folder = tmp_path_factory.mktemp("data")
    images = write_folder(folder / "images", per_class=40)
    whole = {"splits": {"train": 1.0}}
    ingest(images, folder / "before", **whole)
    (images / "cat" / "003.png").unlink()
    (images / "dog" / "007.png").rename(images / "cat" / "moved.png")
    for number in range(3):
        pixels = encode_png(draw(10_000 + number))
        (images / "dog" / f"new{number}.png").write_bytes(pixels)
    ingest(images, folder / "after", **whole, shards=3)
    return folder


def _analyze(data, graph, earlier=None, name="standardize", batch_size=64, cache_dir=None):
    options = TransformOptions(preprocessing_fn=name, batch_size=batch_size)
    kept = None if earlier is None else str(earlier)
    return run_analysis(
        str(data), str(graph), VIEW, options, make_pipeline, cache_dir and str(cache_dir), kept
    )


def _assert_same(one, other):
    assert read_graph_files(one) == read_graph_files(other)
    assert (one / FILE).read_bytes() == (other / FILE).read_bytes()


@pytest.mark.beam
@pytest.mark.parametrize("in_place", [True, wide(False)], ids=["in its place", "elsewhere"])
def test_only_new_images_are_decoded_and_no_bit_differs(data, tmp_path, decoded, in_place):
    _analyze(data / "before", tmp_path / "graph")
    assert len(decoded) == 80 + 1  # One more, on which the graph is tried.
    decoded.clear()
    target = tmp_path / ("graph" if in_place else "other")
    said = _analyze(data / "after", target, None if in_place else tmp_path / "graph", batch_size=7)
    before, after = _read_stored(data / "before"), _read_stored(data / "after")
    new = sorted({*after} - {*before})
    assert len(new) == 3 and sorted(decoded) == sorted([*new, after[0]])
    known = f"{tmp_path / 'graph'} had the sums of 79 images, which were not decoded again"
    assert said["earlier"] == known
    assert "earlier" not in _analyze(data / "after", tmp_path / "fresh")
    _assert_same(target, tmp_path / "fresh")


@pytest.mark.beam
@pytest.mark.wide
def test_nothing_is_decoded_where_nothing_is_new(data, tmp_path, decoded):
    _analyze(data / "before", tmp_path / "first")
    decoded.clear()
    _analyze(data / "before", tmp_path / "second", tmp_path / "first")
    assert decoded == _read_stored(data / "before")[:1]
    _assert_same(tmp_path / "first", tmp_path / "second")


@pytest.mark.beam
@pytest.mark.parametrize("problem", [wide(None), DAMAGED, wide(FOREIGN)])
def test_what_is_not_trusted_is_said_and_everything_decoded(data, tmp_path, decoded, problem):
    earlier = tmp_path / "earlier"
    view = ViewOptions(height_px=7, width_px=6) if problem == FOREIGN else VIEW
    # All are said to be black: whoever trusts them has another mean.
    paths = sorted((data / "before" / "Split-train").iterdir())
    wanted = Wanted(pixels=False, sums=True)
    black = [batch.sums for path in paths for batch in read_views(str(path), VIEW, 99, wanted)]
    for rows in black:
        rows[:, KEY + 1 :] = 0
    write_sums(str(earlier), view, black)
    if problem == DAMAGED:
        flip_bit(str(earlier / FILE), 100)
    decoded.clear()
    found = _analyze(data / "before", tmp_path / "graph", earlier)
    if problem is None:
        assert found["statistics"]["mean"] == [0] * 3 and len(decoded) == 1
        return
    assert found["earlier"] == f"{earlier} has {problem}, so all images were decoded"
    assert len(decoded) == 80 + 1
    assert found["statistics"] == _analyze(data / "before", tmp_path / "fresh")["statistics"]


@pytest.mark.beam
@pytest.mark.parametrize("name", [wide("subtract_mean"), "whiten_zca", wide("imagenet")])
def test_other_functions_say_that_they_do_not_take_sums(data, tmp_path, decoded, name):
    _analyze(data / "before", tmp_path / "earlier")
    decoded.clear()
    said = _analyze(data / "before", tmp_path / "graph", tmp_path / "earlier", name)
    assert "has nothing to give: the preprocessing_fn analyses single pixels" in said["earlier"]
    assert len(decoded) == (1 if name == "imagenet" else 80 + 1)
    assert not (tmp_path / "graph" / FILE).exists()


@pytest.mark.beam
@pytest.mark.wide
def test_a_data_set_that_the_cache_covers_keeps_its_sums(data, tmp_path, decoded):
    cache = tmp_path / "cache"
    _analyze(data / "before", tmp_path / "graph", cache_dir=cache)
    decoded.clear()
    _analyze(data / "before", tmp_path / "graph", cache_dir=cache)
    assert len(decoded) == 1
    shutil.rmtree(cache)
    _analyze(data / "after", tmp_path / "graph", cache_dir=cache)
    assert len(decoded) == 1 + 3 + 1
    rows = read_sums(str(tmp_path / "graph"), VIEW).rows
    assert len(rows) == 80 + 3


@pytest.mark.unit
def test_the_file_is_hidden_from_readers_of_the_graph():
    assert pathlib.Path(kept_sums.PIXEL_SUMS).name.startswith(".")
