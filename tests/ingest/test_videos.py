"""Videos are ingested as their frames: exact records, one split a file, damage by name."""

import os
import shutil
import tarfile

import numpy as np
import pyarrow.parquet as pq
import pytest

from image_pipeline.components.dataset import record
from image_pipeline.components.images.npy import read_array, read_array_header
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.open_source import open_source
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources import frames, video
from tests.drawings import draw, encode_png
from tests.ingest.test_tables import _read_records, _shards
from tests.ingest_runs import ingest, read_lines, update
from tests.videos import encode, encode_sound, level_of

pytestmark = pytest.mark.beam

OPTIONS = {
    "prepare": {"encoding": "raw", "resize": "none"},
    "video": {"frames_per_second": 2.0},
    "duplicates": "keep_all",
    "conflicting_labels": "keep",
}


@pytest.fixture(autouse=True)
def close_videos():
    frames._open.clear()


@pytest.fixture
def videos(tmp_path):
    """Twelve videos of 2.5 seconds in two folders, 5 frames each; and an image."""
    for number in range(12):
        folder = tmp_path / "videos" / ("cat", "dog")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        # Each has another height, and so no frame of it is any other's.
        data = encode(25, 10, size=(16 + 2 * number, 32))
        (folder / f"{number:02d}.mkv").write_bytes(data)
    (tmp_path / "videos" / "cat" / "image.png").write_bytes(encode_png(draw(0)))
    return tmp_path / "videos"


def _list(images, **options):
    chosen = IngestOptions.model_validate(OPTIONS | options)
    return open_source(str(images), complete_options(str(images), chosen))


def test_frames_are_listed_and_read_as_arrays(videos):
    source = _list(videos)
    refs = list(source.list())
    names = [f"cat/{number:02d}.mkv/{at:08d}" for number in range(0, 12, 2) for at in range(5)]
    assert [ref.path for ref in refs[:31]] == [*names, "cat/image.png"]
    for at, ref in enumerate(refs[:5]):
        data = source.read(ref, 10**9)
        assert len(data) == ref.size_bytes
        pixels = read_array(data, read_array_header(data))
        assert pixels.shape == (16, 32, 3)
        assert pixels[0, 20].tolist() == pytest.approx([level_of(5 * at)] * 3, abs=1)
    assert source.read(refs[0], 10) == b"\x93NUMPY"
    assert source.read(refs[30], 10**9) == (videos / "cat" / "image.png").read_bytes()


def test_all_frames_of_a_video_share_a_split(videos, tmp_path):
    manifest = ingest(videos, tmp_path / "out", **OPTIONS)
    assert (manifest.books.found, manifest.books.written) == (61, 61)
    rows = pq.read_table(tmp_path / "out" / "index.parquet").to_pylist()
    splits = {}
    for row in rows:
        if "mkv" in row["source"]:
            path = row["source"].rpartition("/")[0]
            assert (row["group"], row["label"]) == (path, path.partition("/")[0])
            splits.setdefault(path, set()).add(row["split"])
    assert len(splits) == 12 and all(len(each) == 1 for each in splits.values())
    assert {split for each in splits.values() for split in each} == {"train", "eval"}
    by_size = {
        (each["image/height"], each["image/encoded"][60])
        for each in map(record.decode_example, _read_records(tmp_path / "out"))
    }
    assert len(by_size) == 61
    assert "video" in manifest.options


def test_archives_and_tables_of_videos_give_the_same_records(videos, tmp_path):
    ingest(videos, tmp_path / "folder", **OPTIONS)
    with tarfile.open(tmp_path / "v.tar", "w") as archive:
        archive.add(videos, ".")
    ingest(tmp_path / "v.tar", tmp_path / "archive", **OPTIONS)
    assert _shards(tmp_path / "archive") == _shards(tmp_path / "folder")
    paths = sorted(path.relative_to(videos).as_posix() for path in videos.rglob("*.*"))
    lines = ["path,label", *(f"{path},{path.split('/')[0]}" for path in paths)]
    (videos / "t.csv").write_text("\n".join(lines))
    ingest(videos / "t.csv", tmp_path / "table", **OPTIONS)
    assert _shards(tmp_path / "table") == _shards(tmp_path / "folder")


def test_the_rate_and_the_group_can_be_chosen(videos, tmp_path):
    assert len(list(_list(videos, video={"frames_per_second": 1.0}).list())) == 37
    options = OPTIONS | {"group_pattern": r".*/(?P<group>\d)\d\.mkv", "splits": {"train": 1.0}}
    ingest(videos, tmp_path / "out", **options)
    rows = pq.read_table(tmp_path / "out" / "index.parquet").to_pylist()
    assert {row["group"] for row in rows if row["source"].startswith("dog")} == {"0", "1"}


def test_damaged_videos_are_quarantined_by_name(videos, tmp_path):
    whole = (videos / "cat" / "00.mkv").read_bytes()
    (videos / "cat" / "cut.mkv").write_bytes(whole[: len(whole) // 2])
    (videos / "cat" / "no.mp4").write_bytes(b"no video")
    (videos / "cat" / "empty.avi").write_bytes(b"")
    (videos / "cat" / "sound.mkv").write_bytes(encode_sound())
    manifest = ingest(videos, tmp_path / "out", max_bad_fraction=1.0, **OPTIONS)
    listed = read_lines(tmp_path / "out" / "quarantine.jsonl")
    reasons = {line["path"].removeprefix("cat/"): line["reason"] for line in listed}
    assert reasons == {
        "cut.mkv/00000002": "truncated",
        "cut.mkv/00000003": "truncated",
        "cut.mkv/00000004": "truncated",
        "empty.avi": "corrupt",
        "no.mp4": "corrupt",
        "sound.mkv": "corrupt",
    }
    assert manifest.books.written == 63
    (videos / "cat" / "cut.mkv").write_bytes(encode(25, 10, size=(60, 32)))
    options = OPTIONS | {"max_bad_fraction": 1.0}
    assert update(videos, tmp_path / "out", tmp_path / "mended", **options) == 61
    assert len(read_lines(tmp_path / "mended" / "quarantine.jsonl")) == 3


def test_a_video_is_opened_once(videos, monkeypatch):
    starts = []
    start = video.Video._start
    monkeypatch.setattr(video.Video, "_start", lambda *args: (starts.append(1), start(*args)))
    source = _list(videos)
    for ref in source.list():
        source.read(ref, 10**9)
    assert len(starts) == 12


def test_without_the_option_videos_are_skipped_with_the_way_to_read_them(videos, tmp_path):
    for number in range(1, 9):
        (videos / "cat" / f"{number}.png").write_bytes(encode_png(draw(number)))
    manifest = ingest(videos, tmp_path / "out")
    assert (manifest.books.quarantined, manifest.books.skipped) == (0, 12)
    (message,) = {line["message"] for line in read_lines(tmp_path / "out" / "skipped.jsonl")}
    assert message == "a video; ingest.video makes images of its frames"


def test_videos_with_masks_are_refused(videos):
    with pytest.raises(ValueError, match=r"leave out ingest\.video or ingest\.masks"):
        _list(videos, masks={"images": "{key}.*", "masks": "m/{key}.png"})


def test_a_video_that_vanishes_or_changes_costs_its_frames(videos):
    source = _list(videos)
    refs = [ref for ref in source.list() if ref.path.startswith("dog/01")]
    os.remove(videos / "dog" / "01.mkv")
    with pytest.raises(Exception, match="no frame that can be decoded"):
        source.read(refs[0], 10**9)
    shutil.copy(videos / "dog" / "03.mkv", videos / "dog" / "01.mkv")


def test_frames_come_in_any_order(videos):
    source = _list(videos, video={"frames_per_second": 10.0})
    refs = [ref for ref in source.list() if ref.location is not None]
    in_order = {ref.path: source.read(ref, 10**9) for ref in refs}
    for place in np.random.default_rng(0).permutation(len(refs))[:80]:
        assert source.read(refs[place], 10**9) == in_order[refs[place].path]
