"""What `ingest.prepare.depth` comes to where it is in percent: a pass over the images of its own.

Whole numbers are added up, so the result is the same however the images are shared out. Images are
decoded here and once more when they are stored: no process keeps what it has decoded.
"""

import dataclasses
import threading
from collections.abc import Iterable

import numpy as np

from image_pipeline.components import progress
from image_pipeline.components.archives.byte_ranges import read_ahead
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.by_extras import open_by_extra
from image_pipeline.components.images.containers import DEPTH as PNG_DEPTH
from image_pipeline.components.images.containers import SIGNATURE
from image_pipeline.components.images.header import open_image
from image_pipeline.components.images.npy import NPY_MAGIC, read_array_header
from image_pipeline.components.images.options import LEVELS, CountedLevels, find_levels
from image_pipeline.components.images.tiff import read_tiff_layout
from image_pipeline.components.ingest.earlier import find_stamps
from image_pipeline.components.ingest.prepare_chunk import (
    Read,
    map_read,
    name_chunk,
    prepare_source,
)
from image_pipeline.components.ingest.work_folder import ListedChunk, WorkFolder
from image_pipeline.components.meaning.open_source import open_source
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.references import ImageRef, Source
from image_pipeline.components.sources.source_kinds import check_unchanged


@dataclasses.dataclass(frozen=True)
class Counted:
    """How often images have each value of 16 bits.

    Attributes:
      listed: how many references were looked at.
      images: how many of these are usable images of 16 bits.
      levels: int64 [65536].
    """

    listed: int
    images: int
    levels: np.ndarray


def add_up(parts: Iterable[Counted]) -> Counted:
    """All of them together."""
    listed, images, levels = 0, 0, np.zeros(LEVELS, np.int64)
    for part in parts:
        listed, images = listed + part.listed, images + part.images
        levels += part.levels
    return Counted(listed, images, levels)


def count_chunk(
    listed: ListedChunk, images_dir: str, work: WorkFolder, options: IngestOptions
) -> Counted:
    """Counts the values of a chunk's images, unless an earlier run already did.

    Args:
      listed: the chunk.
      images_dir: the folder or table that it is of.
      work: the working folder; it survives a failed run.
      options: of ingest.

    Raises:
      UserError: if another run has begun, or a file was changed.
    """
    chunk = work.read_chunk(listed)
    source = open_source(images_dir, options)
    stamps = [find_stamps(ref, source.root) for ref in chunk.refs]
    key = name_chunk(chunk, stamps, images_dir, work, options)
    mark = f"depth/{key}"
    if (known := work.read_sealed(mark)) is not None:
        progress.advance(len(chunk.refs))
        images, values, counts = known
        levels = np.zeros(LEVELS, np.int64)
        levels[values] = counts
        return Counted(len(chunk.refs), images, levels)
    source = read_ahead(chunk.refs, source, options.prepare.max_file_bytes)
    counted = count_levels(chunk.refs, source, work, options)
    check_unchanged(chunk.refs)
    work.check()
    (values,) = counted.levels.nonzero()
    work.write_sealed(mark, [counted.images, values.tolist(), counted.levels[values].tolist()])
    return counted


def count_levels(
    refs: Iterable[ImageRef], source: Source, work: WorkFolder, options: IngestOptions
) -> Counted:
    """Counts the values of those images of 16 bits that can be stored, in threads."""
    # Nothing of what is made is kept, so it is made as cheaply as may be.
    prepare = options.prepare.model_copy(update={"encoding": "raw"})
    cheap = options.model_copy(update={"prepare": prepare, "near_duplicates": None})
    total, images, listed, lock = np.zeros(LEVELS, np.int64), 0, 0, threading.Lock()

    def count(ref: ImageRef, read: tuple[Read, Read | None]) -> None:
        nonlocal images, listed
        seen, is_counted = CountedLevels(), False
        if isinstance(read[0], bytes) and has_16_bits(read[0]):
            row, _ = prepare_source(ref, source, work, cheap, read, seen)
            is_counted = "reason" not in row and bool(seen.counts.any())
        with lock:
            listed += 1
            if is_counted:
                images += 1
                np.add(total, seen.counts, out=total)
        progress.advance()

    for _ in map_read(count, refs, source, cheap):
        pass
    return Counted(listed, images, total)


def has_16_bits(data: bytes) -> bool:
    """Whether a file may be an image of over 8 bits, as far as its header says."""
    try:
        if (image := open_by_extra(data)) is not None:
            # DICOM's palettes have other bits than its header says.
            return image.format == "DICOM" or getattr(image, "bits", 8) > 8
        if data.startswith(NPY_MAGIC):
            return read_array_header(data).dtype == "u2"
        if data.startswith((b"II", b"MM")):
            with open_image(data) as image:
                return image.format == "TIFF" and 16 in read_tiff_layout(image).bits
    except BadImage:  # Reported when it is stored.
        return False
    return data.startswith(SIGNATURE) and data[PNG_DEPTH : PNG_DEPTH + 1] == b"\x10"


def find_depth(counted: Counted, work: WorkFolder, options: IngestOptions) -> IngestOptions:
    """The options with the numbers that were found, and a sentence that says them.

    Raises:
      RuntimeError: if the runner or the stage lost images.
      UserError: as `depth.find_levels`.
    """
    if counted.listed != (listed := work.count_listed()):
        raise RuntimeError(
            f"Stage CountLevels lost files: {listed} in, {counted.listed} out. The Beam runner is "
            "at fault."
        )
    progress.begin("images", listed)  # Once more, to be stored.
    return complete_depth(counted, options)


def complete_depth(counted: Counted, options: IngestOptions) -> IngestOptions:
    """The same of images that may not be all."""
    asked = options.prepare.depth
    depth = find_levels(counted.levels, asked)
    assert depth.found is not None
    low, high = depth.found
    sentence = (
        f"16 bits: values from {low:,} to {high:,} become 0 to 255, as ingest.prepare.depth="
        f"{{low: {asked.low}, high: {asked.high}}} finds them in {counted.images:,} images; "
        f"{{low: {low}, high: {high}}} does the same to others"
    )
    if not counted.images:
        sentence = "16 bits: no usable image has them, so ingest.prepare.depth changes none"
    prepare = options.prepare.model_copy(update={"depth": depth})
    return options.model_copy(update={"prepare": prepare}).say_understood([sentence])
