"""How a first model is trained: chosen by what the images are, how many, and the time there is."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from image_pipeline.components.errors import UserError
from image_pipeline.components.extras import find_missing
from image_pipeline.components.models.names import (
    CNN,
    DETECTOR,
    DETECTOR_LITE0,
    IMAGENET,
    LITE0,
    PLAIN,
    RESNET,
    SMALL,
    UNET,
    UNET_LITE0,
    WANTED_PIXELS,
    find_weights,
)
from image_pipeline.init.choose_steps import SMALL_PX, choose_steps
from image_pipeline.init.layout import Layout, choose_shares
from image_pipeline.init.sizes import Sizes
from image_pipeline.show.words import format_seconds

# Networks with ImageNet's weights: by kind of label.
_PRETRAINED = {"masks": UNET_LITE0, "boxes": DETECTOR_LITE0}
_FROM_SCRATCH = {"masks": UNET, "boxes": DETECTOR}
_WITH_PLACES = tuple(_PRETRAINED)
# Smaller images have no details that photos taught a network to see.
_LEAST_PHOTO_PX = 32
# Sides that a view may have, the largest first: of a square, or of one of the same area.
_SIDES = (224, 192, 160, 128, 96, 64)
_SHOWN_PX = 96  # smaller images stay as they are, or are shown so large to a network of photos
_BLOCK_PX = 16  # sides of a view are multiples of it, so that most networks halve them evenly
_TINY_VIEW_PX = 32  # at least as large are tiny images shown
_WIDEST = 2.0  # sides of a view, the longer by the shorter
_ALIKE = 0.8  # share of the images that lie the same way, so that a view of that shape suits them

# With fewer, a deeper network from random weights learns the images by heart.
_FEW_TO_LEARN_FROM = 2000
_SMALLEST = 16  # px; a residual network would halve them to nothing
# Shares of the epochs that are wanted: a smaller view is better than less, and at the smallest one.
_ENOUGH, _ENOUGH_AT_LAST = 0.75, 0.5
_TINY_PX = 24  # below it, images are shown several times as large, for there is little to halve
_MANY = 5000  # images; from here on larger batches suit
# Batches an epoch should have some ten of, and images with masks or boxes say more than a class.
_FEW_PLACED, _SOME_PLACED = 200, 2000

# What a model should see in training, as 2,000 images in 20 epochs, where time allows; one that
# starts from photos needs less of it.
_LEAST_VIEWS, _LEAST_EPOCHS, _MOST_EPOCHS = 40_000, 10, 40
_TUNING_VIEWS, _FEWEST_TUNING, _MOST_TUNING = 15_000, 4, 12
_LEAST_TUNING = 2  # a head, and all of it
_LEAST_AT_ALL = 3
_FORWARD = 0.35  # of a step's time: what a frozen network, or an evaluation, takes
# Three times what any of these networks took of two cores; what takes less than a minute by it is
# not measured, for that takes TensorFlow's import.
_MOST_SECONDS_A_PIXEL = 1e-5
_NO_MATTER = 60.0

SecondsAnImage = Callable[[str, int, int, int], float]
"""Of a training step: by the model's name, and the view's height, width and channels."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What a starter configuration says of the model's input and of training.

    Attributes:
      view: height and width in pixels, and channels.
      batch_size: for `feeding.batch_size`.
      steps: for `feeding.augment`.
      preprocessing_fn: for `transform.preprocessing_fn`; None for the default.
      training: for `training`.
      why: what chose the network, as a sentence goes on after its name.
      seconds: that training takes here; None if nothing was measured.
    """

    view: tuple[int, int, int]
    batch_size: int
    steps: list[Any]
    preprocessing_fn: str | None
    training: Mapping[str, Any]
    why: str
    seconds: float | None


@dataclasses.dataclass(frozen=True)
class Wishes:
    """What a person said of training.

    Attributes:
      side_px: the shorter side of the model's input; None for what suits.
      mirrored: whether a mirrored image is as good as the image.
      minutes: that training may take.
    """

    side_px: int | None = None
    mirrored: bool = True
    minutes: float = 10.0


_NO_WISHES = Wishes()


def say_time(seconds: float) -> str:
    """How long training takes on this machine."""
    return (
        f"about {format_seconds(seconds)} here"
        if seconds > _NO_MATTER
        else "less than a minute here"
    )


def choose_recipe(
    layout: Layout,
    sizes: Sizes,
    wishes: Wishes = _NO_WISHES,
    measure: SecondsAnImage | None = None,
) -> Recipe:
    """Chooses the network, its input, the batch, random steps and how long it learns.

    A network that knows ImageNet's photos is taken where images have colours or gray levels of 8
    bits and 32 pixels or more, its weights are installed, and there is time for a few epochs at
    some size; else one from random weights. The view is as large as the time allows.

    Args:
      layout: what the images are, and how many.
      sizes: of some of them.
      wishes: what a person said.
      measure: how long a step takes; None if time is no matter.
    """
    kind = layout.kind_of_label
    tried = [_FROM_SCRATCH[kind]] if kind in _FROM_SCRATCH else _list_small(layout, sizes)
    if not (why_not := _refuse_photos(sizes)):
        tried.insert(0, _PRETRAINED.get(kind, LITE0))
    for model in tried:
        is_last = model == tried[-1]
        found = _fit_into_time(model, layout, sizes, wishes, measure, take_least=is_last)
        if found is None:
            why_not = f"{wishes.minutes:g} min are too short for {model}"
            continue
        view, epochs, seconds = found
        return Recipe(
            view=view,
            batch_size=_choose_batch(layout),
            steps=_choose_steps(layout, sizes, wishes, epochs),
            preprocessing_fn=WANTED_PIXELS.get(model),
            training=_choose_training(model, epochs),
            why=why_not or "starts from what it learned of ImageNet's photos",
            seconds=seconds,
        )
    raise AssertionError("the last of them takes the time that it needs")


def _refuse_photos(sizes: Sizes) -> str:
    """Says why a network that knows photos does not suit; "" if it does."""
    if sizes.sound is not None:
        return "pictures of sounds are not photos"
    if sizes.values is not None:
        dtype, channels = sizes.values
        return f"ImageNet's weights are of 3 channels of 8 bits, not {channels} of {dtype}"
    shorter = min(sizes.height_px, sizes.width_px)
    if shorter < _LEAST_PHOTO_PX:
        return f"images below {_LEAST_PHOTO_PX} pixels"
    if sizes.gray and shorter < SMALL_PX:  # Scans, faces and signs, more often than photos.
        return f"gray images below {SMALL_PX} pixels"
    if missing := find_missing("weights", "starting from ImageNet's photos"):
        return missing
    try:
        find_weights(read=False)
    except UserError as error:
        return str(error).rstrip(".")
    return ""


def _list_small(layout: Layout, sizes: Sizes) -> list[str]:
    """The networks that learn from random weights: a deeper one, and the one that takes least."""
    shorter = min(sizes.height_px, sizes.width_px)
    deeper, least = (RESNET, PLAIN) if shorter < SMALL_PX else (CNN, SMALL)
    if _count(layout) < _FEW_TO_LEARN_FROM or shorter < _SMALLEST:
        return [least]
    return [deeper, least]


def _fit_into_time(
    model: str,
    layout: Layout,
    sizes: Sizes,
    wishes: Wishes,
    measure: SecondsAnImage | None,
    take_least: bool,
) -> tuple[tuple[int, int, int], int, float | None] | None:
    """The largest view for which there is time for most of the epochs that are wanted.

    Returns:
      The view, the number of epochs and the seconds that they take; None if there is no time even
      for the smallest view, unless it is to be taken all the same.
    """
    is_tuned = model in WANTED_PIXELS
    views = list_views(sizes, is_tuned)
    middle = views[len(views) // 2]
    if wishes.side_px is not None:
        height, width, channels = views[0]
        larger = wishes.side_px / min(height, width)
        views = [(round(larger * height), round(larger * width), channels)]
    wanted, least = _count_epochs(layout, is_tuned)
    train, evaluated = _share_out(layout)
    most = _MOST_SECONDS_A_PIXEL * wanted * (train + evaluated) * views[0][0] * views[0][1]
    if measure is None or most <= min(_NO_MATTER, 60 * wishes.minutes):
        return views[0], wanted, None if measure is None else most
    # Time grows with the number of pixels, so it is measured once, also for another side.
    a_pixel = measure(model, *middle) / (middle[0] * middle[1])
    for view in views:
        an_image = a_pixel * view[0] * view[1]
        saved = an_image * train * (1 - _FORWARD) if _has_phases(model) else 0.0
        seconds = [
            number * an_image * (train + _FORWARD * evaluated) - _count_frozen(number) * saved
            for number in range(wanted + 1)
        ]
        epochs = sum(each <= 60 * wishes.minutes for each in seconds[1:])
        is_last = view == views[-1]
        enough = max(least, (_ENOUGH_AT_LAST if is_last else _ENOUGH) * wanted)
        if is_last and take_least:
            epochs = max(epochs, _LEAST_AT_ALL)
        elif epochs < enough:
            continue
        return view, epochs, seconds[epochs]
    return None


def list_views(sizes: Sizes, is_tuned: bool) -> list[tuple[int, int, int]]:
    """The model's inputs that suit images, the largest first.

    Small images stay as they are, and so do the pictures of sounds; but tiny ones are shown at a
    multiple of their size, and a network of photos is shown small ones larger. Others keep their
    shape if most lie the same way, since a square cuts off what is at the sides.

    Returns:
      Heights and widths in pixels, and channels.
    """
    height, width = sizes.height_px, sizes.width_px
    gray = 1 if sizes.gray and not is_tuned else 3
    channels = sizes.values[1] if sizes.values else gray
    shorter = min(height, width)
    is_small = shorter < _SHOWN_PX or (sizes.equal and max(height, width) <= _SIDES[0])
    if sizes.sound is not None:
        return [(height, width, channels)]
    if is_small and not is_tuned:
        times = 1 if shorter >= _TINY_PX else -(-_TINY_VIEW_PX // shorter)
        high, wide = (height, width) if _lie_alike(sizes) else (shorter, shorter)
        return [(times * high, times * wide, channels)]
    sides = [side for side in _SIDES if side <= max(shorter, _SHOWN_PX)]
    ratio = min(max(width / height, 1 / _WIDEST), _WIDEST) if _lie_alike(sizes) else 1.0
    shaped = [(side / ratio**0.5, side * ratio**0.5) for side in sides]
    if ratio == 1 or min(sides) < 2 * _BLOCK_PX:
        return [(round(high), round(wide), channels) for high, wide in shaped]
    rounded = [(_round(high), _round(wide), channels) for high, wide in shaped]
    return list(dict.fromkeys(rounded))


def _round(side_px: float) -> int:
    return max(1, round(side_px / _BLOCK_PX)) * _BLOCK_PX


def _lie_alike(sizes: Sizes) -> bool:
    if sizes.shapes is None:
        return sizes.equal
    total = sum(sizes.shapes.counts.values())
    return max(sizes.shapes.counts.values()) >= _ALIKE * total


def _choose_batch(layout: Layout) -> int:
    if layout.kind_of_label in _WITH_PLACES:
        return 4 if _count(layout) < _FEW_PLACED else 8 if _count(layout) < _SOME_PLACED else 16
    return 32 if _count(layout) < _MANY else 64


def _choose_steps(layout: Layout, sizes: Sizes, wishes: Wishes, epochs: int) -> list[Any]:
    steps, _ = choose_steps(
        layout.kind_of_label,
        min(sizes.height_px, sizes.width_px),
        images=None if layout.generator is not None else layout.images,
        epochs=epochs,
        is_sound=sizes.sound is not None,
        mirrored=wishes.mirrored,
    )
    return steps


def _choose_training(model: str, epochs: int) -> dict[str, Any]:
    chosen: dict[str, Any] = {"model": model}
    if model in WANTED_PIXELS:
        chosen["weights"] = IMAGENET
    if _has_phases(model):
        frozen = _count_frozen(epochs)
        chosen["fine_tuning"] = {"head_epochs": frozen, "learning_rate": 3e-4}
    return chosen | {"epochs": epochs, "schedule": "cosine"}


def _has_phases(model: str) -> bool:
    """Whether a pretrained network is first kept as it is: the way up of others is not a head."""
    return model == LITE0


def _count_frozen(epochs: int) -> int:
    return max(1, round(epochs / 5))


def _count_epochs(layout: Layout, is_tuned: bool) -> tuple[int, int]:
    """So many that a model sees some ten thousands of images, but each only so often; the least."""
    views, fewest, most, least = (
        (_TUNING_VIEWS, _FEWEST_TUNING, _MOST_TUNING, _LEAST_TUNING)
        if is_tuned and layout.kind_of_label not in _WITH_PLACES
        else (_LEAST_VIEWS, _LEAST_EPOCHS, _MOST_EPOCHS, _LEAST_EPOCHS)
    )
    return min(most, max(fewest, round(views / max(1, _count(layout))))), least


def _count(layout: Layout) -> int:
    """The number of images; of a generator, which may make any number, what a model should see."""
    return _LEAST_VIEWS if layout.generator is not None else layout.images


def _share_out(layout: Layout) -> tuple[float, float]:
    """How many images are trained on and evaluated with in an epoch."""
    if layout.splits:
        return layout.splits.get("train", 0), layout.splits.get("eval", 0)
    shares = choose_shares(layout)
    return shares["train"] * _count(layout), shares["eval"] * _count(layout)
