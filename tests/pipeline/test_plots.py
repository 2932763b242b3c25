import numpy as np
import pandas as pd
import pytest

from components.feeding.input_fn import input_fn
from components.feeding.options import AugmentOptions, FeedingOptions
from components.view_options import ViewOptions
from pipeline import plots
from tests import graphs, shards

VIEW = ViewOptions(height_px=8, width_px=8, channels=3)
CROPS = AugmentOptions(crop_area=(0.3, 0.6))


def make_views(epochs: int, channels: int = 3) -> plots.RecordViews:
    rng = np.random.default_rng(0)
    return plots.RecordViews(
        label="cat",
        stored=rng.integers(0, 256, (12, 16, channels), np.uint8),
        train=rng.integers(0, 256, (epochs, 8, 8, channels), np.uint8),
        eval=rng.integers(0, 256, (8, 8, channels), np.uint8),
        model_input=rng.normal(size=(8, 8, channels)).astype(np.float32),
    )


@pytest.mark.unit
def test_the_mean_is_mid_grey_and_extremes_are_clipped():
    pixels = np.array([-99, -2.5, 0, 1.25, 2.5, 99], np.float32)
    np.testing.assert_allclose(plots.scale_to_display(pixels), [0, 0, 0.5, 0.75, 1, 1])


@pytest.mark.unit
@pytest.mark.parametrize("channels", [1, 3])
def test_every_view_is_drawn_pixel_by_pixel(channels):
    records = [make_views(epochs=2, channels=channels)] * 3
    axes = plots.plot_views(records).get_axes()
    assert len(axes) == 3 * 5
    assert [each.get_title() for each in axes[:5]] == [
        "stored",
        "train, epoch 0",
        "train, epoch 1",
        "eval",
        "model's input",
    ]
    assert [each.get_ylabel() for each in axes[::5]] == ["cat"] * 3
    images = [records[0].stored, *records[0].train, records[0].eval]
    for drawn, image in zip(axes[:4], images, strict=True):
        np.testing.assert_array_equal(drawn.images[0].get_array(), np.squeeze(image))
    assert axes[0].get_xlabel() == "16×12"


@pytest.mark.unit
def test_dark_pictures_stay_dark():
    # matplotlib would stretch one channel from its own least to its own greatest value.
    views = make_views(epochs=1, channels=1)
    limits = [axes.images[0].get_clim() for axes in plots.plot_views([views]).get_axes()]
    assert limits == [(0, 255), (0, 255), (0, 255), (0, 1)]


@pytest.mark.unit
def test_a_classs_bar_is_as_high_as_its_records():
    counts = pd.DataFrame({"train": [8, 5], "eval": [2, 1]}, index=["cat", "dog"])
    (axes,) = plots.plot_classes(counts).get_axes()
    assert [bar.get_height() for bar in axes.patches] == [8, 5, 2, 1]
    assert [bar.get_y() for bar in axes.patches] == [0, 0, 8, 5]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["train", "eval"]


@pytest.mark.beam
def test_views_are_those_that_input_fn_makes(tmp_path):
    graph_dir = graphs.shared_graph_dir()
    pattern = shards.write_shards(tmp_path, shards.make_examples(4), shards=2)
    found = plots.read_views([pattern], VIEW, CROPS, graph_dir, records=3, epochs=2, seed=5)
    assert [each.label for each in found] == ["cat", "cat", "dog"]  # records 0, 2 and 1
    np.testing.assert_array_equal(found[1].stored, shards.draw_image(2))

    for mode, views in {
        "eval": [each.eval for each in found],
        "train": [view for each in found for view in each.train],
    }.items():
        batches = input_fn(
            [pattern],
            view=VIEW,
            feeding=FeedingOptions(augment=CROPS),
            transform_graph_dir=None,
            mode=mode,
            seed=5,
            epochs=2,
        )
        seen = {image.tobytes() for images, _ in batches for image in images.numpy()}
        assert {view.tobytes() for view in views} <= seen
    # The test's graph divides by 255.
    np.testing.assert_allclose(found[0].model_input, found[0].eval / np.float32(255))
    assert not np.array_equal(found[0].train[0], found[0].train[1])
