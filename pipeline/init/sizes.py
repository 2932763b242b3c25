"""The sizes of some of a folder's images, and the model's input that suits them."""

import collections
import dataclasses
import math
import statistics
from collections.abc import Sequence

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.decode import read_image_header
from image_pipeline.components.images.header import Header
from image_pipeline.components.images.kind import tell_kind
from image_pipeline.components.images.prepare import PrepareOptions
from image_pipeline.components.images.sound import SoundOptions, measure_sound
from image_pipeline.components.sources.reading import try_read
from image_pipeline.components.sources.references import ImageRef, Source

_USUAL_VALUES = {("uint8", 1), ("uint8", 3)}
_STORED_AS = {"float64": "float32", "int8": "float32", "int16": "float32"}  # as ingest reads them
SAMPLE = 200  # images whose headers are read
_LEAST_SOUND_S, _MOST_SOUND_S = 0.1, 10.0  # of the duration that is drawn


@dataclasses.dataclass(frozen=True)
class Shapes:
    """How the sampled images lie.

    Attributes:
      counts: of "landscape", "portrait" and "square" images, once they are upright.
      turned: number of images that are stored turned, by their EXIF orientation.
      smallest: height and width of the image with the fewest pixels.
      largest: of the one with the most.
    """

    counts: collections.Counter[str]
    turned: int
    smallest: tuple[int, int]
    largest: tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sides of the sampled images, in pixels, and whether all of them are gray.

    Attributes:
      height_px: median.
      width_px: median.
      equal: whether all have the same size.
      gray: whether all have one channel.
      sound: how to draw them, if they are sounds; the sides are those of the pictures then.
      values: the type and number of channels to store, if they are not of 8-bit gray or RGB.
      shapes: how they lie; None for sounds.
    """

    height_px: int
    width_px: int
    equal: bool
    gray: bool
    sound: SoundOptions | None = None
    values: tuple[str, int] | None = None
    shapes: Shapes | None = dataclasses.field(default=None, compare=False)


def measure_sizes(source: Source, refs: Sequence[ImageRef]) -> Sizes | None:
    """The sizes that some headers say, spread evenly; None if none of these files is an image."""
    found, sounds, kinds = [], [], set[tuple[str, int]]()
    for ref in refs[:: max(1, -(-len(refs) // SAMPLE))]:
        data = try_read(ref, source, PrepareOptions().max_file_bytes, with_sounds=True)
        try:
            if isinstance(data, bytes) and tell_kind(data).group == "sound":
                sounds.append(measure_sound(data))
            elif isinstance(data, bytes):
                header = read_image_header(data)
                found.append(header)
                kinds.add((_STORED_AS.get(header.dtype, header.dtype), header.channels))
        except BadImage:
            continue  # Ingest will say what is wrong with it.
    if not found:
        return _draw_sounds(sounds) if sounds else None
    upright = [_turn_upright(header) for header in found]
    heights, widths = zip(*upright, strict=True)
    return Sizes(
        int(statistics.median_low(heights)),
        int(statistics.median_low(widths)),
        len(set(upright)) == 1,
        all(header.channels == 1 for header in found),
        values=kinds.pop() if len(kinds) == 1 and not kinds & _USUAL_VALUES else None,
        shapes=_describe_shapes(upright, sum(header.orientation > 1 for header in found)),
    )


def _turn_upright(header: Header) -> tuple[int, int]:
    """Height and width as ingest stores them; orientations from 5 on lie on a side."""
    sides = header.height, header.width
    return sides if header.orientation < 5 else sides[::-1]


def _describe_shapes(sizes: Sequence[tuple[int, int]], turned: int) -> Shapes:
    counts = collections.Counter(
        "square" if height == width else "landscape" if height < width else "portrait"
        for height, width in sizes
    )
    by_area = sorted(sizes, key=lambda size: (size[0] * size[1], size))
    return Shapes(counts, turned, by_area[0], by_area[-1])


def _draw_sounds(sounds: Sequence[tuple[int, float]]) -> Sizes:
    """The pictures of sounds, by their sample rates and durations: nine in ten are not cut."""
    rates, durations = zip(*sounds, strict=True)
    rate_hz = min(statistics.median_low(rates), SoundOptions().sample_rate_hz)
    longest_s = sorted(durations)[len(durations) * 9 // 10]
    duration_s = min(max(math.ceil(10 * longest_s) / 10, _LEAST_SOUND_S), _MOST_SOUND_S)
    sound = SoundOptions(sample_rate_hz=rate_hz, duration_s=duration_s)
    return Sizes(sound.mel_bins, sound.columns, True, True, sound)
