import io

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from image_pipeline.preview import plots
from image_pipeline.preview.samples import RecordViews
from tests.tiers import wide


def make_views(epochs: int = 2, channels: int = 3, size: int = 8, label: str = "cat"):
    rng = np.random.default_rng(0)
    return RecordViews(
        label=label,
        names=(label,),
        path="cat/1.png",
        stored=rng.integers(0, 256, (12, 16, channels), np.uint8),
        eval=rng.integers(0, 256, (size, size, channels), np.uint8),
        train=rng.integers(0, 256, (epochs, size, size, channels), np.uint8),
        shares=({"cat": 0.75, "dog": 0.25},) + ({"cat": 1.0},) * (epochs - 1),
        model_input=rng.normal(size=(size, size, channels)).astype(np.float32),
    )


def save(figure):
    file = io.BytesIO()
    figure.savefig(file, dpi=plots.SHEET_DPI)
    return np.asarray(Image.open(file))[..., :3]


def texts(figure):
    return [text.get_text() for text in figure.texts]


@pytest.mark.unit
@pytest.mark.parametrize("channels", [wide(1), 3])
def test_the_file_has_every_pixel_of_every_panel(channels):
    # In figures, pixels may be resampled or stretched; here each one must be found as it was.
    views = make_views(channels=channels, size=160)
    sheet = save(plots.plot_views([views] * 2))
    images = [views.eval, *views.train]
    found = [
        (row, column)
        for row in range(sheet.shape[0] - 160)
        for column in range(sheet.shape[1] - 160)
        if any(np.array_equal(sheet[row, column : column + 160], _rgb(each)[0]) for each in images)
    ]
    rows, columns = (sorted(set(each)) for each in zip(*found, strict=True))
    assert len(found) == 2 * 3 and len(rows) == 2 and len(columns) == 3
    assert np.ptp(np.diff(columns)) == 0  # an even grid
    for (row, column), image in zip(found, images * 2, strict=True):
        np.testing.assert_array_equal(sheet[row : row + 160, column : column + 160], _rgb(image))


def _rgb(image):
    return np.broadcast_to(image, (*image.shape[:2], 3))


@pytest.mark.unit
def test_a_sheet_says_what_is_what():
    records = [make_views(label="cat"), make_views(label="$dog$")]
    figure = plots.plot_views(records, ["heading", "a step"])
    assert len(figure.get_axes()) == 2 * 5
    captions = ["16×12", "8×8", "0.75 × cat", "0.25 × dog", "mid-grey: the mean"]
    titles = ["stored", "eval", "train, epoch 0", "train, epoch 1", "model's input"]
    assert sorted(texts(figure)) == sorted(
        ["heading", "a step", "cat", "$dog$", *titles, *captions, *captions]
    )


@pytest.mark.unit
def test_long_texts_stay_on_the_sheet():
    long = "a_very_" * 40 + "long_name"
    figure = plots.plot_views([make_views(label=long)], ["/heading" * 40, "step " * 200])
    figure.canvas.draw()
    sheet = figure.bbox
    for text in figure.texts:
        box = text.get_window_extent()
        assert sheet.x0 <= box.x0 and box.x1 <= sheet.x1
        assert sheet.y0 <= box.y0 and box.y1 <= sheet.y1
    assert any(text.startswith("a_very_") and text.endswith("…") for text in texts(figure))
    assert " ".join(texts(figure)).count("step") == 200


@pytest.mark.unit
def test_a_classs_bar_is_as_high_as_its_records():
    counts = pd.DataFrame({"train": [8, 5], "eval": [2, 1]}, index=["cat", "dog"])
    (axes,) = plots.plot_classes(counts).get_axes()
    assert [bar.get_height() for bar in axes.patches] == [8, 5, 2, 1]
    assert [bar.get_y() for bar in axes.patches] == [0, 0, 8, 5]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["train", "eval"]


@pytest.mark.unit
def test_records_are_counted_in_whole_numbers():
    counts = pd.DataFrame({"train": [2, 2], "eval": [1, 0]}, index=["cat", "dog"])
    (axes,) = plots.plot_classes(counts).get_axes()
    shown = [tick for tick in axes.get_yticks() if tick <= axes.get_ylim()[1]]
    assert shown == [0, 1, 2, 3]
