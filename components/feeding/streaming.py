"""Records read from the beginning of each shard: any TFRecord files, on any file system.

Unlike random access by an index, streaming is random only within a window, a run that resumes
within an epoch reads (but does not decode) what came before, and every worker reads all records.
"""

import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from image_pipeline.components.arrays.in_place import check_file, fetch, refers
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.stored import (
    IMAGE_KEYS,
    bad_streamed_record,
    take_image,
    take_parsed_image,
)
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.batch_maker import BatchMaker
from image_pipeline.components.feeding.budget import Stage, Use, plan_streaming
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.pixel_types import check_type
from image_pipeline.components.feeding.python_calls import call_python
from image_pipeline.components.feeding.shard_files import bytes_ahead, count_records, find_reader
from image_pipeline.components.views.fast import view_image, view_mask
from image_pipeline.components.views.fast_decode import decode_mask
from image_pipeline.components.views.options import ViewOptions

# The columns that images are decoded from, and damaged records are named by.
_ENCODED_KEYS = (record.SOURCE_ID, *IMAGE_KEYS)


class StreamedRecords:
    """The records of some files, epoch by epoch."""

    index = None
    steps = None

    def __init__(
        self,
        paths: Sequence[str],
        view: ViewOptions,
        feeding: FeedingOptions,
        passes: Passes,
        columns: Sequence[record.Column] = (),
    ):
        """Reads files only when an epoch is drawn.

        Args:
          paths: TFRecord files; those that end in .gz are gunzipped.
          view: the model's input size.
          feeding: size of the shuffle window, and files read side by side.
          passes: their seed decides the order of training, together with the epoch.
          columns: further scalar columns to read.
        """
        self.paths = paths
        self._feeding = feeding
        self._view = view
        self._maker = BatchMaker(view)
        self._passes, self._training, self._seed = passes, passes.training, passes.seed
        self._parsed = parse.columns_to_parse(columns)
        self._has_masks = record.MASK_COLUMN in columns

    def list_batches(self, epoch: tf.Tensor) -> tf.data.Dataset:
        """Pairs of an epoch and the serialized records (string [batch]) of each of its batches."""
        first_step, batch_size = self._passes.first_step_of(epoch), self._feeding.batch_size
        records = self.read_serialized(epoch).skip(first_step * batch_size)
        batches = records.batch(batch_size, drop_remainder=self._drops)
        batches = self._refuse_none(batches, first_step)
        return tf.data.Dataset.zip(tf.data.Dataset.from_tensors(epoch).repeat(), batches)

    def draw_batch(self, epoch: tf.Tensor, batch: tf.Tensor) -> parse.Tensors:
        """Parses serialized records (string [batch]): what `parse.as_drawn` gives.

        Their encoded images are among it.
        """
        del epoch  # A record that is parsed is the same in each.
        return parse.as_drawn(parse.parse_batch(batch, self._parsed))

    @property
    def _drops(self) -> bool:
        return self._training and self._feeding.remainder == "drop"

    def check_step(self, first_step: int) -> None:
        """Raises UserError unless there is a first batch, as records with an index do.

        Whether there is a later one is only known after reading all before it. Nobody sees all of
        a data service's batches, so for those it is checked here.
        """
        is_served = self._feeding.data_service is not None
        if first_step and not (self._training and is_served):
            return
        before = first_step * self._feeding.batch_size
        needed = before + (self._feeding.batch_size if self._drops else 1)
        # Usually the records read anyway tell: a remote shard is not opened again for this.
        if (
            len(self._first_sizes) < needed
            and (found := count_records(self.paths, needed)) < needed
        ):
            raise UserError(
                f"an epoch must have a batch at first_step={first_step}, but {self._name_paths()} "
                f"hold {found}, feeding.batch_size is {self._feeding.batch_size} and "
                f"feeding.remainder is {self._feeding.remainder}; add images, lower "
                "feeding.batch_size or first_step, or keep the remainder."
            )

    def _refuse_none(self, batches: tf.data.Dataset, first_step: tf.Tensor) -> tf.data.Dataset:
        """Raises UserError if there is no batch: endless empty epochs would never end."""

        def refuse(step: np.ndarray) -> list[np.int64]:
            raise UserError(
                f"an epoch must have a batch at first_step={step}, but {self._name_paths()} end "
                f"before it, in batches of {self._feeding.batch_size}; go on with first_step=0 of "
                "the next first_epoch."
            )

        def count(before: tf.Tensor, batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            (counted,) = tf.cond(
                (tf.size(batch) == 0) & (before == 0),
                lambda: call_python(refuse, [first_step], [tf.int64]),
                lambda: [before + 1],
            )
            return tf.ensure_shape(counted, []), batch

        end = tf.data.Dataset.from_tensors(tf.zeros([0], tf.string))
        counted = batches.concatenate(end).scan(tf.constant(0, tf.int64), count)
        return counted.filter(lambda batch: tf.size(batch) > 0)

    def _name_paths(self) -> str:
        return f"{self.paths[0]} and {len(self.paths) - 1} more files"

    def read_serialized(self, epoch: tf.Tensor) -> tf.data.Dataset:
        """The serialized records (string scalars) of one epoch (int64 scalar), in its order."""
        # Sets the seed of this function's graph only: otherwise the order would also depend on
        # `tf.random.set_seed`, which anyone may call. (A 0 here makes TensorFlow compare tensors.)
        tf.compat.v1.set_random_seed(1)
        # A different order of shards every epoch, so that the window below gets other neighbours.
        shuffle = tf.random.experimental.stateless_shuffle
        order = shuffle(self.paths, [self._seed, epoch]) if self._training else self.paths
        # Several shards at once mix well and hide the delay of a remote store; `deterministic`
        # takes turns strictly, so a slow shard delays the order but never changes it.
        at_once = min(self._feeding.files_at_once, len(self.paths))
        records = tf.data.Dataset.from_tensor_slices(order).interleave(
            find_reader(self.paths),
            cycle_length=at_once,
            num_parallel_calls=at_once,
            deterministic=True,
        )
        if not self._training:
            return records
        # Encoded records are shuffled, not images: a window of 10,000 takes megabytes.
        seeds = [self._seed, epoch]
        order_seed = tf.random.stateless_uniform([], seeds, 0, 2**31 - 1, tf.int64)
        return records.shuffle(
            self._feeding.shuffle_records, seed=order_seed, reshuffle_each_iteration=False
        )

    def make_images(self, drawn: parse.Tensors, windows: tf.Tensor | None) -> parse.Tensors:
        """Decodes, crops and resizes a batch's images (and masks).

        Args:
          drawn: what `draw_batch` gives, or a part of it.
          windows: int32 [batch, 4], each image's crop; None for the deterministic view.

        Returns:
          `drawn` with "image" and, if there are masks, `record.MASK`, as `BatchReader.read`.
        """
        keys = ["image", *([record.MASK] if self._has_masks else [])]
        encoded = [drawn[key] for key in (*_ENCODED_KEYS, *keys[1:])]
        windows = tf.zeros([0, 4], tf.int32) if windows is None else windows
        dtypes = [tf.as_dtype(self._view.dtype), tf.uint8]
        made = call_python(self.decode_images, [windows, *encoded], dtypes[: len(keys)])
        return drawn | dict(zip(keys, made, strict=True))

    def decode_images(self, windows: np.ndarray, *encoded: np.ndarray) -> list[np.ndarray]:
        """The images (and masks) of a batch, whose columns of `_ENCODED_KEYS` are each [batch]."""
        count = len(encoded[0])
        masks = [self._maker.empty_masks(count)] if self._has_masks else []

        def fill(number: int, out: np.ndarray) -> None:
            features = {
                k: column[number] for k, column in zip(_ENCODED_KEYS, encoded, strict=False)
            }
            window = windows[number] if len(windows) else None
            try:
                image = fetch(take_image(features))
                view_image(image, window, self._view, out)
                if masks:
                    mask = decode_mask(encoded[-1][number], (image.height, image.width))
                    view_mask(mask, window, self._view, masks[0][number])
            except ValueError as error:
                raise bad_streamed_record(features[record.SOURCE_ID], error) from error

        return [self._maker.make(fill, count), *masks]

    def count(self) -> int:
        """The number of records in an epoch, by reading all of them."""
        return count_records(self.paths)

    def hold_decoded(self, others: list[Stage]) -> list[Stage]:
        """Nothing is held: an epoch's records are not known before they are read."""
        del others
        return []

    def plan_memory(self, use: Use) -> list[Stage]:
        """What reading batches of this view holds in memory, from the first 100 records' size."""
        sizes = self._first_sizes
        mean = sum(sizes) // max(len(sizes), 1)
        shards = len(self.paths)
        ahead_bytes = bytes_ahead(self.paths)
        return plan_streaming(self._feeding, self._view, mean, shards, use, ahead_bytes)

    @functools.cached_property
    def _first_sizes(self) -> list[int]:
        """The sizes of the first shard's first 100 records; checks the first one."""
        read = find_reader(self.paths)
        first = list(read(tf.constant(self.paths[0])).take(100).as_numpy_iterator())
        if first:
            self._check_features(first[0])
        return [len(serialized) for serialized in first]

    def _check_features(self, serialized: bytes) -> None:
        """Checks that the first record, perhaps a foreign one, has all features that are parsed."""
        try:
            found = tf.train.Example.FromString(serialized).features.feature
        except DecodeError as error:
            raise UserError(
                f"each record must be a tf.train.Example, but record 0 of {self.paths[0]} is not "
                f"one ({error}); docs/migrating.md turns other records into files for ingest."
            ) from error
        needed = [column.key for column in self._parsed if not column.is_list]
        missing = [key for key in needed if key not in found]
        if missing:
            raise UserError(
                f"the records of {self.paths[0]} must have the features {', '.join(missing)}; "
                "docs/migrating.md turns other records into files for ingest."
            )
        stored_as = found[record.FORMAT].bytes_list.value[:1]
        check_type(record.RAW_FORMATS.get(b"".join(stored_as), "uint8"), self._view, self.paths[0])
        if refers(serialized):
            check_file(take_parsed_image(found))
