"""The function that builds the model which a configuration names."""

import functools
import logging
import os
from collections.abc import Callable

import keras

from image_pipeline.components.dotted import load_named
from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import describe_error
from image_pipeline.components.models import detector, model, unet
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
from image_pipeline.components.models.weights import find_features, find_heads
from image_pipeline.components.trees import fetch_file

_LOG = logging.getLogger(__name__)
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
    RESNET: functools.partial(model.see_small, sizes=model.COMPACT, blocks=model.COMPACT_BLOCKS),
    RESNET_WIDE: functools.partial(model.see_small, sizes=model.WIDE, blocks=model.WIDE_BLOCKS),
    CNN: model.see_larger,
}


def find_builder(name: str, head: Head) -> BuildModel:
    """The function that builds and compiles a model.

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
        return functools.partial(rebuild_saved, name, head)
    return functools.partial(_build_with_features, name, head)


def _build_with_features(
    name: str,
    head: Head,
    input_shape: tuple[int, int, int],
    num_classes: int,
    options: TrainingOptions,
) -> keras.Model:
    inputs = keras.Input(input_shape, name="image")
    if name in BACKBONES:
        features = see_with_backbone(inputs, name, options.weights)
    else:
        features = _FEATURES[name](inputs)
    return model.add_head(head, inputs, features, num_classes, options)


def rebuild_saved(
    path: str,
    head: Head,
    input_shape: tuple[int, int, int],
    num_classes: int,
    options: TrainingOptions,
) -> keras.Model:
    """Gives a saved network the head of the task, with the saved one's weights if they fit it.

    Raises:
      UserError: if there is no such file, it is not a model, or its input or its end do not fit.
    """
    try:
        local = fetch_file(path)
        if not os.path.isfile(local):
            raise FileNotFoundError(path)
        saved = keras.saving.load_model(local, compile=False)
    except FileNotFoundError as error:
        raise UserError(f"training.model={path} is not there; check the path.") from error
    except UserError:
        raise
    except Exception as error:  # A file of someone else's: Keras raises many kinds.
        raise UserError(
            f"training.model={path} cannot be loaded by Keras {keras.__version__}: "
            f"{describe_error(error)}. The file is damaged, or of another version; or it has "
            "layers of your own, for which a dotted path to a function can build the model."
        ) from error
    shapes = [tuple(each.shape[1:]) for each in getattr(saved, "inputs", None) or []]
    takes_images = len(shapes) == 1 and len(shapes[0]) == 3
    if not takes_images or any(
        own not in (None, side) for own, side in zip(shapes[0], input_shape, strict=True)
    ):
        given = " and ".join(f"[batch, {', '.join(map(str, shape))}]" for shape in shapes)
        raise UserError(
            f"training.model={path} must take images [batch, {', '.join(map(str, input_shape))}], "
            f"as `view` has them, but takes {given or 'inputs that it does not name'}; set "
            "view.height_px, view.width_px and view.channels to what it takes."
        )
    heads, features = find_heads(saved), find_features(saved)
    if features is None or not isinstance(heads[0], keras.layers.Dense):
        raise UserError(
            f"training.model={path} must be a functional or Sequential model that ends in one "
            "Dense layer, which is replaced where the classes are others; build a model of "
            "another kind in a function of your own, and give its dotted path."
        )
    if len(features.shape) != 2:
        raise UserError(
            f"training.model={path} must pool its features before its last Dense layer, which "
            f"takes {list(features.shape)}; add a GlobalAveragePooling2D."
        )
    if options.fine_tuning is not None:
        for layer in saved._flatten_layers():  # Its author may have frozen what is to learn.
            layer.trainable = True
    built = model.add_head(head, saved.inputs[0], features, num_classes, options)
    old, new = heads[0].get_weights(), find_heads(built)[0]
    if [each.shape for each in old] == [each.shape for each in new.weights]:
        new.set_weights(old)
        _LOG.info("%s: its head is kept; its values are taken for the classes' in order.", path)
    else:
        _LOG.warning("%s: its head gives %d values, and is replaced.", path, heads[0].units)
    return built
