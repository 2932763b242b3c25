"""TFRecord files by patterns: by TensorFlow, or in parts from stores that it does not know."""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.manifest import Manifest, read_manifest
from image_pipeline.components.dataset.paths import group_by_root, match_path
from image_pipeline.components.dataset.tfrecord import CorruptRecord, split_records
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.found_columns import find_labels
from image_pipeline.components.feeding.python_calls import call_python
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.labels.kinds import BOXES, CLASSES, MASKS
from image_pipeline.components.stores import remote
from image_pipeline.components.threads import call_within
from image_pipeline.components.threads import start as start_thread

# A request of a store whose files TensorFlow does not read.
_PART_BYTES = 2**20
# Requests side by side: of one file, and of all files if they are few. TensorFlow calls Python in
# as many threads as there are cores, so files that are read side by side are no more than these.
_FILE_PARTS, _ALL_PARTS = 4, 16
# The parts that are used, those after them, and those that come in.
_HELD = 3
# TensorFlow's own buffer.
_BUFFER_BYTES = 256 * 1024


def count_records(paths: Sequence[str], at_most: int = -1) -> int:
    """Counts the records of TFRecord files by reading them once, up to so many (-1 for all)."""
    at_once = min(16, len(paths))
    records = tf.data.Dataset.from_tensor_slices(paths).interleave(
        find_reader(paths), cycle_length=at_once, num_parallel_calls=at_once
    )
    options = tf.data.Options()
    options.autotune.enabled = False  # as in `finishing.keep_ready`
    records = records.with_options(options)
    return int(records.take(at_most).reduce(tf.constant(0, tf.int64), lambda count, _: count + 1))


def match_files(patterns: Sequence[str]) -> list[str]:
    """Resolves paths and patterns to paths, sorted: the same on every file system.

    Raises:
      UserError: if one of them matches no file, or none are given.
    """
    matches = {pattern: _match_pattern(pattern) for pattern in patterns}
    missing = [pattern for pattern, paths in matches.items() if not paths]
    if missing or not matches:
        raise UserError(
            f"every pattern must match a TFRecord file, but no file matches {missing or 'none'}; "
            "check the path, or run ingest first."
        )
    return sorted({path for paths in matches.values() for path in paths})


def _match_pattern(pattern: str) -> list[str]:
    """The paths that match, within a time limit: TensorFlow retries a missing store for minutes."""
    try:
        if files.is_local(pattern):
            return tf.io.gfile.glob(pattern)
        if not files.is_known_to_tensorflow(pattern):
            return files.list_files(*_split_pattern(pattern))
        return call_within(remote.ANSWER_TIMEOUT_S, lambda: tf.io.gfile.glob(pattern))
    except (TimeoutError, tf.errors.OpError) as error:
        reason = getattr(error, "message", f"no answer within {remote.ANSWER_TIMEOUT_S} s")
        reason = " ".join(reason.split())  # TensorFlow's has several lines.
        raise UserError(
            f"cannot list {pattern}: {reason}; check the path, the network, and what the "
            "credentials allow."
        ) from error


def _split_pattern(uri: str) -> tuple[str, str]:
    """The folder above the first wildcard of a URI, and the rest; a bucket's name has none."""
    parts = uri.split("/")
    wild = [place for place, part in enumerate(parts) if place > 2 and set("*?[") & set(part)]
    first = wild[0] if wild else len(parts) - 1
    return "/".join(parts[:first]), "/".join(parts[first:])


def read_manifests(files: Sequence[str]) -> dict[str, Manifest]:
    """The manifests of the data sets that shards are of, by their folders."""
    bare = [path.removesuffix(".gz") for path in match_files(files)]
    roots = [root for root, _ in group_by_root(bare)] if all(map(match_path, bare)) else []
    found = {}
    for root in roots:
        # Asked for at once: in a store, whether there is one would be a request of its own.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found[root] = read_manifest(root)
    return found


def find_label_kind(files: Sequence[str]) -> LabelKind:
    """The kind of labels of shards: as manifests say, or else whether the first record has some.

    Raises:
      UserError: if data sets have several kinds, or boxes of different classes.
    """
    manifests = read_manifests(files)
    return find_labels(manifests) if manifests else _find_in_first_record(match_files(files))


def _find_in_first_record(paths: Sequence[str]) -> LabelKind:
    """By whether the first record has a mask or boxes: what files without a manifest say."""
    records = tf.data.Dataset.from_tensor_slices(paths).flat_map(find_reader(paths))
    for serialized in records.take(1).as_numpy_iterator():
        try:
            features = tf.train.Example.FromString(serialized).features.feature
        except DecodeError:
            return CLASSES  # Whoever reads it says so.
        if record.MASK in features:
            return MASKS
        return BOXES if record.BOX_LABEL.key in features else CLASSES
    return CLASSES


def read_shard(path: tf.Tensor) -> tf.data.Dataset:
    """Reads the serialized records of one TFRecord file (string scalar), gunzipped if it is .gz."""
    is_gzip = tf.strings.regex_full_match(path, r".*\.gz")
    return tf.data.TFRecordDataset(path, compression_type=tf.where(is_gzip, "GZIP", ""))


def find_reader(paths: Sequence[str]) -> Callable[[tf.Tensor], tf.data.Dataset]:
    """How the files are read: `read_shard`, unless TensorFlow does not know their store.

    Raises:
      UserError: if it does not, and a file is compressed.
    """
    unknown = [path for path in paths if not files.is_known_to_tensorflow(path)]
    if packed := [path for path in unknown if path.endswith(".gz")]:
        raise UserError(
            f"TensorFlow cannot read {packed[0]}, and a .gz file cannot be read in parts; copy the "
            "data set to a local disk."
        )
    most_bytes = _bytes_at_once(paths)
    return (lambda path: _read_in_parts(path, most_bytes)) if unknown else read_shard


def bytes_ahead(paths: Sequence[str]) -> int:
    """How much of each file is held in memory while it is read."""
    is_known = all(map(files.is_known_to_tensorflow, paths))
    return _BUFFER_BYTES if is_known else _HELD * _bytes_at_once(paths)


def _bytes_at_once(paths: Sequence[str]) -> int:
    return max(_FILE_PARTS, _ALL_PARTS // max(len(paths), 1)) * _PART_BYTES


def _read_in_parts(path: tf.Tensor, most_bytes: int) -> tf.data.Dataset:
    """What `read_shard` gives of a file, by requests of our own, for so many bytes at once."""

    def read(state: tuple[tf.Tensor, tf.Tensor], _: tf.Tensor) -> tuple[Any, tf.Tensor]:
        inputs, dtypes = [path, *state, most_bytes], [tf.string, tf.int64, tf.int64]
        records, end, size_bytes = call_python(_read_next, inputs, dtypes)
        state = tf.ensure_shape(end, []), tf.ensure_shape(size_bytes, [])
        return state, tf.ensure_shape(records, [None])

    unread = tf.constant(0, tf.int64), tf.constant(-1, tf.int64)
    parts = tf.data.Dataset.counter().scan(unread, read)
    parts = parts.take_while(lambda records: tf.size(records) > 0)
    return parts.prefetch(1).unbatch()  # The next ones arrive while these are used.


def _read_next(
    path: bytes, start: np.int64, known_bytes: np.int64, most_bytes: np.int32
) -> tuple[np.ndarray, np.int64, np.int64]:
    """The next records of a file, at least one before its end.

    First a part, then as much as was read before: of a small file, and for a look at the first
    records, little is asked for.

    Returns:
      The records, where those after them begin, and the file's size, -1 while it is not known.
    """
    name, first, size_bytes = path.decode(), int(start), int(known_bytes)
    if first and size_bytes < 0:
        size_bytes, _ = files.stat_file(name)
    wanted = min(max(first, _PART_BYTES), int(most_bytes))
    block = _read_side_by_side(name, first, first + wanted, size_bytes)
    if size_bytes < 0 and len(block) < wanted:
        size_bytes = len(block)
    try:
        records, end = split_records(block)
        if block and not records:  # One that is larger.
            block = _read_side_by_side(name, first, first + end, size_bytes)
            records, end = split_records(block)
        if block and not records:
            raise CorruptRecord("the file ends within a record")
    except CorruptRecord as error:
        raise UserError(
            f"{name} is damaged after byte {first} ({error}); write it again, or leave it out."
        ) from error
    return np.array(records, object), np.int64(first + end), np.int64(size_bytes)


def _read_side_by_side(path: str, start: int, end: int, size_bytes: int) -> bytes:
    """A part of a file of a known size, or -1, by a request for each `_PART_BYTES`."""
    if size_bytes < 0:
        return files.read_file(path, start, end)
    end = min(end, size_bytes)
    starts = range(start, end, _PART_BYTES)
    reads = [
        functools.partial(files.read_file, path, first, min(first + _PART_BYTES, end))
        for first in starts
    ]
    if len(reads) < 2:
        return b"".join(read() for read in reads)
    return b"".join([call.result() for call in [*map(start_thread, reads)]])
