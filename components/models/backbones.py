"""The networks of `keras.applications`, without their own classifiers and without a download."""

import keras

from image_pipeline.components.errors import UserError


def see_with_backbone(images: keras.KerasTensor, name: str) -> keras.KerasTensor:
    """What a network sees in images: [batch, features].

    Args:
      images: float [batch, height, width, channels], with the pixels that `names.BACKBONES` says.
      name: as Keras calls it.

    Raises:
      UserError: if it cannot take images of this size.
    """
    make = getattr(keras.applications, name)
    try:
        backbone = make(
            include_top=False,
            weights=None,
            input_tensor=images,
            input_shape=tuple(images.shape[1:]),  # so that its least is checked
            pooling="avg",
        )
    except ValueError as error:
        size = " × ".join(map(str, images.shape[1:]))
        reason = str(error).splitlines()[0]
        raise UserError(
            f"training.model={name} cannot take images of {size} (height, width, channels): "
            f"{reason} Set view.height_px and view.width_px, or take another model."
        ) from error
    return backbone.output
