"""The notebooks' photos with masks, drawn from outlines: what is shown at each pixel."""

import functools
import itertools
import pathlib
from typing import NamedTuple

from PIL import Image, ImageDraw

from photos import SUBJECTS, Framing, frame, load_photo, take_photo

CLASSES = ("background", "person", "cat", "cup", "flower", "pagoda", "rocket")
NO_CLASS = 255
# Outlines are drawn by hand and right to within a few pixels: an edge of no class hides the rest.
_EDGE_PX = 5


class Outline(NamedTuple):
    """One object of a photo.

    Attributes:
      name: of its class.
      points: the corners in pixels of the photo, as SVG writes a polygon's.
    """

    name: str
    points: str

    @property
    def corners(self) -> list[tuple[int, int]]:
        """Each corner's place from the left and from the top, in pixels."""
        pairs = (point.split(",") for point in self.points.split())
        return [(int(x), int(y)) for x, y in pairs]


OUTLINES = {
    "astronaut": (
        Outline(
            "person",
            "190,18 240,15 285,35 300,75 296,115 268,130 262,160 285,180 302,210 304,240 330,248 "
            "352,285 360,345 325,360 300,390 285,430 283,512 110,512 60,490 22,445 30,380 30,320 "
            "60,255 115,215 118,180 135,158 180,150 185,125 165,110 153,80 165,45",
        ),
    ),
    "cat": (
        Outline(
            "cat",
            "40,0 305,0 330,20 350,0 378,0 375,30 352,60 358,90 366,125 358,165 335,195 315,225 "
            "300,258 268,278 230,275 190,262 170,300 0,300 0,130 35,110 30,50",
        ),
    ),
    "coffee": (
        Outline(
            "cup",
            "173,105 185,60 225,28 285,18 345,28 390,60 400,75 412,66 425,75 412,112 445,145 "
            "470,195 477,240 465,295 430,345 370,378 300,388 220,380 145,352 98,305 78,250 "
            "75,210 88,165 122,122",
        ),
    ),
    "flower": (
        Outline(
            "flower",
            "214,116 188,149 177,195 169,208 172,261 202,316 240,337 292,352 323,356 359,349 "
            "397,330 426,287 445,226 427,149 408,123 374,100 319,85 285,97 249,99",
        ),
        Outline("flower", "290,427 288,405 300,390 330,375 370,370 420,375 440,400 450,427"),
    ),
    "pagoda": (
        Outline(
            "pagoda",
            "199,30 192,64 173,81 122,98 97,106 94,131 117,141 118,158 86,168 85,185 97,190 "
            "98,229 76,252 81,287 77,330 144,331 156,356 209,364 217,383 289,383 354,358 357,333 "
            "339,293 341,265 351,250 328,238 319,225 319,185 329,172 293,159 294,139 319,119 "
            "267,101 217,65 213,32",
        ),
    ),
    "photographer": (
        Outline(
            "person",
            "200,65 240,72 268,100 268,130 256,172 250,192 243,205 280,205 310,180 328,188 "
            "325,210 300,222 303,270 285,290 250,312 215,295 145,380 150,430 150,512 110,480 "
            "98,450 95,512 0,512 0,262 25,210 45,172 88,133 130,116 158,106 168,80",
        ),
    ),
    "rocket": (Outline("rocket", "315,140 322,127 330,140 334,170 334,405 308,405 308,170"),),
}

_ZOOMS, _PLACES = (1.0, 0.85, 0.7, 0.6), (-0.1, 0.1)
FRAMINGS = tuple(
    Framing("landscape", zoom, right, down, 1, "jpg")
    for zoom, right, down in itertools.product(_ZOOMS, _PLACES, _PLACES)
)


def write_masked_photos(scenes_dir: str) -> int:
    """Writes pairs, `<scenes_dir>/images/<photo>_<number>.jpg` and `masks/<same>.png`.

    Args:
      scenes_dir: is made if there is none. It gets the same bytes each time.

    Returns:
      The number of pairs.
    """
    images, masks = pathlib.Path(scenes_dir, "images"), pathlib.Path(scenes_dir, "masks")
    for folder in (images, masks):
        folder.mkdir(parents=True, exist_ok=True)
    pairs = list(itertools.product(SUBJECTS, enumerate(FRAMINGS)))
    for name, (number, framing) in pairs:
        take_photo(name, framing).save(images / f"{name}_{number:02d}.jpg", quality=92)
        take_mask(name, framing).save(masks / f"{name}_{number:02d}.png")
    return len(pairs)


def take_mask(name: str, framing: Framing) -> Image.Image:
    """The mask of `take_photo`'s picture: gray levels are places in `CLASSES`, or `NO_CLASS`."""
    mask = draw_mask(name)
    box = frame(mask.size, SUBJECTS[name], framing)
    return mask.resize(take_photo(name, framing).size, Image.Resampling.NEAREST, box=box)


@functools.cache
def draw_mask(name: str) -> Image.Image:
    """The mask of a whole photo."""
    mask = Image.new("L", load_photo(name).size, CLASSES.index("background"))
    draw = ImageDraw.Draw(mask)
    for outline in OUTLINES[name]:
        fill = CLASSES.index(outline.name)
        draw.polygon(outline.corners, fill=fill, outline=NO_CLASS, width=_EDGE_PX)
    return mask
