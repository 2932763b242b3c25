"""What there is to ingest: one pass over a source, and what it tells before any image is read.

The folder is listed once, or the table read once; the references are kept in a temporary file
until a run takes them, see `listed`.
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Iterator

import cv2
import numpy as np

from image_pipeline.components import files
from image_pipeline.components.archives.archive import ARCHIVE
from image_pipeline.components.errors import UserError
from image_pipeline.components.function_version import images_version
from image_pipeline.components.generators.generator import SHARDS_AT_ONCE
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.by_extras import open_by_extra
from image_pipeline.components.images.containers import DEPTH as PNG_DEPTH
from image_pipeline.components.images.options import ALL_LEVELS, DepthOptions
from image_pipeline.components.images.prepare import PrepareOptions
from image_pipeline.components.labels.class_names import check_classes, find_slips
from image_pipeline.components.labels.kinds import CLASSES
from image_pipeline.components.meaning.column_values import find_joined
from image_pipeline.components.meaning.counted_folders import Tally
from image_pipeline.components.meaning.layout import understand
from image_pipeline.components.meaning.open_source import (
    no_usable_row,
    open_complete,
    open_source,
)
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.path_patterns import leave_out_rare, names_of
from image_pipeline.components.sources.folder import OUTSIDE
from image_pipeline.components.sources.pairs import Pairs
from image_pipeline.components.sources.reading import names_other_kind
from image_pipeline.components.sources.references import (
    Chunk,
    ImageRef,
    Source,
    fingerprint_refs,
    make_chunks,
)
from image_pipeline.components.sources.source_kinds import SourceKind, kind_of
from image_pipeline.components.sources.understood import collect, noticed
from image_pipeline.components.spool import Spool

_MOST_REFS = 4096  # of a chunk
_MOST_OFFERED = 64  # Results that TFX has already are not ingested, and their listings not taken.


@dataclasses.dataclass
class Listing:
    """The images of a source, or the shards of a generator, judged by their names alone.

    Attributes:
      images: the folder, archive or table, or its URI; or the generator.
      kind: what of these it is.
      options: of ingest, with all that a table says of its columns, and what else was understood.
      source: what reads them.
      chunks: the references, as units of work.
      fingerprint: changes if any file is added, removed or touched.
      found: number of files, rows or shards.
      classes: number of files of each class or tag; none of values.
      usable: how many have no known problem.
      first_problem: what is wrong with the first that says so; "" if none does.
      outside: number of links or rows that lead out of the folder and are not followed.
      paths_outside: the first and the last of these by name.
      noticed: what is worth a look, a sentence each.
    """

    images: str
    kind: SourceKind
    options: IngestOptions
    source: Source
    chunks: Spool[Chunk]
    fingerprint: str = ""
    found: int = 0
    classes: dict[str, int] = dataclasses.field(default_factory=dict)
    usable: int = 0
    first_problem: str = ""
    outside: int = 0
    paths_outside: tuple[str, ...] = ()
    noticed: tuple[str, ...] = ()

    def refs(self) -> Iterator[ImageRef]:
        """The references in their order."""
        return (ref for chunk in self.chunks for ref in chunk.refs)

    def understand(self, tally: Tally) -> None:
        """Completes the options by what the folders mean, which `tally` has counted."""
        collections.deque(self.chunks, maxlen=0)

        def list_paths() -> Iterator[str]:
            return (ref.path for ref in self.refs() if ref.problem is None)

        self.options, notes = understand(self.images, self.options, tally, list_paths)
        self.options = self.options.say_understood(notes)

    def pair(self, most_refs: int) -> None:
        """Joins images with the masks that were found among them."""
        self.source, tally = open_source(self.images, self.options), Tally()
        assert isinstance(self.source, Pairs)
        pairs = tally.watch(self.source.pair(self.refs()))
        self.chunks = Spool(make_chunks(pairs, most_refs), at_once=1)
        self.understand(tally)


def list_images(images: str, options: IngestOptions) -> Listing:
    """Lists a folder, an archive or a table; of a generator, the shards.

    Raises:
      UserError: if the options do not fit what is given, or it cannot be listed.
    """
    kind, prepare = kind_of(images), options.prepare
    with collect() as notes:
        source, options = open_complete(images, options)
        tally, refs = Tally(), source.list()
        most = _MOST_REFS if kind.lists_images else SHARDS_AT_ONCE
        chunks = Spool(make_chunks(refs if kind.has_rows else tally.watch(refs), most), at_once=1)
        listing = Listing(images, kind, options, source, chunks)
        if not kind.has_rows:
            listing.understand(tally)
            if options.masks is None and listing.options.masks is not None:
                listing.pair(most)
        columns: tuple[object, ...] = ()
        if kind.has_rows:
            columns = (options.columns, options.column_types)
        version = images_version(images)  # Of code that makes images, or reads them.
        columns += (version,) * bool(version)
        listing.fingerprint = fingerprint_refs(_count(listing), columns)
        are_tags = listing.options.further_types.get("label") == "strings"
        check_classes(listing.classes, are_tags)
        listing.options = leave_out_rare(listing.options, listing.classes)
        boxes = listing.options.boxes
        of_boxes = dict.fromkeys(boxes.classes, 0) if boxes and boxes.classes else None
        by_path = "label" not in listing.options.columns and not of_boxes
        label = listing.options.columns.get("label")
        if label is not None and listing.options.label_kind is CLASSES:
            for sentence in find_joined(listing.classes, label):
                noticed(sentence)
        for sentence in find_slips(of_boxes or listing.classes, by_path, are_tags):
            noticed(sentence)
        if kind.lists_images and not version:  # Else reading them runs a person's code.
            for find in (find_lost_bits, find_windowless):
                if lost := find(listing.refs(), listing.source, prepare):
                    noticed(lost)
    listing.options = listing.options.say_understood(notes.understood)
    listing.noticed = tuple(notes.noticed)
    return listing


def check_listing(listing: Listing) -> Listing:
    """Checks that there is something to ingest, which a generator does not tell before it runs.

    Raises:
      UserError: if the folder is empty, or nothing of an archive or a table can be used.
    """
    images_dir, kind = listing.images, listing.kind
    if not kind.lists_images:
        return listing
    if not listing.found:
        raise UserError(
            f"The images folder {images_dir!r} holds no files; give a folder that holds images."
        )
    if kind is ARCHIVE and not listing.usable:
        raise UserError(
            f"None of {listing.found:,} members of {images_dir!r} can be read; the first that says "
            f"why: {listing.first_problem or 'it is not a file'}."
        )
    if kind.has_rows and not listing.usable:
        outside = listing.paths_outside if listing.outside == listing.found else ()
        raise no_usable_row(images_dir, listing.found, listing.first_problem, outside)
    return listing


def _count(listing: Listing) -> Iterator[ImageRef]:
    """Passes the references on, and counts them."""
    options, classes = listing.options, collections.Counter[str]()
    with_sounds = options.prepare.sound is not None
    for ref in listing.refs():
        listing.found += 1
        if ref.problem == OUTSIDE:
            listing.outside += 1
            paths = *listing.paths_outside, ref.path
            listing.paths_outside = min(paths), max(paths)
        listing.usable += ref.problem is None
        listing.first_problem = listing.first_problem or ref.message
        may_be_image = ref.annotations is not None or not names_other_kind(ref.path, with_sounds)
        if listing.kind.lists_images and may_be_image and not ref.problem:
            classes.update(names_of(ref, options))
        yield ref
    listing.classes = dict(sorted(classes.items()))


_offered: dict[tuple[str, str, str], Listing] = {}


def offer(listing: Listing, options: IngestOptions) -> None:
    """Keeps a listing for whoever is to ingest these images with these options, see `take`."""
    _offered[listing.images, options.to_json(), listing.fingerprint] = listing
    if len(_offered) > _MOST_OFFERED:
        del _offered[next(iter(_offered))]


def take(images: str, options: IngestOptions, fingerprint: str) -> Listing:
    """The listing that was offered in this process, once; or else what is listed now."""
    found = _offered.pop((images, options.to_json(), fingerprint), None)
    return found or list_images(images, options)


_ENDINGS = (".png", ".tif", ".tiff")  # whose images may have over 8 bits
_LOOKED_FOR = 2000  # references, among which some such images are
_LOOKED_AT = 8
_HEAD_BYTES = 32
_FEW_LEVELS = 128  # of 256


def find_lost_bits(refs: Iterable[ImageRef], source: Source, options: PrepareOptions) -> str:
    """What images of over 8 bits lose where they are stored with 8, as a sentence; or ""."""
    high = options.depth.high
    if options.dtype != "uint8" or isinstance(high, str):  # Nothing is lost.
        return ""
    if not files.is_local(source.root):  # Each costs a request there.
        return ""
    looked_at = _draw_some(refs, _ENDINGS)
    highest = [level for ref in looked_at if (level := _find_highest(ref, source, options))]
    if not highest:
        return ""
    most = max(highest)
    found = (
        f"{len(highest)} of {len(looked_at)} images that were looked at have 16 bits, with values "
        f"up to {most:,}"
    )
    if options.depth != DepthOptions():
        return f"{found}: all above ingest.prepare.depth.high={high} become 255" * (most > high)
    levels = 1 + int(ALL_LEVELS.narrow(np.array([most], np.uint16))[0])
    stretch = "ingest.prepare.depth=maximum spreads them over all; " * (levels < 256)
    return (
        f"{found}: they are stored with 8, where {levels:,} of 256 levels are left; {stretch}"
        "ingest.prepare={dtype: uint16, encoding: raw} keeps every value"
    )


def find_windowless(refs: Iterable[ImageRef], source: Source, options: PrepareOptions) -> str:
    """What is lost of DICOM files that say no window, as a sentence; "" if nothing is."""
    is_stated = options.dtype != "uint8" or options.depth != DepthOptions()
    if is_stated or not files.is_local(source.root):
        return ""
    looked_at = _draw_some(refs, (".dcm",))
    levels = [found for ref in looked_at if (found := _count_windowless(ref, source, options))]
    if not levels or min(levels) > _FEW_LEVELS:
        return ""
    return (
        f"{len(levels)} of {len(looked_at)} DICOM files that were looked at say no window, so that "
        f"all numbers that they could have become 0 to 255: {min(levels)} of these 256 levels "
        "are used by one; ingest.prepare.depth=maximum spreads them over all; "
        "ingest.prepare={dtype: float32, encoding: raw} keeps the numbers"
    )


def _draw_some(refs: Iterable[ImageRef], endings: tuple[str, ...]) -> list[ImageRef]:
    some = itertools.islice(refs, _LOOKED_FOR)
    may_be = [r for r in some if r.problem is None and r.path.lower().endswith(endings)]
    return may_be[:: max(1, len(may_be) // _LOOKED_AT)][:_LOOKED_AT]


def _count_windowless(ref: ImageRef, source: Source, options: PrepareOptions) -> int:
    """How many levels a file has that says no window; 0 of any other, and of a damaged one."""
    try:
        image = open_by_extra(source.read(ref, options.max_file_bytes))
        if image is None or image.format != "DICOM":
            return 0
        pixels, _, notes = image.read_shown()
    except (BadImage, OSError):  # Ingest will say what is wrong with it.
        return 0
    return np.unique(pixels).size if "16bit" in notes else 0


def _find_highest(ref: ImageRef, source: Source, options: PrepareOptions) -> int:
    """The highest value of an image of over 8 bits; 0 of any other, and of one that is damaged."""
    try:
        head = source.read(ref, _HEAD_BYTES)
        if head.startswith(b"\x89PNG") and (len(head) <= PNG_DEPTH or head[PNG_DEPTH] != 16):
            return 0
        data = np.frombuffer(source.read(ref, options.max_file_bytes), np.uint8)
        pixels = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    except (BadImage, OSError, cv2.error):  # Ingest will say what is wrong with it.
        return 0
    if pixels is None or pixels.dtype != np.uint16:
        return 0
    has_alpha = pixels.ndim == 3 and pixels.shape[2] == 4
    return int(pixels[..., :3].max() if has_alpha else pixels.max())
