import numpy as np
import pytest
from PIL import Image

from image_pipeline.components.meaning.label_map import (
    describe_levels,
    guess_classes,
    read_levels,
)

pytestmark = pytest.mark.unit


def _write(path, pixels, mode=None):
    image = Image.fromarray(pixels)
    if mode == "P":
        image.putpalette([9, 8, 7] * 256)
    image.save(path)


def _read(folder, *names):
    return read_levels(names, lambda name: (folder / name).read_bytes())


def test_levels_indices_and_colours_are_read(tmp_path):
    gray = np.array([[3, 7], [0, 3]], np.uint8)
    _write(tmp_path / "gray.png", gray)
    _write(tmp_path / "palette.png", gray, mode="P")
    _write(tmp_path / "rgb.png", np.stack([gray] * 3, -1))
    color = np.array([[[128, 64, 128], [0, 0, 142]]], np.uint8)
    _write(tmp_path / "color.png", color)
    (tmp_path / "bad.png").write_text("text")
    names = [path.name for path in sorted(tmp_path.iterdir())]
    for name in ("gray.png", "palette.png", "rgb.png"):
        assert _read(tmp_path, name, "bad.png") == [0, 3, 7]
    assert _read(tmp_path, "color.png") == ["#00008e", "#804080"]
    assert _read(tmp_path, *names) == [0, 3, 7, "#00008e", "#804080"]
    assert _read(tmp_path, "bad.png") == []


def test_they_are_told_in_a_line():
    assert describe_levels([0, 1]) == "2 values: 0, 1"
    assert describe_levels(range(20)) == "20 values: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …"
    assert describe_levels([]) == "nothing that can be read"


@pytest.mark.parametrize(
    ("levels", "classes"),
    [
        ([0, 255], {"background": 0, "foreground": 255}),
        (["#000000", "#ffffff"], {"class_0": "#000000", "class_1": "#ffffff"}),
        ([0, 1, 255], None),
        ([0, 1], None),
        ([0, "#00008e"], None),
        ([], None),
        ([f"#{number:06x}" for number in range(256)], None),
    ],
)
def test_names_are_given_where_ids_will_not_do(levels, classes):
    assert guess_classes(levels) == classes
