"""What holds for every step that works on one image at a time, whatever it does."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.augment import options
from image_pipeline.components.augment.apply import apply_steps
from image_pipeline.components.augment.options import (
    CutMix,
    Cutout,
    FlipHorizontal,
    PadAndCrop,
    RandomResizedCrop,
    Rotate,
    Steps,
    UserStep,
    read_step,
)
from image_pipeline.components.options import Options
from image_pipeline.components.views.options import ViewOptions
from tests.augment.ways import EXAMPLES, make_batch, make_keys

pytestmark = pytest.mark.unit


class _Feeding(Options):
    """Options with a list of steps, as those of feeding."""

    batch_size: int = 32
    augment: Steps = (RandomResizedCrop(), FlipHorizontal())


NAMES = sorted(options.STEPS)
CHANGED = [*EXAMPLES, {"op": "my_steps.darken", "arguments": {"most": 30, "names": ["a", "b"]}}]


def test_the_examples_are_of_every_step():
    assert sorted(each["op"] for each in CHANGED[:-1]) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_name_alone_is_a_step_with_its_defaults(name):
    step = read_step(name)
    assert type(step) is options.STEPS[name]
    assert step == options.STEPS[name]() and step.op == name


@pytest.mark.parametrize("settings", CHANGED, ids=lambda settings: settings["op"])
def test_a_mapping_sets_the_options_it_names_and_no_others(settings):
    step = read_step(settings)
    named = json.loads(json.dumps(step.model_dump(mode="json", exclude_unset=True)))
    assert named == settings
    assert step != read_step(settings["op"])


def test_a_dotted_path_is_a_step_of_ones_own():
    assert read_step("my_package.my_steps.darken") == UserStep(op="my_package.my_steps.darken")
    with_arguments = read_step({"op": "my_steps.darken", "arguments": {"most": 3}})
    assert with_arguments == UserStep(op="my_steps.darken", arguments={"most": 3})


def test_two_steps_of_ones_own_do_not_share_their_arguments():
    assert read_step("a.b").arguments is not read_step("a.c").arguments


def test_options_are_taken_as_they_are():
    step = Cutout(size_px=3)
    assert read_step(step) is step


def test_a_list_keeps_its_order_and_may_mix_all_forms():
    feeding = _Feeding.model_validate(
        {"augment": ["random_resized_crop", {"op": "rotate"}, CutMix(), "a.b", "rotate"]}
    )
    assert feeding.augment == (
        RandomResizedCrop(),
        Rotate(),
        CutMix(),
        UserStep(op="a.b"),
        Rotate(),
    )
    assert _Feeding.model_validate({"augment": []}).augment == ()


@pytest.mark.parametrize("value", [3, None, [], {}, {"size_px": 3}, {"op": 3}, ["cutout"]])
def test_what_is_no_step_is_refused_with_an_example(value):
    with pytest.raises(ValueError) as caught:
        read_step(value)
    assert f"got {value!r}; write for example flip_horizontal" in str(caught.value)


def test_options_that_are_no_step_are_refused():
    with pytest.raises(ValueError, match="a step must be a name, or a mapping"):
        read_step(ViewOptions())


def test_a_list_comes_back_from_json_as_it_was():
    feeding = _Feeding.model_validate({"augment": CHANGED, "batch_size": 8})
    dumped = json.loads(json.dumps(feeding.model_dump(mode="json")))
    assert [step["op"] for step in dumped["augment"]] == [each["op"] for each in CHANGED]
    assert dumped["augment"][5] == {"op": "cutout", "size": 0.25, "size_px": 5, "fill": 0}
    assert _Feeding.model_validate(dumped) == feeding
    assert _Feeding.model_validate_json(feeding.model_dump_json()) == feeding
    defaults = _Feeding()
    assert _Feeding.model_validate(defaults.model_dump(mode="json")) == defaults


@pytest.mark.parametrize(
    ("step", "shares", "lengths"),
    [
        (Cutout(), [(32, 32), (224, 224), (224, 300), (1, 9)], [8, 56, 56, 1]),
        (Cutout(size=0.5), [(32, 32), (31, 40)], [16, 16]),
        (Cutout(size_px=5), [(32, 32), (224, 224)], [5, 5]),
    ],
)
def test_a_square_is_a_share_of_the_shorter_side_or_so_many_pixels(step, shares, lengths):
    assert [step.find_size_px(*size) for size in shares] == lengths


def test_a_padding_is_a_share_of_the_shorter_side_or_so_many_pixels():
    sizes = [(32, 32), (224, 300), (3, 3)]
    assert [PadAndCrop().find_pad_px(*size) for size in sizes] == [4, 28, 1]
    assert [PadAndCrop(pad_px=2).find_pad_px(*size) for size in sizes] == [2, 2, 2]


@pytest.mark.e2e
def test_steps_are_read_without_tensorflow():
    module = "image_pipeline.components.augment.options"
    code = f"import sys, {module}; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# The others have tests of their own.
ALL = [each for each in EXAMPLES if each["op"] not in ("random_resized_crop", "mixup", "cutmix")]
# They turn or shift.
MOVES = ("pad_and_crop", "flip_horizontal", "flip_vertical", "rotate", "rand_augment")
each_step = pytest.mark.parametrize("step", ALL, ids=lambda step: step["op"])


def _images(step, batch, keys):
    return apply_steps(batch, keys, [read_step(step)]).images.numpy()


@each_step
def test_a_view_hangs_on_its_key_alone_not_on_its_batch(step):
    batch, keys = make_batch(24, 9, 11), make_keys(24)
    whole = _images(step, batch, keys)
    order = np.random.default_rng(0).permutation(24)[:10]
    taken = batch._replace(images=tf.gather(batch.images, order))
    np.testing.assert_array_equal(_images(step, taken, tf.gather(keys, order)), whole[order])
    for place in (0, 13):
        alone = batch._replace(images=batch.images[place : place + 1])
        one = _images(step, alone, keys[place : place + 1])
        np.testing.assert_array_equal(one[0], whole[place])


@each_step
def test_records_epochs_and_runs_get_other_views(step):
    batch = make_batch(24, 9, 11)
    same = batch._replace(images=batch.images[:1] + batch.images * 0)
    views = [
        _images(step, same, make_keys(24, seed, epoch)) for seed, epoch in ((0, 0), (0, 1), (1, 0))
    ]
    assert all(len({view.tobytes() for view in each}) > 1 for each in views)
    assert len({view.tobytes() for view in views}) == 3


@each_step
def test_a_compiled_step_draws_anew_at_each_call(step):
    """No number is frozen while the step is traced."""
    batch, options = make_batch(24, 9, 11), read_step(step)
    run = tf.function(
        lambda images, keys: apply_steps(batch._replace(images=images), keys, [options]).images,
        jit_compile=True,
    )
    views = [run(batch.images, make_keys(24, 0, epoch)).numpy() for epoch in range(3)]
    assert len({view.tobytes() for view in views}) == 3
    np.testing.assert_array_equal(run(batch.images, make_keys(24)), views[0])


@each_step
def test_only_steps_that_move_pixels_change_masks_and_boxes(step):
    batch = make_batch(8, 9, 11, with_masks=True, boxes=[[0.1, 0.2, 0.5, 0.9]])
    after = apply_steps(batch, make_keys(8), [read_step(step)])
    is_left = after.masks is batch.masks and after.boxes is batch.boxes
    assert is_left == (step["op"] not in MOVES)
