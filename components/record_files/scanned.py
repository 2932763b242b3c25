"""TFRecords that others wrote: one scan makes an index of them, so that they are read as ours are.

The index is kept for later runs and other processes, file by file, beside the files' folder, or,
where nothing can be written there, in a folder of this machine. It is made again once a file has
another size or time. What is packed cannot be read from anywhere, and is unpacked into that folder.
"""

import collections
import contextlib
import functools
import hashlib
import json
import logging
import os
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import google_crc32c
import numpy as np

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.examples import Feature, Kind, parse_example
from image_pipeline.components.dataset.index import DataSet, RecordIndex
from image_pipeline.components.dataset.index_rows import ROW, compute_checks
from image_pipeline.components.dataset.paths import OF_SPLIT
from image_pipeline.components.dataset.tfrecord import FOOTER_BYTES, HEADER_BYTES
from image_pipeline.components.errors import UserError
from image_pipeline.components.record_files.tfrecord_frames import (
    Frame,
    check_data,
    find_packing,
    list_frames,
)
from image_pipeline.components.threads import map_in_order, usable_cores

_LOG = logging.getLogger(__name__)
_FOLDER = ".image-pipeline-index"
_VERSION = 1
# Files that are scanned side by side: those of a store wait for its answers.
_STORE_FILES = 32
_ID = 16  # bytes
# What zlib takes for gzip or zlib, whichever it is; and what is read of it at once.
_ANY_PACKING, _PACKED_BYTES = 47, 2**16
_MOST_PX, _MOST_CHANNELS = 2**31 - 1, 255  # as rows of the index have them
# The features that each record must have, with one value.
_NEEDED: Mapping[str, Kind] = {
    **{key: "string" for key in (record.IMAGE, record.FORMAT, record.SOURCE_ID, record.LABEL)},
    **{key: "int" for key in (record.HEIGHT, record.WIDTH, record.CHANNELS)},
}


class _State(NamedTuple):
    """A file as it is now: what is kept of it is only good as long as it stays so."""

    path: str
    size_bytes: int
    modified_ns: int

    @property
    def digest(self) -> str:
        return hashlib.sha256(
            repr((files.make_absolute(self.path), *self[1:])).encode()
        ).hexdigest()


class _Scanned(NamedTuple):
    """What a scan has found in a file; names and formats are those that occur."""

    rows: np.ndarray
    names: list[str]
    formats: list[str]
    packing: str


def scan_files(paths: Sequence[str], cache_dir: str) -> RecordIndex:
    """Makes the index of TFRecord files, or takes it from an earlier scan.

    Args:
      paths: of the files, or their URIs, sorted.
      cache_dir: a folder of this machine for what cannot be kept beside their folder.

    Raises:
      UserError: if a file is damaged, or has a record without what is read of each; if there is no
        record.
    """
    threads = _STORE_FILES if not all(map(files.is_local, paths)) else usable_cores()
    opened = functools.partial(_open, cache_dir=cache_dir)
    by_root: dict[str, list[tuple[str, _State, _Scanned]]] = collections.defaultdict(list)
    for path, state, found in map_in_order(opened, paths, threads):
        if len(found.rows):  # An index has no shards without records.
            by_root[_find_root(state.path)].append((path, state, found))
    if not by_root:
        raise UserError(
            f"there must be a record to read, but {paths[0]} and {len(paths) - 1} more files hold "
            "none; add images."
        )
    return RecordIndex([_join(root, by_root[root]) for root in sorted(by_root)])


def _find_root(path: str) -> str:
    """The folder of a file, or that of all splits."""
    folder = path.rpartition("/")[0] or "."
    above, _, name = folder.rpartition("/")
    return (above or ".") if name.startswith(OF_SPLIT) else folder


def _open(path: str, cache_dir: str) -> tuple[str, _State, _Scanned]:
    """What is read of a file, which is a copy if it is packed; its state; and its records."""
    state = _State(path, *files.stat_file(path))
    places = _list_places(path, cache_dir)
    copy = os.path.join(cache_dir, "unpacked", state.digest)
    for place in places:
        found = _read_kept(place, state)
        if found is not None and (not found.packing or os.path.isfile(copy)):
            return (copy if found.packing else path), state, found
    packing = find_packing(path)
    if packing:
        _unpack(state, copy)
    found = _scan(path, copy if packing else path, None if packing else state.size_bytes)
    found = found._replace(packing=packing)
    _keep(places, state, found)
    return (copy if packing else path), state, found


def _list_places(path: str, cache_dir: str) -> list[str]:
    """Where the index of a file may be kept, the better place first.

    Beside its folder and not in it: TensorFlow's `*` matches hidden names, too, so that others who
    read all of the folder would read it.
    """
    whole = files.make_absolute(path)
    folder, _, name = whole.rpartition("/")
    above, _, own = folder.rpartition("/")
    is_below_top = bool(above) and not above.endswith(":/")  # of the disk, or of a bucket
    beside = [files.join(above, _FOLDER, own, f"{name}.rows")] if is_below_top else []
    digest = hashlib.sha256(whole.encode(errors="surrogateescape")).hexdigest()
    return [*beside, os.path.join(cache_dir, "scanned", digest)]


def _unpack(state: _State, copy: str) -> None:
    """Unpacks gzip, of one or more members, or zlib, and looks at their checksums."""
    _LOG.info("Unpacking %s to %s, to be read in any order.", state.path, copy)
    with files.open_input(state.path) as packed:
        try:
            with files.write_atomically(copy) as file:
                unpacker = zlib.decompressobj(_ANY_PACKING)
                while block := packed.read(_PACKED_BYTES):
                    while block:
                        if unpacker.eof:
                            unpacker = zlib.decompressobj(_ANY_PACKING)
                        file.write(unpacker.decompress(block))
                        block = unpacker.unused_data
                if not unpacker.eof:
                    raise zlib.error("it ends too early")
        except zlib.error as error:
            raise _damaged(state.path, f"it cannot be unpacked ({error})") from error
        except OSError as error:
            why = error.strerror or error
            raise UserError(
                f"{state.path} must be unpacked to be read in any order, but {copy} cannot be "
                f"written ({why}); set feeding.cache_dir to a folder with room for it."
            ) from error


def _scan(path: str, read_from: str, size_bytes: int | None) -> _Scanned:
    """Reads of each record what the index says of it.

    Args:
      path: what messages name.
      read_from: the file, or what it was unpacked to.
      size_bytes: where it ends: what is written behind that meanwhile belongs to its next state.
    """
    rows: list[tuple[Any, ...]] = []
    names, formats = dict[str, int](), set[str]()
    for number, frame in enumerate(list_frames(read_from)):
        offset = frame.start - HEADER_BYTES
        if size_bytes is not None and offset >= size_bytes:
            break
        if frame.problem:
            raise _damaged(path, f"record {number}: {frame.problem}")
        features = _read_features(path, number, frame)
        (start, end), *others = (features[key].values[0] for key in _NEEDED)
        stored_as, id_, label = (bytes(frame.buffer[at:stop]) for at, stop in others[:3])
        height, width, channels = others[3:]
        in_range = min(height, width, channels) > 0 and channels <= _MOST_CHANNELS
        if not (in_range and max(height, width) <= _MOST_PX):
            sides = f"{height} x {width} pixels of {channels} channels"
            raise _damaged(path, f"record {number} has an image of {sides}")
        label_number = names.setdefault(label.decode(errors="surrogateescape"), len(names))
        is_last = end == frame.at + frame.length
        rows.append(
            (
                *(offset, frame.length, _make_id(id_), end - start if is_last else 0),
                *(height, width, label_number, channels, stored_as in record.RAW_FORMATS, 0, 0),
            )
        )
        formats.add(record.RAW_FORMATS.get(stored_as, "uint8"))
    return _Scanned(np.array(rows, ROW), list(names), sorted(formats), "")


def _read_features(path: str, number: int, frame: Frame) -> dict[str, Feature]:
    try:
        features = parse_example(frame.buffer, frame.at, frame.at + frame.length)
    except (ValueError, OSError) as error:
        _check(path, number, frame)
        raise UserError(
            f"each record must be a tf.train.Example, but record {number} of {path} is not one "
            f"({error}); docs/migrating.md turns other records into files for ingest."
        ) from error
    missing = [
        key
        for key, kind in _NEEDED.items()
        if key not in features or features[key].kind != kind or len(features[key].values) != 1
    ]
    if missing:
        _check(path, number, frame)
        raise UserError(
            f"the records of {path} must have the features {', '.join(missing)}, one value each, "
            f"which record {number} has not; docs/migrating.md turns other records into files for "
            "ingest."
        )
    return features


def _check(path: str, number: int, frame: Frame) -> None:
    """Says of a record that is not as it must be if that is damage."""
    if not check_data(frame):
        raise _damaged(path, f"record {number}: its data or the data's checksum is damaged")


def _make_id(source_id: bytes) -> np.ndarray:
    """What an image's random views are drawn of: uint8 [16], of ingest's digits or any text."""
    digest = hashlib.sha256(source_id).digest()[:_ID]
    with contextlib.suppress(ValueError):
        if len(source_id) == 2 * _ID and source_id == source_id.lower():
            digest = bytes.fromhex(source_id.decode())
    return np.frombuffer(digest, np.uint8)


def _damaged(path: str, problem: str) -> UserError:
    return UserError(f"{path} is damaged: {problem}; write it again, or leave it out.")


def _read_kept(place: str, state: _State) -> _Scanned | None:
    """What was kept of a file; None if there is nothing, it is damaged, or the file was changed."""
    try:
        head, _, content = files.read_file(place).partition(b"\n")
        known = json.loads(head)
        is_same = known["state"] == [_VERSION, *state[1:], google_crc32c.value(content)]
        if is_same and len(content) == known["records"] * ROW.itemsize:
            rows = np.frombuffer(content, ROW).copy()
            return _Scanned(rows, known["names"], known["formats"], known["packing"])
    except (OSError, ValueError, KeyError, TypeError, UserError):
        pass  # It is made again.
    return None


def _keep(places: Sequence[str], state: _State, found: _Scanned) -> None:
    """Keeps what was found at the first place that can be written."""
    content, described = found.rows.tobytes(), found._asdict()
    del described["rows"]
    head = {"state": [_VERSION, *state[1:], google_crc32c.value(content)]}
    head_line = json.dumps(head | described | {"records": len(found.rows)}).encode()
    errors = []
    for place in places:
        try:
            files.write_file(place, head_line + b"\n" + content)
            return
        except (OSError, UserError) as error:
            errors.append(str(error))
    _LOG.warning("The index of %s is not kept but made each time: %s", state.path, errors[-1])


def _join(root: str, found: Sequence[tuple[str, _State, _Scanned]]) -> DataSet:
    """The files of one folder as a data set."""
    formats = sorted({each for _, _, scanned in found for each in scanned.formats})
    if len(formats) > 1:
        raise UserError(
            f"the images of {root!r} must have values of one type, got {' and '.join(formats)}; "
            "read the files apart."
        )
    classes = sorted({name for _, _, scanned in found for name in scanned.names})
    places = {name: place for place, name in enumerate(classes)}
    for _, state, (rows, names, *_) in found:
        rows["label"] = np.array([places[name] for name in names], np.int32)[rows["label"]]
        key = np.full(len(rows), int(state.digest[:16], 16), np.uint64)
        rows["check"] = compute_checks(rows, np.arange(len(rows)), key)
    rows = np.concatenate([scanned.rows for _, _, scanned in found])
    counts = np.array([len(scanned.rows) for _, _, scanned in found], np.int64)
    firsts = np.cumsum(counts) - counts
    last = rows[firsts + counts - 1]
    return DataSet(
        root=root,
        shard_paths=tuple(path for path, _, _ in found),
        counts=counts,
        firsts=firsts,
        sizes=last["offset"] + last["length"] + (HEADER_BYTES + FOOTER_BYTES),
        keys=np.array([int(state.digest[:16], 16) for _, state, _ in found], np.uint64),
        read=rows.__getitem__,
        names=classes,
        classes=classes,
        dtype=formats[0],  # type: ignore[arg-type]
        nbytes=rows.nbytes,
        is_ours=False,
    )
