"""Sounds are ingested as images are, from folders, archives and tables; bad ones by name."""

import tarfile

import numpy as np
import pyarrow.parquet as pq
import pytest

from image_pipeline.components.dataset import record
from image_pipeline.components.images.sound import SoundOptions, decode_sound
from image_pipeline.show.ingest_summary import count_unserved
from tests.drawings import draw, encode_png
from tests.ingest.test_tables import _read_records, _shards
from tests.ingest_runs import ingest, read_lines, update
from tests.sounds import build_wav, encode, make_tone

pytestmark = pytest.mark.beam

SOUND = {"sample_rate_hz": 8_000, "duration_s": 0.2, "mel_bins": 20}
PREPARE = {"encoding": "raw", "color": "gray", "resize": "none", "sound": SOUND}
NAN = np.full(9, np.nan, "<f4").tobytes()
BAD = {
    "cut.wav": build_wav()[:-7],
    "empty.wav": b"",
    "no_samples.wav": build_wav(b""),
    "no_rate.wav": build_wav(rate_hz=0),
    "nan.wav": build_wav(NAN, tag=3, block_bytes=4),
    "unknown.wav": build_wav(tag=5),
    "text.wav": b"no sound at all",
    "cut.flac": encode(make_tone(440), kind="FLAC")[:-50],
    "song.mp3": b"ID3\3" + bytes(500),
}
REASONS = {
    "cut.wav": "truncated",
    "empty.wav": "empty",
    "no_samples.wav": "empty",
    "no_rate.wav": "corrupt",
    "nan.wav": "corrupt",
    "unknown.wav": "corrupt",
    "text.wav": "not_an_image",
    "cut.flac": "corrupt",
    "song.mp3": "not_an_image",
}


@pytest.fixture
def sounds(tmp_path):
    """Twelve tones in two folders, one of them FLAC."""
    for number in range(12):
        folder = tmp_path / "sounds" / ("low", "high")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        kind = "FLAC" if number == 0 else "WAV"
        tone = make_tone(300 + 200 * number, 0.1 + number / 50)
        (folder / f"{number:02d}.{kind.lower()}").write_bytes(encode(tone, kind=kind))
    return tmp_path / "sounds"


def test_every_record_is_the_picture_of_its_sound(sounds, tmp_path):
    manifest = ingest(sounds, tmp_path / "out", prepare=PREPARE)
    assert (manifest.books.found, manifest.books.quarantined) == (12, 0)
    options = SoundOptions(**SOUND)
    drawn = {
        path.parent.name.encode() + decode_sound(path.read_bytes(), options)[0].tobytes()
        for path in sounds.rglob("*.*")
    }
    records = [record.decode_example(each) for each in _read_records(tmp_path / "out")]
    assert {each[record.LABEL] + each[record.IMAGE] for each in records} == drawn
    index = pq.read_table(tmp_path / "out" / "index.parquet")
    assert set(index["source_format"].to_pylist()) == {"wav", "flac"}
    assert set(index["height"].to_pylist()) == {20}
    assert set(index["width"].to_pylist()) == {options.columns}
    assert count_unserved(str(tmp_path / "out")) == {"FLAC": 1}
    assert manifest.options["prepare"]["sound"]["mel_bins"] == 20


def test_archives_and_tables_of_sounds_give_the_same_records(sounds, tmp_path):
    ingest(sounds, tmp_path / "folder", prepare=PREPARE)
    with tarfile.open(tmp_path / "sounds.tar", "w") as archive:
        for path in sorted(sounds.rglob("*.*")):
            archive.add(path, path.relative_to(sounds))
    ingest(tmp_path / "sounds.tar", tmp_path / "archive", prepare=PREPARE)
    assert _shards(tmp_path / "archive") == _shards(tmp_path / "folder")
    paths = sorted(path.relative_to(sounds).as_posix() for path in sounds.rglob("*.*"))
    lines = ["path,label", *(f"{path},{path.split('/')[0]}" for path in paths)]
    (sounds / "t.csv").write_text("\n".join(lines))
    ingest(sounds / "t.csv", tmp_path / "table", prepare=PREPARE)
    assert _shards(tmp_path / "table") == _shards(tmp_path / "folder")


def test_bad_sounds_are_quarantined_by_name_and_repaired(sounds, tmp_path):
    for name, data in BAD.items():
        (sounds / "low" / name).write_bytes(data)
    options = {"prepare": PREPARE, "max_bad_fraction": 1.0}
    manifest = ingest(sounds, tmp_path / "out", **options)
    assert (manifest.books.found, manifest.books.quarantined) == (12 + len(BAD), len(BAD))
    listed = read_lines(tmp_path / "out" / "quarantine.jsonl")
    assert {line["path"].removeprefix("low/"): line["reason"] for line in listed} == REASONS
    (sounds / "low" / "cut.wav").write_bytes(build_wav())
    assert update(sounds, tmp_path / "out", tmp_path / "mended", **options) == 12
    assert len(read_lines(tmp_path / "mended" / "quarantine.jsonl")) == len(BAD) - 1


def test_without_the_option_sounds_are_skipped_with_the_way_to_read_them(sounds, tmp_path):
    for number in range(8):
        (sounds / "low" / f"{number}.png").write_bytes(encode_png(draw(number)))
    manifest = ingest(sounds, tmp_path / "out")
    assert (manifest.books.quarantined, manifest.books.skipped) == (0, 12)
    (message,) = {line["message"] for line in read_lines(tmp_path / "out" / "skipped.jsonl")}
    assert message == "a sound; ingest.prepare.sound makes pictures of WAV and FLAC files"


def test_each_option_changes_the_picture():
    data = encode(np.random.default_rng(0).uniform(-1, 1, 4_000))
    plain = decode_sound(data, SoundOptions(**SOUND))[0]
    others = {
        "sample_rate_hz": 6_000,
        "duration_s": 0.3,
        "align": "center",
        "window_s": 0.03,
        "hop_s": 0.02,
        "mel_bins": 21,
        "low_hz": 50.0,
        "high_hz": 3_000.0,
        "floor_db": -80.0,
    }
    assert set(others) == set(SoundOptions.model_fields)
    for name, value in others.items():
        changed = decode_sound(data, SoundOptions(**SOUND | {name: value}))[0]
        assert not np.array_equal(changed, plain), name
