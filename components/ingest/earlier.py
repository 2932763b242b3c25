"""What an earlier ingest knows of its sources, so that only those that changed are prepared again.

Beside its data set an ingest leaves `.sources`: for each source what is known of its image, and in
which record the bytes are that were stored. The next ingest takes over what is the same, named by a
key of all that it depends on: a file by its path, size and time, or any bytes by their hash. What
follows is ingest as ever, so the data set is the one that an ingest of all files would write.

The file is not part of the data set: it has the files' times, and the same images have other times
elsewhere. It may be deleted; the next ingest then reads all files.
"""

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import logging
import os
import stat
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components import files, json_files
from image_pipeline.components.dataset.checksums import HashedWriter
from image_pipeline.components.dataset.complete import find_complete
from image_pipeline.components.dataset.index_rows import ROW
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.paths import ROWS, SOURCES
from image_pipeline.components.dataset.tfrecord import HEADER_BYTES
from image_pipeline.components.errors import UserError
from image_pipeline.components.function_version import SOURCES as SOURCE_ROOMS
from image_pipeline.components.function_version import code_version
from image_pipeline.components.images.by_extras import list_missing
from image_pipeline.components.images.prepare import DESCRIBED, PreparedImage
from image_pipeline.components.ingest.placed_rows import SourceRows
from image_pipeline.components.ingest.plan import NOWHERE, Placement, read_places
from image_pipeline.components.ingest.prepared import ROW_SCHEMA
from image_pipeline.components.ingest.work_folder import EARLIER
from image_pipeline.components.json_text import parse_own
from image_pipeline.components.labels.kind import Fitted
from image_pipeline.components.meaning.listing import Listing
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.folder import locate
from image_pipeline.components.sources.references import Annotations, ImageRef, list_fields
from image_pipeline.components.trees import fetch_file

_LOG = logging.getLogger(__name__)

Compare = Literal["times", "bytes", "nothing"]
"""How sources are compared with those of an earlier ingest: by size and time; by their bytes, which
are read; or not at all, so that all are prepared."""

_DECODERS = (
    *("av", "imagecodecs", "imagehash", "numpy", "opencv-python", "opencv-python-headless"),
    *("pillow", "pillow-heif", "pydicom", "scipy", "simplejpeg", "soundfile"),
)
_END_BYTES = 512  # What is last in the file, after an Arrow file, is JSON that fills so many bytes.
_TAKEN = b"taken"
_OF_MASKS = ["mask_length", "mask_sha256", "mask_ids", "mask_pixels"]
# What is taken of an image whose row is another one, and where its record is.
_COLUMNS = [
    *("key", "content_key", "sha256", "source_bytes", "payload_length", "payload_crc32c"),
    *("image_notes", "perceptual_hash", *DESCRIBED, *_OF_MASKS, "shard", "position"),
]
# What is known without them, is null of what was stored, or has changed with the data set.
_LEFT_OUT = {"path", "reason", "is_skipped", "message", "chunk", "payload_offset"}
_LEFT_OUT |= {"record_length", "is_kept"}
_SCHEMA = pa.schema(
    [
        *(field for field in ROW_SCHEMA if field.name not in _LEFT_OUT),
        pa.field("shard", pa.int64()),  # counted over all splits; NOWHERE if it is in none
        pa.field("position", pa.int64()),  # of the record in its shard
    ]
)


@dataclasses.dataclass(frozen=True)
class Known:
    """A source that is as it was.

    Attributes:
      image: what is stored of it, but for its bytes.
      fitted: the same of its mask, if it has one.
      row: further columns of its row, see `prepared.ROW_SCHEMA`; also where its bytes are.
    """

    image: PreparedImage
    fitted: Fitted
    row: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Earlier:
    """The data set of an earlier ingest. Beam's stages get it as an argument.

    Attributes:
      data_dir: its folder.
      manifest: its manifest's checksum.
      compare: how its sources are compared with those of today.
    """

    data_dir: str
    manifest: str
    compare: Compare = "times"


class Keys:
    """What names sources, and what an earlier ingest knows by these names.

    A key says all that an image and its mask depend on, and nothing of labels, groups and splits.
    These are read again, unless the options are the same, and what a table says of the image.

    Attributes:
      same: int64 [n], the numbers of the sources that are as they were, with all that is said of
        them.
      rows: what their rows were, see `prepared.ROW_SCHEMA`, and where their records are.
    """

    def __init__(
        self,
        depends_on: object,
        refs: Sequence[ImageRef],
        stamps: Iterable[list[object] | None],
        earlier: Earlier | None,
        options: IngestOptions,
    ):
        """Names some sources, before they are read, and looks them up.

        Args:
          depends_on: what images depend on besides their bytes, such as options, as JSON.
          refs: the sources that are asked for: these objects.
          stamps: see `find_stamps`, of each of them.
          earlier: the earlier ingest; None if there is none.
          options: of ingest.
        """
        # What stands for an image in its own file says where it is there.
        by_content = not options.in_place
        self._depends_on = hashlib.sha256(json.dumps(depends_on).encode())
        self._contents_of = earlier if by_content else None
        self._known: dict[bytes, Known] = {}
        keys = [
            None if each is None else self._name([each, ref.annotations is None])
            for ref, each in zip(refs, stamps, strict=True)
        ]
        self._refs = {id(ref): (ref, key) for ref, key in zip(refs, keys, strict=True)}
        self.same, self.rows = np.empty(0, np.int64), ROW_SCHEMA.empty_table()
        if earlier is not None and earlier.compare == "times":
            sources = _open(earlier)
            if sources.options == options.stored_form():
                self.same, self.rows = sources.find_same(refs, keys)
            others = np.delete(np.arange(len(keys)), self.same).tolist()
            asked = [key for key in (keys[number] for number in others) if key is not None]
            self._known = sources.find_all(asked, by_content)

    def name_source(self, ref: ImageRef) -> bytes | None:
        """The key of one of the sources by its path, size and times; None if they are unknown."""
        return self._refs[id(ref)][1]

    def name_content(self, content: bytes, mask: object) -> bytes:
        """The key of bytes wherever they are: of their SHA-256, and of their mask's."""
        of_mask = hashlib.sha256(mask).hexdigest() if isinstance(mask, bytes) else None
        return self._name([content.hex(), of_mask])

    def _name(self, parts: list[object]) -> bytes:
        digest = self._depends_on.copy()
        digest.update(repr(parts).encode())
        return digest.digest()[:16]

    def find(self, ref: ImageRef) -> Known | None:
        """One of the sources, if it has not changed; None if it has, or was not stored."""
        return self._known.get(self.name_source(ref) or b"")

    def find_content(self, key: bytes) -> Known | None:
        """The same by the key of bytes."""
        return None if self._contents_of is None else _open(self._contents_of).find_content(key)


def name_annotations(said: Annotations) -> bytes:
    """A name for all that a table says of an image, whichever of its rows says it."""
    parts = (said.label, said.group, said.split, said.further)
    return hashlib.sha256(repr(parts).encode()).digest()[:16]


@dataclasses.dataclass(frozen=True)
class _End:
    """The end of `.sources`.

    Attributes:
      sha256: of all before it.
      manifest: the checksum in the data set's manifest.
      fingerprint: see `fingerprint_sources`.
      code: see `made_by`.
    """

    sha256: str
    manifest: str
    fingerprint: str
    code: str


def find_earlier(data_dir: str, compare: Compare) -> Earlier | None:
    """A data set from which a next ingest can take what has not changed; None if it cannot.

    Raises:
      UserError: if it is there, but `.sources` is damaged.
    """
    if compare == "nothing" or not files.is_file(path := files.join(data_dir, SOURCES)):
        return None
    manifest = find_complete(data_dir)
    if manifest is None or manifest.checksum is None or ROWS not in manifest.files:
        return None
    end = _read_end(path)
    return Earlier(data_dir, end.manifest, compare) if end.manifest == manifest.checksum else None


def find_stamps(ref: ImageRef, root: str) -> list[object] | None:
    """What changes with a source's file and its mask's; None if that cannot be known, or is none.

    A path, a size and a time of the last change may be another file's: archives give theirs to what
    is unpacked, and may give all one time. So a local file's inode counts, too, and the time of its
    last change by whatever means, which no program can set.
    """
    if ref.problem is not None:
        return None
    stamps: list[object] = [list_fields(ref, with_annotations=False)]
    for each in filter(None, (ref, ref.mask)):
        if each.stamp is not None:  # It was looked at when it was listed.
            continue
        location = each.location
        while location is not None and location.within is not None:
            location = location.within
        path = locate(root, each.path) if location is None else location.file
        if not each.modified_ns:
            return None
        if files.is_local(path):
            try:
                status = os.stat(path)
            except OSError:
                return None
            if not stat.S_ISREG(status.st_mode):  # A folder's times say nothing of its files.
                return None
            stamps += [status.st_ino, status.st_ctime_ns]
    return stamps


def fingerprint_sources(listing: Listing) -> str:
    """A hash of a listing that is another one whenever a source may be; "" if that is unknown."""
    digest = hashlib.sha256(f"{listing.fingerprint} {list_missing()}".encode())
    if not listing.kind.lists_images:
        return ""
    for ref in listing.refs():
        stamps = find_stamps(ref, listing.source.root)
        if stamps is None and ref.problem is None:
            return ""
        digest.update(repr(stamps).encode())
    return digest.hexdigest()


def find_latest(folder: str) -> Earlier | None:
    """The same of the data set in a folder of data sets that was written last.

    All images are read without one: of what is damaged, or of a store that refuses to be listed,
    only the log says so.
    """
    try:
        paths = files.list_latest(folder, SOURCES)
    except UserError as error:
        _LOG.warning("%s", error)
        return None
    for path in paths:
        try:
            if (earlier := find_earlier(os.path.dirname(path), "times")) is not None:
                return earlier
        except UserError as error:
            _LOG.warning("%s", error)
    return None


def is_unchanged(earlier: Earlier, listing: Listing) -> bool:
    """Whether a listing is that of the data set, by the same options and the same code."""
    end = _read_end(files.join(earlier.data_dir, SOURCES))
    manifest = read_manifest(earlier.data_dir)
    is_same = manifest.options == listing.options.stored_form() and end.code == made_by()
    # A disk or a network that failed leaves a file as it was.
    is_same &= "unreadable" not in manifest.books.quarantine_reasons
    is_same &= earlier.compare == "times" and end.fingerprint != ""
    return is_same and end.fingerprint == fingerprint_sources(listing)


def count_taken(data_dir: str) -> int:
    """How many images of a data set were taken from the one before."""
    path = files.join(data_dir, SOURCES)
    return int(_open_table(path).schema.metadata[_TAKEN])


@functools.cache
def made_by() -> str:
    """The version of the code that makes what is stored, and of the libraries that decode."""
    versions = [code_version("images", "ingest", "meaning", *SOURCE_ROOMS)]
    for name in _DECODERS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"{name} {importlib.metadata.version(name)}")
    return hashlib.sha256(repr(versions).encode()).hexdigest()[:16]


def write_sources(sources: SourceRows, placement: Placement, path: str, taken: int) -> None:
    """Writes what the next ingest may take, but for the file's end.

    Args:
      sources: the rows of all sources.
      placement: where their records are.
      path: of the file.
      taken: how many of the images are of the ingest before.
    """
    schema = _SCHEMA.with_metadata({_TAKEN: str(taken)})
    with files.write_atomically(path) as file, pa.ipc.new_file(file, schema) as writer:
        for first, rows in sources.tables():
            places = read_places(placement.places, first, first + len(rows))
            for name in ("shard", "position"):
                rows = rows.append_column(name, pa.array(places[name]))
            known = rows.filter(pc.is_valid(rows["content_key"]))
            writer.write_table(known.select(_SCHEMA.names))


def finish_sources(path: str, manifest: str, fingerprint: str, output_dir: str) -> None:
    """Copies what `write_sources` wrote to the data set that it is of, and ends it."""
    with files.write_atomically(files.join(output_dir, SOURCES)) as file:
        written = HashedWriter(file)
        for block in files.read_blocks(path):
            written.write(block)
        end = _End(written.describe().sha256, manifest, fingerprint, made_by())
        file.write(json.dumps(dataclasses.asdict(end)).encode().ljust(_END_BYTES - 1) + b"\n")


def _read_end(path: str) -> _End:
    size_bytes, _ = files.stat_file(path)
    content = files.read_file(path, max(0, size_bytes - _END_BYTES), size_bytes)
    try:
        return json_files.check_json(parse_own(content), _End)
    except ValueError as error:
        raise _damaged(path) from error


def _damaged(path: str) -> UserError:
    return UserError(
        f"{path!r} is damaged, so it cannot be told what has changed; delete it and run again: "
        "then all images are read."
    )


def _open_table(path: str) -> pa.ipc.RecordBatchFileReader:
    """The file without its end; raises UserError if it is damaged."""
    with pa.memory_map(fetch_file(path)) as file:
        content = file.read_buffer()
    body = content[: max(0, len(content) - _END_BYTES)]
    if hashlib.sha256(body).hexdigest() != _read_end(path).sha256:
        raise _damaged(path)
    return pa.ipc.open_file(body)


class _Sources:
    """What `.sources` has, and where the records are that it names."""

    def __init__(self, earlier: Earlier):
        """Reads it; raises UserError if it is damaged, or another data set is there by now."""
        data_dir = earlier.data_dir
        if _read_end(path := files.join(data_dir, SOURCES)).manifest != earlier.manifest:
            raise _damaged(path)
        self._table = _open_table(path).read_all()  # It is mapped, not read.
        if not self._table.schema.equals(_SCHEMA):  # Another version's, whose keys are others.
            self._table = _SCHEMA.empty_table()
        self._known = self._table.select(_COLUMNS)
        self._sorted: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._lock = threading.Lock()
        manifest = read_manifest(data_dir)
        self.options = manifest.options
        shards = [shard for _, _, shard in manifest.list_shards()]
        self._shards = [shard.file for shard in shards]
        self._firsts = np.cumsum([0, *(shard.records for shard in shards)])
        self._rows = np.memmap(fetch_file(files.join(data_dir, ROWS)), ROW, "r")

    def find_same(
        self, refs: Sequence[ImageRef], keys: Sequence[bytes | None]
    ) -> tuple[np.ndarray, pa.Table]:
        """The numbers of those sources that are known by their keys and annotations; their rows."""
        heads, order = self._sort("key")
        wanted = np.frombuffer(b"".join(key or bytes(16) for key in keys), ">u8")[::2]
        found = np.searchsorted(heads, wanted := wanted.astype(np.uint64))
        numbers = np.flatnonzero(found < len(heads))
        numbers = numbers[heads[found[numbers]] == wanted[numbers]]
        at = order[found[numbers]]
        # Of neighbours: to take rows, Arrow may put together all batches that they could be in.
        first, end = (at.min(), at.max() + 1) if len(at) else (0, 0)
        rows = self._table.slice(first, end - first).take(pa.array(at - first))
        stated = [refs[number].annotations for number in numbers]
        said = pa.array([each and name_annotations(each) for each in stated], pa.binary(16))
        is_same = pc.equal(rows["key"], pa.array([keys[n] for n in numbers], pa.binary(16)))
        was = rows["annotations"]
        as_said = pc.or_kleene(pc.equal(was, said), pc.and_(was.is_null(), said.is_null()))
        is_same = pc.and_(pc.and_(is_same, as_said), pc.greater(rows["shard"], NOWHERE))
        is_same = pc.fill_null(is_same, False)
        rows, numbers = rows.filter(is_same), numbers[is_same.to_numpy()]
        shard, paths = rows["shard"].to_numpy(), [os.fsencode(refs[n].path) for n in numbers]
        records = self._rows[self._firsts[shard] + rows["position"].to_numpy()]
        names = pa.array([EARLIER + name for name in self._shards], pa.string())
        columns = {name: rows[name] for name in ROW_SCHEMA.names if name in _SCHEMA.names}
        columns |= {
            "path": pa.array(paths, ROW_SCHEMA.field("path").type),
            "chunk": names.take(pa.array(shard)),
            "payload_offset": records["offset"] + HEADER_BYTES,
            "record_length": records["length"],
            "is_kept": pa.repeat(True, len(rows)),
        }
        missing = {name: pa.nulls(len(rows)) for name in ROW_SCHEMA.names if name not in columns}
        return numbers, pa.table(columns | missing, ROW_SCHEMA)

    def find_all(self, keys: Sequence[bytes], by_content: bool) -> dict[bytes, Known]:
        """What is known by keys of sources; of copies that were not stored, by their content."""
        known: dict[bytes, Known] = {}
        for row in self._list_rows("key", keys):
            if row["shard"] != NOWHERE:
                known[row["key"]] = self._make(row)
            elif by_content and (same := self.find_content(row["content_key"])) is not None:
                known[row["key"]] = same
        return known

    def find_content(self, key: bytes) -> Known | None:
        """What is known by a key of bytes, of a source that was stored."""
        rows = (row for row in self._list_rows("content_key", [key]) if row["shard"] != NOWHERE)
        return next(map(self._make, rows), None)

    def _list_rows(self, column: str, keys: Sequence[bytes]) -> list[dict[str, Any]]:
        heads, order = self._sort(column)
        wanted = np.frombuffer(b"".join(keys), ">u8")[::2].astype(np.uint64)
        starts, ends = (np.searchsorted(heads, wanted, side) for side in ("left", "right"))
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        at = [number for start, end in spans for number in order[start:end].tolist()]
        # A slice each: to take a single row, Arrow does ten times the work.
        rows = (self._known.slice(number, 1).to_pylist()[0] for number in at)
        asked = set(keys)
        return [row for row in rows if row[column] in asked]

    def _sort(self, column: str) -> tuple[np.ndarray, np.ndarray]:
        with self._lock:
            if column not in self._sorted:
                self._sorted[column] = _sort_keys(self._table[column])
        return self._sorted[column]

    def _make(self, row: dict[str, Any]) -> Known:
        """What a row says; its bytes are in a record."""
        record = self._rows[self._firsts[row["shard"]] + row["position"]]
        has_mask = bool(row["mask_length"])
        offset, record_length = int(record["offset"]) + HEADER_BYTES, int(record["length"])
        notes = row.pop("image_notes")
        image = PreparedImage(
            encoded=b"", **{name: row[name] for name in DESCRIBED} | {"notes": tuple(notes)}
        )
        fitted = Fitted(
            {name: row[name] for name in _OF_MASKS} if has_mask else {},
            notes=tuple(row["notes"][len(notes) :]) if has_mask else (),
        )
        taken = ["content_key", "sha256", "source_bytes", "perceptual_hash", "payload_length"]
        taken.append("payload_crc32c")
        known = {name: row[name] for name in taken}
        at = {"chunk": EARLIER + self._shards[row["shard"]], "payload_offset": offset}
        return Known(image, fitted, {**known, **at, "record_length": record_length})


def _sort_keys(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """The first halves of keys (uint64 [n]), sorted, and the numbers of their rows."""
    known = np.flatnonzero(column.is_valid().to_numpy())
    heads = [
        np.frombuffer(part.buffers()[1], ">u8")[2 * part.offset : 2 * (part.offset + len(part)) : 2]
        for part in column.chunks
    ]
    of_known = np.concatenate([*heads, np.empty(0, np.uint64)])[known].astype(np.uint64)
    order = np.argsort(of_known, kind="stable")
    return of_known[order], known[order]


@functools.lru_cache(2)
def _open(earlier: Earlier) -> _Sources:
    return _Sources(earlier)
