"""Tries out the functions that the configuration names, before a run begins any work."""

import os

from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.kinds import BOXES, MASKS
from image_pipeline.components.models.names import BUILT_IN
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.config import PipelineConfig
from image_pipeline.run.run_plan import Part

# The components after which `--to` leaves training out.
_BEFORE_ANALYSIS = ("ImageExampleGen", "StatisticsGen", "SchemaGen", "ExampleValidator")
_BEFORE_TRAINING = (*_BEFORE_ANALYSIS, "ImageTransform")
# This package's functions number all classes; a user's own may rename or join some.
_OWN = "image_pipeline.components.transform."


def check_functions(config: PipelineConfig, num_classes: int, part: Part) -> list[str]:
    """Imports what the configuration names, builds the model, and runs it on one small batch.

    The project's own models are not tried: TensorFlow is imported only for the user's own
    functions and weights, for networks that may not take images of this size, and where the model
    must tell whether it reports a figure.

    Args:
      num_classes: number of classes that the images' paths name.
      part: which components run; functions of the others are not checked.

    Returns:
      What will not go with the model, sentences: they are no reason to stop.

    Raises:
      UserError: if one cannot be used; it names the option.
    """
    function, model = config.transform.preprocessing_fn, config.training.model
    if part.last not in _BEFORE_ANALYSIS and function != TransformOptions().preprocessing_fn:
        from image_pipeline.components.dotted import load_named

        load_named("transform.preprocessing_fn", function)
    if part.last in _BEFORE_TRAINING:
        return []
    training = config.training
    if training.strategy == "multi_worker":
        raise UserError(
            "training.strategy=multi_worker trains in processes that are started on each machine, "
            "but a run is one; run it with --to ImageTransform, and start `image-pipeline train` "
            "on each machine with its data set and graph, or set training.strategy=mirrored."
        )
    if "TF_CONFIG" in os.environ:
        from image_pipeline.components.training.devices import find_cluster

        find_cluster(training)
    is_tried = (
        model not in (None, *BUILT_IN)
        or training.weights is not None
        or training.compile is not None
        or training.early_stopping_monitor != TrainingOptions().early_stopping_monitor
    )
    if not is_tried:
        return []
    import keras

    from image_pipeline.components.tasks.choose_task import choose_task, name_model
    from image_pipeline.components.training.model_check import (
        Counted,
        build_checked_model,
        notice_loss,
    )
    from image_pipeline.components.training.pixel_check import find_normalize, notice_pixels
    from image_pipeline.components.training.replicas import spread

    task = choose_task(config.ingest)
    # Paths may name a class without an analysed record, and none of masks, boxes or what a
    # generator will yield; only the Trainer knows the number.
    ingest = config.ingest
    has_others = ingest.label_kind in (MASKS, BOXES) or ingest.generator is not None
    is_told = function.startswith(_OWN) and not has_others
    counted: Counted = "at most" if is_told else "not"
    num_classes = max(num_classes, 2 if has_others else 1)
    options = (config.view, config.feeding, name_model(training, task))
    checked = build_checked_model(*options, num_classes, counted, task)
    spread(checked, *options, num_classes)
    named = f"transform.preprocessing_fn={function.rpartition('.')[2]}"
    normalize = find_normalize(function)
    noticed = notice_loss(checked)
    if normalize:
        noticed += notice_pixels(checked.model, normalize, config.view, named)
    # Keras numbers layers and metrics; the trained model's numbers should start from the beginning.
    keras.utils.clear_session()
    return noticed
