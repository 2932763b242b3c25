import numpy as np
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.preview import panels
from image_pipeline.preview.samples import choose_spread, read_views
from tests import graphs, shards
from tests.pipeline.preview.test_plots import make_views
from tests.tiers import wide

pytestmark = pytest.mark.unit

VIEW = ViewOptions(height_px=8, width_px=8, channels=3)
LABELS = ("ant", "bee", "cat", "dog", "elk")
STEPS = [
    {"op": "random_resized_crop", "area": (0.3, 0.6)},
    "flip_horizontal",
    {"op": "color_jitter", "brightness": 0.4, "hue": 0.1},
    {"op": "cutout", "size_px": 3},
]


def fail(images, keys):
    """A user's step that is wrong."""
    raise KeyError("no such thing")


def give_floats(images, keys):
    """A user's step whose result no one can take."""
    return images / 2


@pytest.fixture
def pattern(tmp_path):
    return shards.write_shards(tmp_path, shards.make_examples(5, LABELS), shards=2)


def read_batches(pattern, feeding, mode, graph_dir=None, **passes):
    batches = input_fn(
        [pattern], view=VIEW, feeding=feeding, transform_graph_dir=graph_dir, mode=mode, **passes
    )
    return [(images.numpy(), labels.numpy()) for images, labels in batches]


@pytest.mark.parametrize("compiled", [True, wide(False)])
def test_views_are_the_pixels_that_training_and_evaluation_get(pattern, compiled):
    feeding = FeedingOptions(batch_size=5, augment=STEPS, compiled=compiled)
    found = read_views([pattern], VIEW, feeding, records=5, epochs=3, seed=7)
    assert [each.label for each in found] == list(LABELS)
    for number, each in enumerate(found):
        np.testing.assert_array_equal(each.stored, shards.draw_image(number))
        assert each.shares == ({each.label: 1.0},) * 3
    ((images, labels),) = read_batches(pattern, feeding, "eval")
    for image, label in zip(images, labels, strict=True):
        np.testing.assert_array_equal(found[LABELS.index(label.decode())].eval, image)
    trained = read_batches(pattern, feeding, "train", seed=7, epochs=3)
    for epoch, (images, labels) in enumerate(trained):
        for image, label in zip(images, labels, strict=True):
            views = found[LABELS.index(label.decode())]
            np.testing.assert_array_equal(views.train[epoch], image)
    distinct = {view.tobytes() for each in found for view in each.train}
    assert len(distinct) == 5 * 3


@pytest.mark.parametrize("step", [{"op": "mixup", "alpha": 1.0}, wide("cutmix")])
def test_mixed_views_come_with_the_shares_that_training_gets(tmp_path, step):
    graph_dir = graphs.shared_graph_dir()
    pattern = shards.write_shards(tmp_path, shards.make_examples(2))
    # With two records, training pairs the same two; by their labels one knows which is which.
    feeding = FeedingOptions(batch_size=2, augment=[*STEPS, step], dtype="uint8")
    found = read_views([pattern], VIEW, feeding, graph_dir, records=2, epochs=4, seed=3)
    trained = read_batches(pattern, feeding, "train", graph_dir, seed=3, epochs=4)
    for epoch, (images, labels) in enumerate(trained):
        seen = {image.tobytes(): shares for image, shares in zip(images, labels, strict=True)}
        for views in found:
            shares = [views.shares[epoch].get(name, 0) for name in ("cat", "dog")]
            np.testing.assert_allclose(seen[views.train[epoch].tobytes()], shares, atol=1e-6)
    assert any(len(each.shares[0]) == 2 for each in found)


def test_no_record_is_mixed_with_itself_because_their_number_is_odd(pattern):
    feeding = FeedingOptions(batch_size=4, augment=["cutmix"])
    found = read_views([pattern], VIEW, feeding, records=3, epochs=8)
    assert len(found) == 3
    assert {name for shares in found[2].shares for name in shares} == {"cat", "dog"}


def test_the_models_input_is_the_eval_view_after_the_graph(tmp_path):
    # The test's graph divides by 255.
    pattern = shards.write_shards(tmp_path, shards.make_examples(2))
    graph_dir = graphs.shared_graph_dir()
    for each in read_views([pattern], VIEW, FeedingOptions(), graph_dir, records=2, epochs=1):
        np.testing.assert_allclose(each.model_input, each.eval / np.float32(255))
    (each,) = read_views([pattern], VIEW, FeedingOptions(), records=1, epochs=1)
    assert each.model_input is None


def test_another_seed_gives_other_training_views_only(pattern):
    first, second = (
        read_views([pattern], VIEW, FeedingOptions(augment=STEPS), records=1, epochs=1, seed=seed)
        for seed in (0, 1)
    )
    assert not np.array_equal(first[0].train, second[0].train)
    np.testing.assert_array_equal(first[0].eval, second[0].eval)


def test_without_random_steps_training_sees_the_eval_view(pattern):
    found = read_views([pattern], VIEW, FeedingOptions(augment=[]), records=5, epochs=2)
    for each in found:
        np.testing.assert_array_equal(each.train, np.stack([each.eval] * 2))


def test_with_mirror_images_the_first_view_is_shown_unflipped(pattern):
    # Training makes the mirror image a view of its own, and then never flips by chance.
    mirrored = FeedingOptions(augment=["flip_horizontal"], many_views={"mirror": True})
    for each in read_views([pattern], VIEW, mirrored, records=2, epochs=6):
        np.testing.assert_array_equal(each.train, np.stack([each.eval] * 6))


@pytest.mark.parametrize(
    ("classes", "count", "chosen"),
    [
        ([1, 1, 0, 2, 1, 0], 3, [2, 0, 3]),  # the first of each class
        ([1, 1, 0, 2, 1, 0], 5, [2, 0, 3, 5, 1]),  # then the second, as far as there is one
        ([1, 1, 0, 2, 1, 0], 9, [2, 0, 3, 5, 1, 4]),
        ([0, 1, 2, 3, 4, 5], 3, [0, 2, 4]),  # of many classes, every so many
        ([], 3, []),
    ],
)
def test_records_are_spread_over_the_classes(classes, count, chosen):
    assert choose_spread(np.array(classes, np.int64), count).tolist() == chosen


def test_a_users_step_that_fails_is_named(pattern):
    name = f"{__name__}.fail"
    with pytest.raises(UserError, match=rf"the step {name} failed with KeyError: .*no such thing"):
        read_views([pattern], VIEW, FeedingOptions(augment=[name]))
    name = f"{__name__}.give_floats"
    with pytest.raises(UserError, match="must give uint8 images"):
        read_views([pattern], VIEW, FeedingOptions(augment=[name]))


def test_an_empty_file_has_nothing_to_show(tmp_path):
    pattern = shards.write_shards(tmp_path, [])
    with pytest.raises(UserError, match="there must be a record to read, but"):
        read_views([pattern], VIEW, FeedingOptions())


def test_the_mean_is_mid_grey_and_extremes_are_clipped():
    pixels = np.array([-99, -2.5, 0, 1.25, 2.5, 99], np.float32)
    np.testing.assert_allclose(panels.scale_to_display(pixels), [0, 0, 0.5, 0.75, 1, 1])


def test_panels_come_in_their_order_with_shares_only_where_images_are_mixed():
    made = panels.make_panels(make_views(epochs=2))
    assert [(panel.title, panel.captions) for panel in made] == [
        ("stored", ("16×12",)),
        ("eval", ("8×8",)),
        ("train, epoch 0", ("0.75 × cat", "0.25 × dog")),
        ("train, epoch 1", ()),
        ("model's input", ("mid-grey: the mean",)),
    ]


@pytest.mark.parametrize("channels", [1, 3])
def test_small_views_are_magnified_by_whole_pixels(channels):
    views = make_views(channels=channels)
    shown = panels.make_panels(views)[1].pixels
    assert shown.shape == (128, 128, 3)
    np.testing.assert_array_equal(shown[::16, ::16], np.broadcast_to(views.eval, (8, 8, 3)))
    np.testing.assert_array_equal(shown, shown[::16, ::16].repeat(16, 0).repeat(16, 1))


def test_dark_pictures_stay_dark():
    shown = panels.fit(np.full((4, 4, 1), 3, np.uint8), 8, 8)
    assert (shown == 3).all() and shown.shape == (8, 8, 3)


@pytest.mark.parametrize(
    ("shape", "box"),
    [
        ((8, 8), (128, 128)),
        ((28, 20), (140, 100)),
        ((128, 100), (128, 100)),
        ((256, 200), (256, 200)),
        ((400, 512), (200, 256)),
        ((1, 2000), (1, 256)),
    ],
)
def test_views_of_128_to_256_pixels_are_shown_as_they_are(shape, box):
    assert panels.box_size(shape) == box


def test_large_images_shrink_into_the_box_with_their_aspect():
    assert panels.fit(np.zeros((500, 1000, 3), np.uint8), 200, 200).shape == (100, 200, 3)
    assert panels.fit(np.zeros((1, 9000, 3), np.uint8), 200, 200).shape == (1, 200, 3)
