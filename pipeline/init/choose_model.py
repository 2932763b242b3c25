"""The model that a starter configuration names, by the images' size and number."""

# From here on images have details that need a deeper network, which sees them at half their size.
_LARGE_PX = 64
# With fewer, a deeper network learns the images by heart.
_FEW_IMAGES = 2000
_SMALLER = 16  # px; a residual network would halve them to nothing


def choose_model(size_px: int, images: int | None, kind: str) -> tuple[str, str] | None:
    """Chooses a model that learns from random weights.

    Args:
      size_px: the shorter side of the model's input.
      images: how many there are; None if that is unknown.
      kind: of the labels, as `Layout.kind_of_label` has it.

    Returns:
      `training.model`, and why; None for masks and boxes, which have a model of their own.
    """
    if kind in ("masks", "boxes"):
        return None
    is_few = images is not None and images < _FEW_IMAGES
    if is_few or size_px < _SMALLER:
        return "small", "few images" if is_few else "very small images"
    if size_px < _LARGE_PX:
        return "resnet", "small images"
    return "cnn", "many images of this size"
