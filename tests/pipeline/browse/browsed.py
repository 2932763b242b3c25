"""A data set to look through: records of two splits, a duplicate, rejected and skipped files."""

import dataclasses
import pathlib

from image_pipeline.browse.session import Session
from tests.drawings import draw, encode_png
from tests.ingest_runs import ingest

VIEW = ("view.height_px=8", "view.width_px=8")


@dataclasses.dataclass(frozen=True)
class Browsed:
    """Where the images are, and where the data set is."""

    images: pathlib.Path
    data: pathlib.Path

    def open(self, tmp_path: pathlib.Path, *overrides: str, **asked: object) -> Session:
        """A session whose marks are in a folder of the test."""
        chosen = {"images": str(self.images), "marks_path": str(tmp_path / "marks.txt"), **asked}
        return Session(str(self.data), overrides=overrides, **chosen)


def make_browsed(folder: pathlib.Path) -> Browsed:
    """12 cats and 12 dogs, of which image `n` is 8 + n pixels high and 10 wide.

    And a copy of `cat/00.png`, a dog that is not a picture, and a text.
    """
    images = folder / "images"
    for number in range(24):
        path = images / ("cat", "dog")[number % 2] / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_png(draw(number, height=8 + number)))
    (images / "cat" / "copy.png").write_bytes((images / "cat" / "00.png").read_bytes())
    (images / "dog" / "<b>.png").write_bytes(b"no picture")
    (images / "about.txt").write_text("about these images")
    ingest(images, folder / "data", max_bad_fraction=0.5)
    return Browsed(images, folder / "data")
