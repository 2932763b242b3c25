"""A generator and a source of somebody's own, as goldens use them."""

import dataclasses
from collections.abc import Iterator

from image_pipeline.components.sources.references import ImageRef
from tests.drawings import draw_smooth
from tests.golden import cases


def generate(shard: int, shards: int) -> Iterator[dict]:
    """Every third picture."""
    for number in range(shard, cases.COUNT, shards):
        pixels = draw_smooth(number, 20, 30)
        yield {"name": f"{number:02d}", "image": pixels, "label": cases.CLASSES[number % 3]}


@dataclasses.dataclass(frozen=True)
class Photos:
    """The photos, held in memory."""

    root: str = "photos"

    def list(self) -> Iterator[ImageRef]:
        for name, data in cases.photos():
            yield ImageRef(name, len(data), 0)

    def read(self, ref: ImageRef, most_bytes: int) -> bytes:
        return dict(cases.photos())[ref.path][:most_bytes]


def open_source(text: str = "") -> Photos:
    """The source."""
    return Photos()


class Rows:
    """The photos as rows, held in memory."""

    def rows(self) -> Iterator[dict]:
        for name, data in cases.photos():
            yield {"image": ImageRef(name, len(data), 0), "label": name.partition("/")[0]}

    def read(self, name: str, most_bytes: int) -> bytes:
        return dict(cases.photos())[name][:most_bytes]
