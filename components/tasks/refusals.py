"""What cannot be asked for where images have masks or boxes. It needs no TensorFlow."""

from image_pipeline.components.augment.options import Mixup
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.models.names import BACKBONES
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.transform.names import OWN


def refuse_for_masks(feeding: FeedingOptions, training: TrainingOptions) -> str | None:
    """Says what weighs or blends images by their one class, which masks have not; None if none."""
    if training.class_weights != "none":
        return _refuse_weights(training, "masks have a class for each pixel")
    if training.label_smoothing:
        return refuse_smoothing(training, "masks are compared pixel by pixel")
    if any(isinstance(step, Mixup) for step in feeding.augment):
        return (
            "feeding.augment has mixup, which blends the labels of two images, and class ids of "
            "pixels cannot be blended; leave it out, or take cutmix, which cuts masks as images."
        )
    return None


def refuse_for_boxes(feeding: FeedingOptions, training: TrainingOptions) -> str | None:
    """Says what weighs or mixes images by their one class, which boxes have not; None if none."""
    if training.class_weights != "none":
        return _refuse_weights(training, "each box has a class")
    if training.label_smoothing:
        return refuse_smoothing(training, "boxes are compared point by point")
    if feeding.mixes_labels:
        return (
            "feeding.augment has mixup or cutmix, which mix the labels of two images, and boxes "
            "cannot be mixed; leave them out."
        )
    return None


def refuse_pixels(training: TrainingOptions, preprocessing_fn: str) -> str | None:
    """Says that one of this package's functions makes other pixels than a backbone wants.

    What a user's own function makes is seen when it has become a graph.
    """
    wanted = BACKBONES.get(training.model or "")
    if wanted is None or preprocessing_fn not in OWN.values() or preprocessing_fn == OWN[wanted]:
        return None
    given = preprocessing_fn.rpartition(".")[2]
    return (
        f"training.model={training.model} wants the pixels of transform.preprocessing_fn={wanted}, "
        f"but it is {given}; set transform.preprocessing_fn={wanted}, or take another model."
    )


def check_unmixed(feeding: FeedingOptions, training: TrainingOptions) -> None:
    """Raises UserError if records are to be weighted by their class, but have two."""
    if feeding.mixes_labels and training.class_weights != "none":
        raise UserError(
            "training.class_weights weigh records of one class, but mixup and cutmix give "
            "each record two; leave out one of them, or set feeding.balance."
        )


def refuse_smoothing(training: TrainingOptions, but: str) -> str:
    """Says that labels cannot be smoothed, and why."""
    return (
        f"training.label_smoothing={training.label_smoothing:g} spreads the classes or tags of "
        f"images, but {but}; leave it at 0, or smooth in the loss of a training.model of your own."
    )


def _refuse_weights(training: TrainingOptions, but: str) -> str:
    return (
        f"training.class_weights={training.class_weights} weighs images by their class, but {but}; "
        "leave it at none, or weigh classes in the loss of a training.model of your own."
    )
