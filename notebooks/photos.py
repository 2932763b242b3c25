"""The notebooks' pictures: seven free photos, framed in many ways as people's cameras would.

Nothing is downloaded: scikit-image and scikit-learn have the photos in their packages. All are in
the public domain or CC0 (NASA, SpaceX, Stefan van der Walt, Rachel Michetti, Lav Varshney), except
the pagoda and the flower: CC BY 2.0, by danielbuechele and vultilion on Flickr.
"""

import functools
import io
import pathlib
from typing import Literal, NamedTuple

import numpy as np
from PIL import Image

_SIZES_PX = {"landscape": (200, 150), "portrait": (150, 200), "square": (160, 160)}
_ORIENTATION = 0x0112  # EXIF's tag. A viewer turns the stored pixels back by what it says:
_STORED = {
    3: Image.Transpose.ROTATE_180,
    6: Image.Transpose.ROTATE_90,
    8: Image.Transpose.ROTATE_270,
}


class Framing(NamedTuple):
    """How a photo is taken.

    Attributes:
      shape: of the upright picture.
      zoom: share of the largest possible crop of this shape, per side, that is kept.
      right: how far the crop is moved to the right of the subject, as a share of its own width.
      down: how far it is moved down, as a share of its own height.
      orientation: EXIF's number, 1 for upright; 3, 6 and 8 are stored turned.
      suffix: of the file.
    """

    shape: Literal["landscape", "portrait", "square"]
    zoom: float
    right: float
    down: float
    orientation: int
    suffix: Literal["jpg", "png"]


FRAMINGS = (
    Framing("landscape", 1.00, 0.00, 0.00, 1, "jpg"),
    Framing("portrait", 0.95, 0.05, 0.00, 6, "jpg"),
    Framing("square", 0.80, -0.05, 0.05, 1, "png"),
    Framing("landscape", 0.85, 0.10, -0.05, 3, "jpg"),
    Framing("portrait", 0.90, -0.10, 0.05, 8, "jpg"),
    Framing("landscape", 0.75, -0.10, 0.10, 1, "png"),
    Framing("portrait", 1.00, 0.00, 0.05, 1, "jpg"),
    Framing("square", 0.90, 0.10, -0.05, 6, "jpg"),
    Framing("landscape", 0.70, 0.10, 0.05, 1, "jpg"),
    Framing("square", 0.70, 0.00, -0.10, 1, "jpg"),
)

# Where each photo's subject is: across and down, as shares of its width and height.
SUBJECTS = {
    "astronaut": (0.45, 0.35),
    "cat": (0.58, 0.45),
    "coffee": (0.50, 0.42),
    "flower": (0.48, 0.52),
    "pagoda": (0.32, 0.48),
    "photographer": (0.48, 0.45),
    "rocket": (0.50, 0.60),
}
DUPLICATE, NO_IMAGE, CUT_OFF = "cat/copy of 00.jpg", "coffee/notes.jpg", "rocket/cut off.jpg"


def write_photos(images_dir: str) -> int:
    """Writes `<images_dir>/<class>/<number>.<jpg or png>`, the same bytes each time.

    There are as many pictures of each class as framings; and three files as every folder has some:
    a copy under another name, a text called an image, and an image that ends too early.

    Args:
      images_dir: is made if there is none.

    Returns:
      The number of files.
    """
    folder = pathlib.Path(images_dir)
    written = {
        f"{name}/{number:02d}.{framing.suffix}": encode(take_photo(name, framing), framing)
        for name in SUBJECTS
        for number, framing in enumerate(FRAMINGS)
    }
    whole = written["rocket/00.jpg"]
    written[DUPLICATE] = written["cat/00.jpg"]
    written[NO_IMAGE] = b"Two spoons of sugar, no milk.\n"
    written[CUT_OFF] = whole[: len(whole) // 2]
    for path, content in written.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return len(written)


@functools.cache
def load_photo(name: str) -> Image.Image:
    """One of the photos that `SUBJECTS` names: RGB, or gray if the photo is."""
    from skimage import data
    from sklearn.datasets import load_sample_image

    loaders = {
        "astronaut": data.astronaut,
        "cat": data.chelsea,
        "coffee": data.coffee,
        "flower": lambda: load_sample_image("flower.jpg"),
        "pagoda": lambda: load_sample_image("china.jpg"),
        "photographer": data.camera,
        "rocket": data.rocket,
    }
    return Image.fromarray(np.asarray(loaders[name]()))


def take_photo(name: str, framing: Framing) -> Image.Image:
    """The upright picture: 200 pixels on its longer side, 160 if it is square."""
    photo = load_photo(name)
    size = _SIZES_PX[framing.shape]
    box = frame(photo.size, SUBJECTS[name], framing)
    return photo.resize(size, Image.Resampling.LANCZOS, box=box)


def frame(
    size: tuple[int, int], subject: tuple[float, float], framing: Framing
) -> tuple[float, float, float, float]:
    """The crop of a photo, which never leaves it.

    Args:
      size: the photo's width and height, in pixels.
      subject: where the subject is, as shares of width and height.
      framing: the crop's shape, size and place.

    Returns:
      left, top, right and bottom, in pixels.
    """
    shape = np.array(_SIZES_PX[framing.shape])
    crop = shape * np.min(np.array(size) / shape) * framing.zoom
    centre = np.array(subject) * size + np.array((framing.right, framing.down)) * crop
    start = np.clip(centre - crop / 2, 0, size - crop)
    left, top, right, bottom = (*start.tolist(), *(start + crop).tolist())
    return left, top, right, bottom


def encode(picture: Image.Image, framing: Framing) -> bytes:
    """The file of an upright picture, stored turned if the framing's orientation says so."""
    exif = Image.Exif()
    if framing.orientation in _STORED:
        picture = picture.transpose(_STORED[framing.orientation])
        exif[_ORIENTATION] = framing.orientation
    file = io.BytesIO()
    if framing.suffix == "png":
        picture.save(file, "PNG", exif=exif)
    else:
        picture.save(file, "JPEG", quality=92, exif=exif)
    return file.getvalue()
