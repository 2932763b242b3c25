"""Images of any type and number of channels as people are shown them: 8-bit gray or RGB."""

import numpy as np


def show_values(pixels: np.ndarray) -> np.ndarray:
    """Makes a picture of an image's first three channels (of one or two, the first).

    Args:
      pixels: [height, width, channels], of any type; uint8 is shown as it is, others from the least
        value as black to the greatest as white.

    Returns:
      uint8 [height, width, 1 or 3].
    """
    shown = take_shown_channels(pixels)
    if shown.dtype == np.uint8:
        return shown
    values = shown.astype(np.float64)
    least, most = values.min(), values.max()
    return np.round((values - least) * (255 / ((most - least) or 1))).astype(np.uint8)


def take_shown_channels(pixels: np.ndarray) -> np.ndarray:
    """The channels that a picture shows: [..., 1 or 3]."""
    return pixels[..., : 3 if pixels.shape[-1] >= 3 else 1]
