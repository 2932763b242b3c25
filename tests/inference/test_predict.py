"""Any number of image files to predictions."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from image_pipeline.cli import call, cli
from image_pipeline.components.images.sound import SoundOptions, decode_sound
from image_pipeline.components.inference import predict as predicting
from image_pipeline.components.inference.exported import ExportedModel
from image_pipeline.components.inference.predict import name_mask, predict, write_mask
from image_pipeline.components.meaning.options import IngestOptions
from tests import sounds
from tests.drawings import draw, encode_png
from tests.inference.exported_models import export
from tests.inference.near import near

pytestmark = pytest.mark.beam


@pytest.fixture(scope="module")
def model():
    return ExportedModel(export("classification"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Five images, of which one is damaged and one a TIFF, and a file that is none."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for number in range(3):
        (tmp_path / "photos" / f"{number}.png").write_bytes(encode_png(draw(number, 8, 8)))
    tiff = io.BytesIO()
    Image.fromarray(draw(0, 8, 8)).save(tiff, "TIFF")
    (tmp_path / "photos" / "3.tif").write_bytes(tiff.getvalue())
    (tmp_path / "photos" / "4.png").write_bytes(encode_png(draw(4))[:60])
    (tmp_path / "photos" / "about.md").write_text("# About\n")
    return tmp_path


def ask(model, *named, **options):
    return list(predict(model, named, IngestOptions(), **options))


def test_each_file_gets_the_servers_answer_whatever_the_batches(model, folder):
    files = [(folder / "photos" / f"{number}.png").read_bytes() for number in range(3)]
    probabilities = [row["probabilities"].tolist() for row in model.predict(files)]
    told = ask(model, "photos", top=2)
    assert ask(model, "photos", top=2, batch_size=1) == near(told)
    for prediction, row in zip(told[:3], probabilities, strict=True):
        assert [each["probability"] for each in prediction["top"]] == near(sorted(row)[::-1])
        assert prediction["probability"] == near(max(row))
        assert prediction["label"] == ["cat", "dog"][int(np.argmax(row))]
    assert len({prediction["probability"] for prediction in told[:3]}) == 3


def test_what_a_server_refuses_is_decoded_here_and_said_to_be(model, folder):
    told = {each["file"]: each for each in ask(model, "photos")}
    tiff, png = told["photos/3.tif"], told["photos/0.png"]  # the same pixels
    assert tiff.pop("converted") is True and "converted" not in png
    assert tiff == near(png | {"file": "photos/3.tif"})


def test_a_sound_is_drawn_as_the_model_has_learned_it(model, folder, monkeypatch):
    options = SoundOptions(sample_rate_hz=8_000, duration_s=0.2, mel_bins=20)
    monkeypatch.setattr(model, "read_sound", lambda: options)
    sound = sounds.encode(sounds.make_tone(440), rate_hz=11_025)
    (folder / "tone.wav").write_bytes(sound)
    (folder / "tone.png").write_bytes(encode_png(np.dstack([decode_sound(sound, options)[0]] * 3)))
    wav, png = ask(model, "tone.wav", "tone.png")
    assert wav.pop("converted") is True and "converted" not in png
    assert wav == near(png | {"file": "tone.wav"})


def test_damage_is_told_in_ingests_words_and_other_files_are_skipped(model, folder):
    *_, damaged, other = ask(model, "photos")
    assert (damaged["file"], damaged["error"]) == ("photos/4.png", "truncated")
    assert (other["file"], other["skipped"]) == ("photos/about.md", "text")


def test_a_batch_ends_where_its_pixels_would_fill_the_memory(model, folder, monkeypatch):
    monkeypatch.setattr(predicting, "_MOST_PIXELS", 130)  # two images of 64
    asked, predict = [], model.predict
    monkeypatch.setattr(model, "predict", lambda files: asked.append(len(files)) or predict(files))
    ask(model, *(f"photos/{number}.png" for number in range(3)))
    assert asked == [2, 1]


def test_the_command_prints_a_line_for_each_file_and_fails_if_one_did(folder, capfd):
    model_dir = export("classification")
    assert call(["predict", model_dir, "photos", "gone.png"], cli) == 1
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == f"model {model_dir}"
    assert lines[1].startswith("photos/0.png  ") and lines[4].startswith("photos/3.tif  * ")
    assert lines[5].startswith("photos/4.png  truncated: ")
    assert lines[6] == "gone.png      missing_file: there is no such file"
    assert lines[8] == (
        "2 files could not be predicted; 1 file in folders is not an image; 1 file marked * was "
        "decoded here, since a server refuses it."
    )


@pytest.mark.wide
def test_lines_of_json_hold_the_same_for_a_folder_of_versions(folder, capfd):
    versions = export("classification").rpartition("/")[0]
    assert call(["predict", versions, "photos/0.png", "photos/1.png", "--json"], cli) == 0
    told = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    expected = ask(ExportedModel(export("classification")), "photos/[01].png", top=3)
    assert told == near(expected)


def test_masks_are_written_where_asked(folder, capfd):
    arguments = ["predict", export("segmentation"), "photos/0.png", "--json"]
    assert call([*arguments, "--output", "masks"], cli) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["mask"] == "masks/photos/0.png.png"
    mask = np.asarray(Image.open(told["mask"]))
    (row,) = ExportedModel(export("segmentation")).predict([encode_png(draw(0, 8, 8))])
    np.testing.assert_array_equal(mask, row["mask"])
    assert told["classes"] == {
        name: float((mask == code).mean()) for code, name in enumerate(["cat", "dog"])
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["empty"], "Error: There are no files in 'empty'; name others."),
        (
            ["photos/1.png", "--output", "photos/0.png/x"],
            "Error: Cannot write to the output folder",
        ),
        (["photos", "--output", "photos/masks"], "Error: The output folder 'photos/masks' is ins"),
    ],
)
def test_what_cannot_be_read_or_written_is_refused_in_a_sentence(folder, capfd, arguments, message):
    (folder / "empty").mkdir()
    assert call(["predict", export("segmentation"), *arguments], cli) == 1
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1 and said[0].startswith(message)


@pytest.mark.parametrize(
    ("model_dir", "message"),
    [
        ("photos", "Error: 'photos' holds no model: there must be saved_model.pb in it"),
        ("nowhere", "Error: 'nowhere' does not exist: there must be saved_model.pb in it"),
        (
            "best.keras",
            "Error: 'best.keras' is a file, but the model must be an exported one's folder; write "
            "it with the transform graph that the model was trained behind: "
            "image_pipeline.export_model(keras.models.load_model('best.keras'), graph, folder).",
        ),
        ("cut", "Error: the model in 'cut' cannot be used: "),
        ("other", "Error: 'other' is a SavedModel, but its signature 'serving_default' does not"),
    ],
)
def test_what_is_no_model_of_ours_is_refused_in_a_sentence(folder, capfd, model_dir, message):
    import tensorflow as tf

    if model_dir == "other":
        tf.saved_model.save(tf.Module(), model_dir)
        message += " take 'image_bytes' and return 'valid' and 'error': only models that this "
        message += "project exported or pushed can be asked; instead of Keras's own model.export, "
        message += "write it by image_pipeline.export_model(model, graph, folder)."
    if model_dir == "best.keras":
        (folder / model_dir).touch()
    if model_dir == "cut":
        (folder / "cut").mkdir()
        (folder / "cut" / "saved_model.pb").write_bytes(b"no protocol buffer")
    assert call(["predict", model_dir, "photos/0.png"], cli) == 1
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1 and said[0].startswith(message)


def test_a_mask_takes_the_place_of_its_image_below_the_folder(tmp_path):
    prediction = {"file": "photos/../a.jpg", "confidence": 0.5, "mask_bytes": b"PNG"}
    told = write_mask(prediction, str(tmp_path))
    path = tmp_path / "photos" / "_" / "a.jpg.png"
    assert told == {"file": "photos/../a.jpg", "confidence": 0.5, "mask": str(path)}
    assert path.read_bytes() == b"PNG"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("/data/a.jpg", "data/a.jpg.png"),
        ("../../a.jpg", "_/_/a.jpg.png"),
        ("gs://bucket/x/a.jpg", "bucket/x/a.jpg.png"),
        ("./a.png", "a.png.png"),
    ],
)
def test_no_name_leads_out_of_the_folder(file, name):
    assert name_mask(file) == name


def test_without_a_folder_nothing_is_written():
    assert write_mask({"file": "a", "mask_bytes": b""}, None) == {"file": "a"}


def test_a_folder_for_masks_of_a_model_that_gives_none_is_refused(folder, capfd):
    arguments = [export("classification"), "photos", "--output", "masks"]
    assert call(["predict", *arguments], cli) == 1
    (said,) = capfd.readouterr().err.splitlines()
    assert said.startswith("Error: --output is for masks, but the model gives none; leave it out")
