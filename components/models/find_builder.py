"""The function that builds the model which a configuration names."""

import functools
from collections.abc import Callable

import keras

from image_pipeline.components.dotted import load_named
from image_pipeline.components.errors import UserError
from image_pipeline.components.models import detector, model, tag_model, unet, value_model
from image_pipeline.components.models.backbones import see_with_backbone
from image_pipeline.components.models.names import (
    BACKBONES,
    CNN,
    DETECTOR,
    DETECTOR_LITE0,
    PLAIN,
    RESNET,
    RESNET_WIDE,
    SMALL,
    UNET,
    UNET_LITE0,
    Head,
    is_dotted,
    is_saved,
    refuse_model,
)
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.models.residual import see_compactly, see_larger, see_widely
from image_pipeline.components.models.saved_model import rebuild_saved

BuildModel = Callable[[tuple[int, int, int], int, TrainingOptions], keras.Model]
See = Callable[[keras.KerasTensor], keras.KerasTensor]

_WHOLE: dict[str, BuildModel] = {
    UNET: unet.build_model,
    UNET_LITE0: functools.partial(unet.build_model, see=unet.see_with_lite),
    DETECTOR: detector.build_model,
    DETECTOR_LITE0: functools.partial(detector.build_model, see=detector.see_with_lite),
}
_FEATURES: dict[str, See] = {
    SMALL: model.build_features,
    PLAIN: model.see_plainly,
    RESNET: see_compactly,
    RESNET_WIDE: see_widely,
    CNN: see_larger,
}
_HEADS: dict[Head, Callable[..., keras.Model]] = {
    "classes": model.add_head,
    "tags": tag_model.add_head,
    "value": value_model.add_head,
}


def find_builder(name: str, head: Head) -> BuildModel:
    """The function that builds and compiles a model.

    Args:
      name: `training.model`: a name, a file that Keras saved, or a dotted path.
      head: what the model must end in.

    Raises:
      UserError: if the model has another end, or a dotted path cannot be loaded.
    """
    if problem := refuse_model(name, head):
        raise UserError(problem)
    if is_dotted(name):
        return load_named("training.model", name)
    if name in _WHOLE:
        return _WHOLE[name]
    if is_saved(name):
        return functools.partial(rebuild_saved, name, _HEADS[head])
    return functools.partial(_build_with_features, name, _HEADS[head])


def _build_with_features(
    name: str,
    add_head: Callable[..., keras.Model],
    input_shape: tuple[int, int, int],
    num_classes: int,
    options: TrainingOptions,
) -> keras.Model:
    inputs = keras.Input(input_shape, name="image")
    if name in BACKBONES:
        features = see_with_backbone(inputs, name, options.weights)
    else:
        features = _FEATURES[name](inputs)
    return add_head(inputs, features, num_classes, options)
