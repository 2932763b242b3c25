"""Resizes pixels as they are stored: shrinks without aliasing, enlarges smoothly."""

import math

import cv2
import numpy as np

# Longer sides than this many times the target's are shrunk to half as many by pixel area first.
_MOST_BLURRED = 8


def resize(pixels: np.ndarray, target: tuple[int, int]) -> np.ndarray:
    """Shrinks antialiased, enlarges by cubic interpolation, each side as it needs.

    Args:
      pixels: uint8 [height, width(, channels)].
      target: (height, width) to resize to, in pixels.

    Returns:
      uint8 [*target(, channels)]; `pixels` itself, if they have that size.
    """
    height, width = pixels.shape[:2]
    shrunk = (min(height, target[0]), min(width, target[1]))
    if shrunk != (height, width):
        pixels = _shrink(pixels, shrunk)
    if target != shrunk:
        pixels = cv2.resize(pixels, target[::-1], interpolation=cv2.INTER_CUBIC)
    return pixels


def nearest_places(length: int, count: int) -> np.ndarray:
    """Which rows of `length` are nearest to each of `count` rows resized from them: int64 [count].

    Of centres, in whole numbers: half-way it is the later one.
    """
    return (2 * np.arange(count) + 1) * length // (2 * count)


def _shrink(pixels: np.ndarray, target: tuple[int, int]) -> np.ndarray:
    """Blurs as much as the shrinking asks for, then samples bilinearly.

    Nearer to Pillow's antialiased resize than OpenCV's `INTER_AREA`, in a third of its time: over
    60 photos of 500x375, mean difference 0.86 against 0.94 gray levels to 256 pixels, 0.51 against
    1.41 to 192, 0.42 against 1.69 to 128. (Of sides less than 1.4 times as long `INTER_AREA` is the
    nearer one, by 0.2 at most.)

    Args:
      pixels: uint8 [height, width(, channels)].
      target: (height, width), neither more than those of `pixels`.

    Returns:
      uint8 [*target(, channels)].
    """
    between = tuple(
        wanted * _MOST_BLURRED // 2 if side > wanted * _MOST_BLURRED else side
        for side, wanted in zip(pixels.shape[:2], target, strict=True)
    )
    if between != pixels.shape[:2]:
        pixels = cv2.resize(pixels, between[::-1], interpolation=cv2.INTER_AREA)
    (taps_y, sigma_y), (taps_x, sigma_x) = (
        choose_blur(side / wanted) for side, wanted in zip(between, target, strict=True)
    )
    blurred = cv2.GaussianBlur(pixels, (taps_x, taps_y), sigma_x, sigmaY=sigma_y)
    return cv2.resize(blurred, target[::-1], interpolation=cv2.INTER_LINEAR)


def choose_blur(factor: float) -> tuple[int, float]:
    """The Gaussian that, with bilinear sampling, averages as an antialiased resize does.

    That one weighs pixels by a triangle of a half-width of `factor` pixels, whose variance is
    factor ** 2 / 6; bilinear sampling by itself has 1 / 6 on average. A fifth more than what is
    missing came nearest to Pillow's pixels over all factors.

    Args:
      factor: a side's length over its target's, 1 or more.

    Returns:
      The number of taps and the standard deviation, in pixels.
    """
    variance = 1.2 * (factor**2 - 1) / 6
    if variance == 0:
        return 1, 1.0
    if variance < 0.45:
        # Sampled at three pixels, a narrow Gaussian has a smaller variance than its formula says.
        return 3, math.sqrt(-0.5 / math.log(variance / 2 / (1 - variance)))
    sigma = math.sqrt(variance)
    return 2 * math.ceil(2 * sigma) + 1, sigma
