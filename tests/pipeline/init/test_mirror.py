"""Whether mirrored images look like other classes."""

import pytest

from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.folder import Folder
from image_pipeline.init.mirror import Mirrored, look_at_mirrored
from tests.drawings import draw_texts

pytestmark = pytest.mark.unit


def _look(folder):
    source = Folder(str(folder))
    return look_at_mirrored(
        source, list(source.list()), IngestOptions(label_pattern="(?P<label>[^/]+)/.+")
    )


def test_letters_are_not_mirrored(tmp_path):
    draw_texts(tmp_path, {"b": "b", "d": "d", "p": "p", "q": "q"})
    found = _look(tmp_path)
    assert found.images == 80 and found.guessed == 0.25
    assert found.accuracy > 0.9 and found.mirrored < 0.2 and found.changes_class


def test_what_is_its_own_mirror_image_is(tmp_path):
    draw_texts(tmp_path, {"o": "o", "i": "I", "minus": "-", "eight": "8"})
    found = _look(tmp_path)
    assert found.accuracy > 0.9 and found.mirrored > 0.8 and not found.changes_class


@pytest.mark.parametrize(
    ("accuracy", "mirrored", "changes"),
    [(0.5, 0.3, True), (0.5, 0.4, False), (0.2, 0.0, False), (0.9, 0.9, False)],
)
def test_only_what_is_known_can_be_mistaken(accuracy, mirrored, changes):
    assert Mirrored(500, accuracy, mirrored, guessed=0.2).changes_class is changes


def test_nothing_is_said_of_few(tmp_path):
    draw_texts(tmp_path / "few", {"b": "b", "d": "d"}, count=9)
    assert _look(tmp_path / "few") is None
    draw_texts(tmp_path / "one", {"b": "b"})
    (tmp_path / "one" / "c").mkdir()
    for number in range(12):
        (tmp_path / "one" / "c" / f"{number}.png").write_text("no image")
    assert _look(tmp_path / "one") is None
