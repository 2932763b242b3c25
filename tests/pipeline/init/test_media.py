"""`image-pipeline init` on sounds and videos: what it writes ingests them."""

import pytest

from image_pipeline.api import ingest
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.sound import SoundOptions
from image_pipeline.components.sources.options import VideoOptions
from image_pipeline.config import load_config
from tests.pipeline.init.test_starter import _init
from tests.sounds import build_wav, encode, make_tone
from tests.videos import encode as encode_video

pytestmark = pytest.mark.beam


def _write(folder, files):
    for number, (name, data) in enumerate(files):
        path = folder / ("cat", "dog")[number % 2] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


@pytest.mark.parametrize(
    ("rate_hz", "seconds", "expected"),
    [
        (8_000, 0.42, SoundOptions(sample_rate_hz=8_000, duration_s=0.5)),
        (44_100, 0.33, SoundOptions(duration_s=0.4)),
        (16_000, 12, SoundOptions(duration_s=10)),
    ],
)
def test_sounds_are_drawn_as_long_as_they_are(tmp_path, rate_hz, seconds, expected):
    tones = [make_tone(300 + number, seconds, rate_hz) for number in range(20)]
    files = [(f"{number}.wav", encode(tone, rate_hz)) for number, tone in enumerate(tones)]
    sounds = _write(tmp_path / "sounds", [*files, ("flac.flac", encode(tones[0], kind="FLAC"))])
    (sounds / "cat" / "cut.wav").write_bytes(build_wav()[:-1])
    loss = ("--max-bad-fraction", "0.1")
    result = _init(sounds, "--output", tmp_path / "c.yaml", "--yes", *loss)
    shown = f"{expected.duration_s:g} s at {expected.sample_rate_hz:,} Hz, as pictures"
    assert shown in result.output
    config = load_config(str(tmp_path / "c.yaml"))
    assert config.ingest.prepare.sound == expected
    view = (config.view.height_px, config.view.width_px, config.view.channels)
    assert view == (64, expected.columns, 1)
    assert [step.op for step in config.feeding.augment] == ["random_erasing"]
    if seconds < 1:
        summary = ingest(str(sounds), str(tmp_path / "out"), config=str(tmp_path / "c.yaml"))
        assert (summary["found"], summary["quarantined"]) == (22, 1)


def test_videos_become_their_frames(tmp_path):
    files = [
        (f"{number:02d}.mkv", encode_video(25, size=(16 + 2 * number, 32))) for number in range(20)
    ]
    videos = _write(tmp_path / "videos", files)
    result = _init(videos, "--output", tmp_path / "c.yaml", "--yes")
    lines = [line.split() for line in result.output.splitlines()]
    assert ["videos", "20"] in lines
    assert ["sizes", "median", "34", "×", "32", "(height", "×", "width)"] in lines
    config = load_config(str(tmp_path / "c.yaml"))
    assert config.ingest.video == VideoOptions(frames_per_second=1)
    summary = ingest(str(videos), str(tmp_path / "out"), config=str(tmp_path / "c.yaml"))
    assert (summary["found"], summary["quarantined"]) == (60, 0)


def test_what_is_no_video_is_refused(tmp_path):
    (tmp_path / "videos" / "cat").mkdir(parents=True)
    (tmp_path / "videos" / "cat" / "bad.mp4").write_bytes(b"no video")
    with pytest.raises(UserError, match="must hold images, but none of its 1 files is one"):
        _init(tmp_path / "videos", "--output", tmp_path / "c.yaml", "--yes")
