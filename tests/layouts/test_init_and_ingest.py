"""`init --yes` and then `ingest` by what it wrote, of annotations as people have them: all rows."""

import json
import pathlib

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from image_pipeline.cli import cli
from tests.drawings import encode_png
from tests.layouts import test_annotations, test_outlines
from tests.layouts.drawn import HEIGHT, WIDTH, draw_images, write_table

pytestmark = pytest.mark.beam


def _run(*arguments):
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.output


def _outlines(folder):
    """Images, of which every other one has a cat of 6 x 6 pixels, and a dog of 3 x 3 on it."""
    cat, dog = [2, 2, 8, 2, 8, 8, 2, 8], [3, 3, 6, 3, 6, 6, 3, 6]
    objects = [(7, dog), (0, cat)]
    said = [
        {"image_id": n, "category_id": id_, "segmentation": [each]}
        for n in range(0, 24, 2)
        for id_, each in objects
    ]
    path = test_outlines.write_instances(folder, [], (("cat", 0), ("dog", 7)))
    content = json.loads(path.read_text()) | {"annotations": said}
    draw_images(folder, [f"{n}.png" for n in range(24)], (WIDTH, HEIGHT))
    content["images"] = [
        {"id": n, "file_name": f"{n}.png", "width": WIDTH, "height": HEIGHT} for n in range(24)
    ]
    path.write_text(json.dumps(content))
    return path


def _labelme(folder):
    square = {"label": "cat", "points": [[2, 2], [8, 2], [8, 8], [2, 8]], "shape_type": "polygon"}
    return test_outlines.write_files(folder, **{str(n): [square] * (n % 2) for n in range(24)})


def _elsewhere(folder):
    names = [f"{n}.png" for n in range(24)]
    draw_images(folder / "images", names)
    rows = [[f"C:\\data\\images\\{name.upper()}", "ab"[n % 2]] for n, name in enumerate(names)]
    return write_table(folder / "t.csv", [["path", "label"], *rows])


def _cub(folder):
    return test_annotations.write_lists(folder)


def _unmasked(folder):
    draw_images(folder / "train", [f"{n}.png" for n in range(20)])
    draw_images(folder / "test", [f"{n}.png" for n in range(30, 35)])
    for n in range(20):
        mask = np.zeros((HEIGHT, WIDTH), np.uint8)
        mask[0, : n + 1] = 1
        (folder / "train_masks").mkdir(exist_ok=True)
        (folder / "train_masks" / f"{n}_mask.png").write_bytes(encode_png(mask))
    return folder


def _two(folder):
    draw_images(folder, ["0.png", "1.png"])
    return folder


_ALL = WIDTH * HEIGHT
_CASES = {
    _outlines: ("mask_pixels", [[_ALL - 36, 27, 9], [_ALL]] * 12),
    _labelme: ("mask_pixels", [[_ALL], [_ALL - 36, 36]] * 12),
    _elsewhere: ("label", ["a", "b"] * 12),
    _unmasked: ("mask_pixels", [[_ALL - n, n] for n in range(1, 21)]),
    _two: ("label", ["", ""]),
    _cub: ("label", ["001.bird 0", "002.bird 1"] * 2),
}


@pytest.mark.parametrize("make", _CASES)
def test_what_init_writes_ingests_all_rows(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    images = make(pathlib.Path("set"))
    _run("init", images, "--output", "c.yaml", "--yes")
    _run("ingest", "--images", images, "--output", "out", "--config", "c.yaml")
    index = pq.read_table("out/index.parquet").to_pylist()
    column, expected = _CASES[make]
    assert [
        row[column]
        for row in sorted(index, key=lambda row: int(row["source"].rpartition("/")[2][:-4]))
    ] == expected
