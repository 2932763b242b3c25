"""Whether mirrored images look like other classes."""

import cv2
import numpy as np
import pytest

from image_pipeline.components.sources.folder import Folder
from image_pipeline.init.mirror import Mirrored, look_at_mirrored

pytestmark = pytest.mark.unit


def _draw(folder, texts, count=20):
    """Images of 24 px that show a text somewhere, in a class's folder."""
    rng = np.random.default_rng(0)
    for name, text in texts.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            image = rng.integers(0, 40, (24, 24), np.uint8)
            (width, _), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, 0.6, 2)
            place = (24 - width) // 2 + int(rng.integers(-1, 2)), int(rng.integers(17, 20))
            cv2.putText(image, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.6, 255, 2)
            cv2.imwrite(str(folder / name / f"{number}.png"), image)


def _look(folder):
    source = Folder(str(folder))
    refs = list(source.list())
    return look_at_mirrored(source, refs, [ref.path.partition("/")[0] for ref in refs])


def test_letters_are_not_mirrored(tmp_path):
    _draw(tmp_path, {"b": "b", "d": "d", "p": "p", "q": "q"})
    found = _look(tmp_path)
    assert found.images == 80 and found.guessed == 0.25
    assert found.accuracy > 0.9 and found.mirrored < 0.2 and found.changes_class


def test_what_is_its_own_mirror_image_is(tmp_path):
    _draw(tmp_path, {"o": "o", "i": "I", "minus": "-", "eight": "8"})
    found = _look(tmp_path)
    assert found.accuracy > 0.9 and found.mirrored > 0.8 and not found.changes_class


@pytest.mark.parametrize(
    ("accuracy", "mirrored", "changes"),
    [(0.5, 0.3, True), (0.5, 0.4, False), (0.2, 0.0, False), (0.9, 0.9, False)],
)
def test_only_what_is_known_can_be_mistaken(accuracy, mirrored, changes):
    assert Mirrored(500, accuracy, mirrored, guessed=0.2).changes_class is changes


def test_nothing_is_said_of_few(tmp_path):
    _draw(tmp_path / "few", {"b": "b", "d": "d"}, count=9)
    assert _look(tmp_path / "few") is None
    _draw(tmp_path / "one", {"b": "b"})
    (tmp_path / "one" / "c").mkdir()
    for number in range(12):
        (tmp_path / "one" / "c" / f"{number}.png").write_text("no image")
    assert _look(tmp_path / "one") is None
