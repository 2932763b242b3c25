import functools
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.apply import _FUNCTIONS, apply_steps, check_user_steps
from image_pipeline.components.augment.batch import (
    Batch,
    Rectangles,
    clip_boxes,
    is_covered,
    map_images,
)
from image_pipeline.components.augment.geometry import Rotate, flip_horizontal, rotate
from image_pipeline.components.augment.options import (
    STEPS,
    ColorJitter,
    FlipHorizontal,
    RandomErasing,
    RandomResizedCrop,
    read_step,
)
from image_pipeline.components.errors import UserError
from tests.augment.ways import make_batch, make_keys, run_in_all_ways

pytestmark = pytest.mark.unit


def _apply(batch, keys, steps):
    return apply_steps(batch, keys, steps)


@pytest.fixture
def user_module(monkeypatch):
    """A module of a user's functions, which can be imported as `my_steps`."""
    module = types.ModuleType("my_steps")
    monkeypatch.setitem(sys.modules, "my_steps", module)
    return module


def test_every_named_step_has_a_function_of_its_name():
    assert _FUNCTIONS.keys() == STEPS.keys() - {"random_resized_crop"}
    for name, function in _FUNCTIONS.items():
        assert function.__name__ == name
        assert function.__annotations__["options"] is STEPS[name]


def test_steps_follow_each_other_with_keys_of_their_place():
    batch, keys = make_batch(12, 9, 9), make_keys(12)
    steps = [RandomResizedCrop(), Rotate(), FlipHorizontal()]
    rotated = rotate(batch, draws.fold(keys, 1), Rotate())
    expected = flip_horizontal(rotated, draws.fold(keys, 2), FlipHorizontal()).images
    after = run_in_all_ways(_apply, batch, keys, steps)
    np.testing.assert_array_equal(after.images, expected)
    turned_round = apply_steps(batch, keys, [steps[0], steps[2], steps[1]])
    assert (turned_round.images.numpy() != after.images).any()


def test_the_same_step_twice_draws_twice():
    batch, keys = make_batch(30), make_keys(30)
    twice = apply_steps(batch, keys, [FlipHorizontal(), FlipHorizontal()]).images.numpy()
    assert (twice != batch.images.numpy()).any()


def test_no_steps_change_nothing():
    batch = make_batch(3)
    assert apply_steps(batch, make_keys(3), []) is batch


@pytest.mark.wide
def test_a_whole_list_gives_the_same_in_all_ways():
    batch = make_batch(10, 16, 12, with_masks=True, boxes=[[0.2, 0.1, 0.8, 0.7]])
    names = ("pad_and_crop", "rotate", "rand_augment", "gaussian_blur", "grayscale", "cutout")
    steps = [*map(read_step, names), ColorJitter(hue=0.2), RandomErasing()]
    after = run_in_all_ways(_apply, batch, make_keys(10), steps)
    assert (after.images != batch.images.numpy()).any(axis=(1, 2, 3)).all()


def _darken(images, keys, most=100):
    drop = tf.cast(draws.uniform(keys, 1)[:, :, None, None] * most, tf.uint8)
    return images // 2 + drop


def test_a_function_of_ones_own_gets_images_keys_and_arguments(user_module):
    user_module.darken = _darken
    batch, keys = make_batch(5), make_keys(5)
    step = read_step({"op": "my_steps.darken", "arguments": {"most": 30}})
    after = run_in_all_ways(_apply, batch, keys, [FlipHorizontal(probability=0), step])
    np.testing.assert_array_equal(after.images, _darken(batch.images, draws.fold(keys, 1), 30))
    usual = apply_steps(batch, keys, [FlipHorizontal(probability=0), read_step("my_steps.darken")])
    assert (usual.images.numpy() != after.images).any()


class _Inverting:
    """Functions of several kinds that ask `if` of a tensor."""

    def __init__(self, most):
        self.most = most

    def __call__(self, images, keys):
        if tf.reduce_mean(tf.cast(images, tf.float32)) < self.most:
            images = 255 - images
        return images

    def invert(self, images, keys):
        return self(images, keys)


def _invert(images, keys, most=255.0):
    if tf.reduce_mean(tf.cast(images, tf.float32)) < most:
        images = 255 - images
    return images


_KINDS = {
    "function": _invert,
    "partial": functools.partial(_invert, most=255.0),
    "object": _Inverting(255.0),
    "method": _Inverting(255.0).invert,
    "lambda": lambda images, keys: 255 - images if tf.reduce_max(images) > 0 else images,
    "tf.function": tf.function(_invert),
}


@pytest.mark.parametrize("kind", _KINDS)
def test_any_callable_may_ask_if_of_a_tensor(user_module, kind):
    user_module.invert = _KINDS[kind]
    batch, keys, steps = make_batch(3), make_keys(3), [read_step("my_steps.invert")]
    traced = tf.function(
        lambda: apply_steps(batch, keys, steps).images, autograph=False, jit_compile=True
    )
    np.testing.assert_array_equal(traced(), 255 - batch.images)
    np.testing.assert_array_equal(apply_steps(batch, keys, steps).images, 255 - batch.images)


def _mirror(images, keys, masks=None, least=0):
    turned = tf.where(draws.uniform(keys, 1)[:, 0] < 0.5, 1, 0)[:, None, None, None]
    images, masks = (
        None if each is None else tf.where(turned == 1, each[:, :, ::-1], each)
        for each in (images, masks)
    )
    images = tf.maximum(images, tf.cast(least, tf.uint8))
    return images if masks is None else (images, masks)


def test_a_function_of_ones_own_moves_masks_that_it_takes(user_module):
    user_module.mirror = _mirror
    batch, keys = make_batch(9, channels=1, with_masks=True), make_keys(9)
    step = read_step({"op": "my_steps.mirror", "arguments": {"least": 9}})
    check_user_steps([step], "masks")
    after = run_in_all_ways(_apply, batch._replace(masks=batch.images), keys, [step])
    np.testing.assert_array_equal(np.maximum(after.masks, 9), after.images)
    moved = (after.masks != batch.images.numpy()).any(axis=(1, 2, 3))
    assert 0 < moved.sum() < 9
    np.testing.assert_array_equal(
        apply_steps(batch._replace(masks=None), keys, [step]).images, after.images
    )


def test_a_function_of_ones_own_that_takes_no_masks_is_refused_for_them(user_module):
    user_module.darken = _darken
    step = read_step("my_steps.darken")
    check_user_steps([step])
    rule = r"the step my_steps.darken must move masks with their images: let it take masks="
    with pytest.raises(UserError, match=rule):
        check_user_steps([step], "masks")
    with pytest.raises(UserError, match=rule):
        apply_steps(make_batch(2, with_masks=True), make_keys(2), [step])


@pytest.mark.parametrize(
    ("result", "rule"),
    [
        (lambda images, masks: images, "must give images and masks, as a pair"),
        (lambda images, masks: (images, masks, images), "must give images and masks, as a pair"),
        (
            lambda images, masks: (images, masks[..., 0]),
            "must give uint8 masks .*gave uint8 .2, 7, 5",
        ),
        (lambda images, masks: (images, tf.cast(masks, tf.int32)), "gave int32"),
    ],
)
def test_what_it_gives_for_masks_is_checked(user_module, result, rule):
    user_module.wrong = lambda images, keys, masks: result(images, masks)
    with pytest.raises(UserError, match=rf"(?s)the step my_steps.wrong .*{rule}"):
        apply_steps(make_batch(2, with_masks=True), make_keys(2), [read_step("my_steps.wrong")])


@pytest.mark.parametrize(
    ("result", "rule"),
    [
        (lambda images, boxes: images, "must give images and boxes, as a pair"),
        (
            lambda images, boxes: (images, boxes[:, :1]),
            r"gave float32 \(2, 1, 4\); move all of them",
        ),
        (lambda images, boxes: (images, tf.cast(boxes, tf.int32)), "gave int32"),
        (lambda images, boxes: (images, None), "gave NoneType"),
    ],
)
def test_what_it_gives_for_boxes_is_checked(user_module, result, rule):
    user_module.wrong = lambda images, keys, boxes: result(images, boxes)
    batch = make_batch(2, boxes=[[0.2, 0.1, 0.8, 0.7], [0, 0, 1, 1]])
    with pytest.raises(UserError, match=f"the step my_steps.wrong .*{rule}"):
        apply_steps(batch, make_keys(2), [read_step("my_steps.wrong")])


def test_boxes_may_be_moved_in_double_precision(user_module):
    user_module.move = lambda images, keys, boxes: (images, tf.cast(boxes, tf.float64) / 2)
    batch = make_batch(2, boxes=[[0.5, 0, 1, 1]])
    moved = apply_steps(batch, make_keys(2), [read_step("my_steps.move")]).boxes
    np.testing.assert_array_equal(moved, np.array([[[0.25, 0, 0.5, 0.5]]] * 2, np.float32))


@pytest.mark.whole
@pytest.mark.parametrize(
    ("result", "came"),
    [
        (lambda images: tf.cast(images, tf.float32) / 255, "float32"),
        (lambda images: images[:, 1:], "uint8 .*6, 5, 3"),
        (lambda images: images[..., :1], "uint8 .*7, 5, 1"),
        (lambda images: None, "NoneType"),
        (lambda images: (images,), "tuple"),
    ],
)
@pytest.mark.parametrize("in_dataset", [False, True])
def test_a_wrong_result_is_refused_while_it_is_traced(user_module, result, came, in_dataset):
    user_module.wrong = lambda images, keys: result(images)
    batch, keys, steps = make_batch(2), make_keys(2), [read_step("my_steps.wrong")]
    rule = rf"(?s)the step my_steps.wrong must give uint8 images of the shape.*gave ({came}).*cast"
    with pytest.raises(UserError, match=rule):
        if in_dataset:
            dataset = tf.data.Dataset.from_tensor_slices((batch.images, keys)).batch(2)
            dataset.map(
                lambda images, keys: apply_steps(batch._replace(images=images), keys, steps)
            )
        else:
            apply_steps(batch, keys, steps)


@pytest.mark.parametrize("path", ["my_steps.drken", "no_such_module.darken"])
def test_a_function_that_cannot_be_imported_is_an_error_of_the_user(user_module, path):
    user_module.darken = _darken
    message = rf"the step {path} cannot be loaded: .*correct the path"
    for check in (check_user_steps, lambda steps: apply_steps(make_batch(2), make_keys(2), steps)):
        with pytest.raises(UserError, match=message):
            check([read_step(path)])


def test_an_error_in_the_module_of_a_function_names_the_step(tmp_path, monkeypatch):
    (tmp_path / "steps_that_need_more.py").write_text("import not_installed_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"steps_that_need_more.darken cannot.*not_installed"):
        check_user_steps([read_step("steps_that_need_more.darken")])


def _fail(images, keys):
    return tf.stack([images[number] for number in range(images.shape[0])])


@pytest.mark.parametrize("is_traced", [True, False])
def test_a_function_that_fails_is_an_error_that_names_the_step(user_module, is_traced):
    user_module.fail = _fail if is_traced else lambda images, keys: keys["no"]
    spec = tf.TensorSpec([None, 8, 8, 3], tf.uint8)

    def apply(images):
        return apply_steps(Batch(images), make_keys(3), [read_step("my_steps.fail")]).images

    said = (
        r"the step my_steps.fail failed with TypeError: \S(?!.*TypeError).*images.shape\[0\] may be"
    )
    with pytest.raises(UserError, match=said):
        if is_traced:
            tf.function(apply, autograph=False).get_concrete_function(spec)
        else:
            apply(tf.zeros([3, 8, 8, 3], tf.uint8))


def test_what_is_no_function_is_refused(user_module):
    user_module.darken = 3
    with pytest.raises(UserError, match=r"my_steps.darken is of type int; name a function"):
        check_user_steps([read_step("my_steps.darken")])


def test_arguments_that_the_function_does_not_take_are_refused(user_module):
    user_module.darken = _darken
    step = read_step({"op": "my_steps.darken", "arguments": {"least": 1}})
    with pytest.raises(UserError, match=r"by name \(least\), got:.*'least'; change"):
        check_user_steps([step])
    user_module.darken = lambda images: images
    with pytest.raises(UserError, match=r"\(it has none\), got: too many"):
        check_user_steps([read_step("my_steps.darken")])


def test_sound_steps_pass_the_check(user_module):
    user_module.darken = _darken
    check_user_steps([FlipHorizontal(), read_step("my_steps.darken")])


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ([0.25, 0.5, 0.75, 1.0], [0.25, 0.5, 0.75, 1.0]),
        ([-0.25, 0.5, 0.75, 1.5], [0.0, 0.5, 0.75, 1.0]),
        ([-0.5, 0.25, 0.0, 0.75], [0.0, 0.0, 0.0, 0.0]),  # touches the image from above
        ([0.25, 1.0, 0.75, 2.0], [0.0, 0.0, 0.0, 0.0]),
        ([0.5, 0.25, 0.5, 0.75], [0.0, 0.0, 0.0, 0.0]),  # no height
    ],
)
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_boxes_are_cut_at_the_edges_and_empty_ones_are_zeros(box, expected, dtype):
    clipped = clip_boxes(tf.constant([[box]], dtype))
    assert clipped.dtype == tf.float32
    np.testing.assert_array_equal(clipped, [[expected]])


def test_rectangles_hold_their_first_row_and_column_but_not_their_ends():
    sides = np.array([[1, 2, 3, 4], [-3, -3, 2, 1], [2, 1, 2, 3], [0, 0, 9, 9]])
    rectangles = Rectangles(*(tf.constant(side, tf.int32) for side in sides.T))
    expected = np.zeros((4, 4, 5, 1), bool)
    expected[0, 1:3, 2:4] = True
    expected[1, :2, :1] = True
    expected[3] = True  # the third is empty
    np.testing.assert_array_equal(is_covered(4, 5, rectangles), expected)


def _invert_some(images, chosen):
    assert all(each.shape[0] == 1 for each in images)
    return tf.cond(chosen[0], lambda: tuple(255 - each for each in images), lambda: images)


@pytest.mark.parametrize("compiled", [None, False, True])
def test_each_image_takes_its_own_branch(compiled):
    batch = make_batch(4, with_masks=True)
    chosen = tf.constant([True, False, False, True])
    run = lambda: map_images(_invert_some, (batch.images, batch.masks), chosen)  # noqa: E731
    images, masks = run() if compiled is None else tf.function(run, jit_compile=compiled)()
    for before, after in ((batch.images, images), (batch.masks, masks)):
        expected = np.where(chosen[:, None, None, None], 255 - before.numpy(), before)
        np.testing.assert_array_equal(after, expected)
        assert after.dtype == tf.uint8
