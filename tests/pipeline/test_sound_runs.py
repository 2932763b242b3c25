"""Which of ten tones is it: sounds from init to a pushed model that answers for WAV files."""

import json

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from image_pipeline.cli import cli
from image_pipeline.components.images.sound import SoundOptions, decode_sound
from tests.sounds import build_wav, encode, make_tone

pytestmark = [pytest.mark.e2e, pytest.mark.wide]

CLASSES, COUNT = 10, 24


def call(*arguments):
    result = CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def _write_tones(folder):
    """Ten classes, each a tone that is slightly out of tune, with noise, somewhere in time."""
    generator = np.random.default_rng(0)
    for number in range(CLASSES * COUNT):
        place = folder / f"tone{number % CLASSES}"
        place.mkdir(parents=True, exist_ok=True)
        hertz = 200 * 1.35 ** (number % CLASSES) * generator.uniform(0.98, 1.02)
        tone = make_tone(hertz, generator.uniform(0.2, 0.3), 8_000, generator.uniform(0.3, 0.8))
        (place / f"{number:03d}.wav").write_bytes(
            encode(tone + generator.normal(size=len(tone), scale=0.01))
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A starter configuration, and a run by it; one sound is cut."""
    folder = tmp_path_factory.mktemp("tones")
    _write_tones(folder / "tones")
    (folder / "tones" / "tone3" / "cut.wav").write_bytes(build_wav()[:-9])
    shown = call("init", folder / "tones", "--output", folder / "c.yaml", "--yes")
    assert "0.3 s at 8,000 Hz, as pictures" in shown
    sets = ("training.epochs=12", "feeding.batch_size=16", "training.learning_rate=0.004")
    places = ("--images", folder / "tones", "--output", folder / "out")
    options = [part for each in sets for part in ("--set", each)]
    call("run", *places, "--config", folder / "c.yaml", *options)
    return folder


def test_the_model_tells_the_tones_apart(folder):
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert summary["blessed"] is True
    assert summary["evaluation"]["metrics"]["accuracy"]["value"] >= 0.7
    assert summary["ingest"]["quarantined"] == 1


def test_the_pushed_model_answers_for_wav_files_as_for_their_pictures(folder):
    (pushed,) = (folder / "out" / "pushed_model").iterdir()
    serve = tf.saved_model.load(str(pushed)).signatures["serving_default"]
    paths = sorted((folder / "tones").rglob("[0-9]*.wav"))
    sounds = [path.read_bytes() for path in paths]
    answers = serve(image_bytes=tf.constant([*sounds, sounds[0][:-3], b"no sound"]))
    assert answers["valid"].numpy().tolist() == [True] * len(sounds) + [False] * 2
    assert answers["error"].numpy()[-2:].tolist() == [b"corrupt", b"not_an_image"]
    classes = np.array([path.parent.name.encode() for path in paths])
    assert (answers["label"].numpy()[:-2] == classes).mean() >= 0.7
    options = SoundOptions(sample_rate_hz=8_000, duration_s=0.3)
    drawn = [decode_sound(sound, options)[0][..., None] for sound in sounds]
    pictures = [tf.io.encode_png(pixels).numpy() for pixels in drawn]
    as_pictures = serve(image_bytes=tf.constant(pictures))
    np.testing.assert_array_equal(
        answers["probabilities"].numpy()[:-2], as_pictures["probabilities"]
    )


def test_reports_show_the_pictures(folder):
    call("report", folder / "out", "--output", folder / "report.html")
    page = (folder / "report.html").read_text()
    assert "cut.wav" in page and "data:image/" in page
    assert "sounds drawn by" in call("inspect", folder / "out")
