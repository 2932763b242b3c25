"""What cannot be asked for with some labels, or with some models. It needs no TensorFlow."""

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.models.names import WANTED_PIXELS
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.transform.options import OWN


def check_training(labels: LabelKind, feeding: FeedingOptions, training: TrainingOptions) -> None:
    """Raises UserError if options need a class an image, which such labels have not."""
    asked = feeding.labels == "one_hot", training.class_weights, training.label_smoothing
    if problem := labels.refuse_training(feeding.steps, *asked):
        raise UserError(problem)


def refuse_pixels(training: TrainingOptions, preprocessing_fn: str) -> str | None:
    """Says that one of this package's functions makes other pixels than a backbone wants.

    What a user's own function makes is seen when it has become a graph.
    """
    wanted = WANTED_PIXELS.get(training.model or "")
    if wanted is None or preprocessing_fn not in OWN.values() or preprocessing_fn == OWN[wanted]:
        return None
    given = preprocessing_fn.rpartition(".")[2]
    return (
        f"training.model={training.model} wants the pixels of transform.preprocessing_fn={wanted}, "
        f"but it is {given}; set transform.preprocessing_fn={wanted}, or take another model."
    )
