"""Records read from the beginning of each shard on: any TFRecord files, on any file system.

What streaming promises less than random access by an index: order is random within a window only,
a run that goes on in the middle of an epoch reads (but does not decode) what came before, and every
worker reads all records.
"""

import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf

from components import record
from components.errors import UserError
from components.feeding import parse
from components.feeding.memory import Stage, plan_streaming
from components.feeding.options import FeedingOptions
from components.view_options import ViewOptions


@dataclasses.dataclass(frozen=True)
class StreamedRecords:
    """The serialized records of some files, epoch by epoch.

    Attributes:
      paths: TFRecord files; those that end in .gz are gunzipped.
      feeding: size of the shuffle window, and files read side by side.
      shuffled: whether each epoch has an order of its own.
      seed: decides the order, together with the epoch.
      keep: of a record's id (string scalar), whether the record is read (bool); None for all.
    """

    paths: Sequence[str]
    feeding: FeedingOptions
    shuffled: bool
    seed: int
    keep: Callable[[tf.Tensor], tf.Tensor] | None = None

    def read_epoch(
        self, epoch: tf.Tensor, first_step: tf.Tensor, is_first: tf.Tensor
    ) -> tf.data.Dataset:
        """The batches of one epoch from a step on, as `IndexedRecords.read_epoch` gives them."""
        del is_first  # Checksums are verified in every epoch.
        # Sets the seed of this function's graph only: otherwise the order would also hang on
        # `tf.random.set_seed`, which anyone may call. (A 0 here makes TensorFlow compare tensors.)
        tf.compat.v1.set_random_seed(1)
        # Another order of shards every epoch, so that the window below meets other neighbours.
        shuffle = tf.random.experimental.stateless_shuffle
        order = shuffle(self.paths, [self.seed, epoch]) if self.shuffled else self.paths
        # Several shards at once mix well and hide the delay of a remote store; `deterministic`
        # takes turns strictly, so a slow shard delays the order but never changes it.
        records = tf.data.Dataset.from_tensor_slices(order).interleave(
            read_shard,
            cycle_length=min(self.feeding.files_at_once, len(self.paths)),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        if self.keep is not None:
            records = records.filter(self._keep_by_id)
        if self.shuffled:
            # Encoded records are shuffled, not images: a window of 10,000 takes megabytes.
            order_seed = tf.random.stateless_uniform([], [self.seed, epoch], 0, 2**31 - 1, tf.int64)
            records = records.shuffle(
                self.feeding.shuffle_records, seed=order_seed, reshuffle_each_iteration=False
            )
        batch_size = self.feeding.batch_size
        drop = self.shuffled and self.feeding.remainder == "drop"
        batches = records.skip(first_step * batch_size).batch(batch_size, drop_remainder=drop)
        return batches.map(_as_first_views)

    def plan_memory(self, view: ViewOptions) -> list[Stage]:
        """What reading batches of this view holds in memory, by the first 100 records' size."""
        first = read_shard(tf.constant(self.paths[0])).take(100).as_numpy_iterator()
        sizes = [len(serialized) for serialized in first]
        mean = sum(sizes) // max(len(sizes), 1)
        return plan_streaming(self.feeding, view, mean, len(self.paths), self.shuffled)

    def _keep_by_id(self, serialized: tf.Tensor) -> tf.Tensor:
        """Asks `keep` about a record without parsing more than its id."""
        parsed = parse.parse_record(serialized, [parse.SOURCE_ID_COLUMN])
        return self.keep(parsed[record.SOURCE_ID])  # type: ignore[misc]


def _as_first_views(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
    first = tf.zeros(tf.shape(serialized), tf.int64)
    return {"serialized": serialized, "view": first, "copy": first}


def count_records(files: Sequence[str]) -> int:
    """Counts the records of TFRecord files by reading them once.

    Raises:
      UserError: if a pattern matches no file.
    """
    paths = match_files(files)
    records = tf.data.Dataset.from_tensor_slices(paths).interleave(
        read_shard, cycle_length=min(16, len(paths)), num_parallel_calls=tf.data.AUTOTUNE
    )
    return int(records.reduce(tf.constant(0, tf.int64), lambda count, _: count + 1))


def match_files(files: Sequence[str]) -> list[str]:
    """Resolves paths and patterns to paths, sorted: the same on every file system.

    Raises:
      UserError: if one of them matches no file, or none are given.
    """
    matches = {pattern: tf.io.gfile.glob(pattern) for pattern in files}
    missing = [pattern for pattern, paths in matches.items() if not paths]
    if missing or not matches:
        raise UserError(
            f"every pattern must match a TFRecord file, but no file matches {missing or 'none'}; "
            "check the path, or run ingest first."
        )
    return sorted({path for paths in matches.values() for path in paths})


def read_shard(path: tf.Tensor) -> tf.data.Dataset:
    """Reads the serialized records of one TFRecord file (string scalar), gunzipped if it is .gz."""
    is_gzip = tf.strings.regex_full_match(path, r".*\.gz")
    return tf.data.TFRecordDataset(path, compression_type=tf.where(is_gzip, "GZIP", ""))
