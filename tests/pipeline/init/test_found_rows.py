import io
import sys

import pytest
from click.testing import CliRunner
from PIL import Image

from image_pipeline.cli import cli
from image_pipeline.components.errors import UserError
from image_pipeline.config import load_config
from tests.drawings import draw

pytestmark = pytest.mark.beam


def _photo(number, height, width, orientation=None):
    exif, file = Image.Exif(), io.BytesIO()
    if orientation is not None:
        exif[0x112] = orientation
    Image.fromarray(draw(number, height, width)).save(file, "JPEG", exif=exif)
    return file.getvalue()


@pytest.fixture
def photos(tmp_path):
    """13 and 11 photos, 3 of them portraits, one of which is stored turned, and a copy."""
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
    for number in range(23):
        sizes = {0: (40, 30, None), 1: (44, 30, None), 2: (32, 48, 6)}
        data = _photo(number, *sizes.get(number, (30, 40, None)))
        (tmp_path / "photos" / ("cat", "dog")[number % 2] / f"{number}.jpg").write_bytes(data)
    (tmp_path / "photos" / "cat" / "copy.jpg").write_bytes(data)
    return tmp_path / "photos"


def _init(photos, *flags, answers=""):
    path = photos.parent / "c.yaml"
    done = CliRunner().invoke(cli, ["init", str(photos), "--output", str(path), *flags], answers)
    if isinstance(done.exception, UserError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output, load_config(str(path))


def test_what_is_found_is_shown(photos):
    shown, _ = _init(photos, "--yes")
    rows = dict(line.split(maxsplit=1) for line in shown.splitlines())
    assert "88% landscape, 12% portrait, 4% to be turned upright (EXIF)" in rows["shapes"]
    assert "from 30 × 40 to 48 × 32" in rows["shapes"]
    assert rows["duplicates"].startswith("about 4.2% are copies of another file")
    assert "ingest takes      about" in shown and "GB of memory" in shown
    assert "and stores        about" in shown and "MB at the peak" in shown
    assert "hard to learn" not in shown


def test_images_of_two_labels_are_refused_as_ingest_refuses_them(photos):
    (photos / "dog" / "22.jpg").write_bytes((photos / "cat" / "22.jpg").read_bytes())
    with pytest.raises(UserError, match=r"^An ingest would fail, so nothing .* 3 have the bytes"):
        _init(photos, "--yes")
    assert not (photos.parent / "c.yaml").exists()
    _init(photos, "--yes", "--max-bad-fraction", "0.2")


def test_three_questions_change_the_configuration(photos):
    shown, config = _init(photos, answers="64\nn\ny\n")
    assert shown.count("[") == 3
    assert (config.view.height_px, config.view.width_px) == (64, 85)  # of 30 x 40
    assert [step.op for step in config.feeding.augment] == []
    (photos.parent / "c.yaml").unlink()
    _, config = _init(photos, answers="\n\n\n")
    assert (config.view.height_px, config.view.width_px) == (30, 40)
    assert [step.op for step in config.feeding.augment] == ["flip_horizontal"]


def test_classes_of_few_images_are_named(photos):
    for each in sorted((photos / "cat").iterdir())[3:]:
        each.unlink()
    shown, _ = _init(photos, "--yes")
    assert "hard to learn     1 class of fewer than 10" in shown


def test_images_that_are_not_read_are_named(photos, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    for name in ("1.HEIC", "2.heic", "3.svg", "notes.txt"):
        (photos / "cat" / name).write_text("x")
    shown, _ = _init(photos, "--yes", "--max-bad-fraction", "0.5")
    assert "other files       2, to be skipped or quarantined\n" in shown
    install = "pip install 'image-pipeline[heic]' to read .heic; convert the others to JPEG or PNG"
    assert f"not read          2 .heic, 1 .svg: {install}\n" in shown
