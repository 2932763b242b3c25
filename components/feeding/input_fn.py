"""From shards to batches: the whole input pipeline, read top to bottom."""

import functools
from collections.abc import Callable, Sequence
from typing import Literal

import tensorflow as tf

from components import contract, record, views
from components.errors import UserError
from components.feeding import augment, parse
from components.feeding.graph import TransformGraph
from components.feeding.options import FeedingOptions
from components.view_options import ViewOptions

Mode = Literal["train", "eval"]


def input_fn(
    files: Sequence[str],
    *,
    view: ViewOptions,
    feeding: FeedingOptions,
    transform_graph_dir: str | None,
    mode: Mode,
    seed: int = 0,
    epochs: int | None = 1,
    first_epoch: int = 0,
) -> tf.data.Dataset:
    """Reads shards into batches; the batches are a pure function of the arguments.

    Every epoch has every record exactly once, in batches that never reach into the next epoch, so
    `ceil(records / batch_size)` batches are one epoch. "train" shuffles and makes random views,
    "eval" does neither.

    Args:
      files: TFRecord paths or patterns; those that end in .gz are gunzipped.
      view: the model's input size.
      feeding: batch size, shuffling and augmentation.
      transform_graph_dir: the folder of the transform graph, or None for untransformed batches.
      mode: "train" or "eval".
      seed: decides order and random views, together with the epoch's number.
      epochs: passes over the records; None for passes without end.
      first_epoch: number of the first pass. Training that goes on after n epochs gives n.

    Returns:
      Pairs of float32 [batch, height, width, channels] and int64 [batch], class ids (-1 for a class
      that the graph does not know); without a graph, of uint8 pixels and string class names.

    Raises:
      UserError: if a pattern matches no file.
      ValueError: if the mode is neither "train" nor "eval".
    """
    transform = None if transform_graph_dir is None else TransformGraph(transform_graph_dir)
    batches = read_views(
        files,
        view=view,
        feeding=feeding,
        mode=mode,
        seed=seed,
        epochs=epochs,
        first_epoch=first_epoch,
        columns=() if transform is None else transform.columns,
    )
    if transform is None:
        batches = batches.map(
            lambda inputs: (inputs[contract.IMAGE_INPUT], inputs[contract.LABEL_INPUT])
        )
    else:
        # On whole uint8 batches: as the graph was analysed, and a quarter of float's bytes to copy.
        batches = batches.map(
            transform.transform_views, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )
    # The next batch is made while the model works on this one.
    return batches.prefetch(tf.data.AUTOTUNE)


def read_views(
    files: Sequence[str],
    *,
    view: ViewOptions,
    feeding: FeedingOptions,
    mode: Mode,
    seed: int = 0,
    epochs: int | None = 1,
    first_epoch: int = 0,
    columns: Sequence[str] = (),
    keep: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> tf.data.Dataset:
    """Reads shards into batches of views: everything up to the transform graph.

    Args:
      files: as `input_fn` has them, like all that is not listed here.
      columns: feature keys of further scalar columns to read.
      keep: of a record's id (string scalar), whether the record is read (bool); None for all.

    Returns:
      Dicts keyed as the transform graph's inputs are: "image" uint8 [batch, height, width,
      channels], "label" string [batch], and each further column [batch] under its feature key.

    Raises:
      UserError: if a pattern matches no file.
      ValueError: if the mode is neither "train" nor "eval".
    """
    if mode not in ("train", "eval"):
        raise ValueError(f"mode must be 'train' or 'eval', got {mode!r}.")
    paths = match_files(files)
    training = mode == "train"
    parsed = _columns_to_parse(columns)

    def view_record(serialized: tf.Tensor, epoch: tf.Tensor) -> dict[str, tf.Tensor]:
        features = parse.parse_record(serialized, parsed)
        if training:
            record_seed = augment.record_seed(seed, epoch, features[record.SOURCE_ID])
            image = augment.train_view(features, record_seed, view, feeding.augment)
        else:
            image = views.eval_view(parse.decode_record(features, view.channels), view)
        extra = {key: features[key] for key in columns}
        return {contract.IMAGE_INPUT: image, contract.LABEL_INPUT: features[record.LABEL], **extra}

    def read_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        # Sets the seed of this function's graph only: otherwise the order would also hang on
        # `tf.random.set_seed`, which anyone may call. (A 0 here makes TensorFlow compare tensors.)
        tf.compat.v1.set_random_seed(1)
        # Another order of shards every epoch, so that the window below meets other neighbours.
        shuffle = tf.random.experimental.stateless_shuffle
        order = shuffle(paths, [seed, epoch]) if training else paths
        # Several shards at once mix well and hide the delay of a remote store; `deterministic`
        # takes turns strictly, so a slow shard delays the order but never changes it.
        records = tf.data.Dataset.from_tensor_slices(order).interleave(
            read_shard,
            cycle_length=min(feeding.files_at_once, len(paths)),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        if keep is not None:
            records = records.filter(functools.partial(_keep_by_id, keep))
        if training:
            # Encoded records are shuffled, not images: a window of 10,000 takes megabytes.
            order_seed = tf.random.stateless_uniform([], [seed, epoch], 0, 2**31 - 1, tf.int64)
            records = records.shuffle(
                feeding.shuffle_records, seed=order_seed, reshuffle_each_iteration=False
            )
        # Decoding is where the time goes: all cores, and still in order.
        images = records.map(
            lambda serialized: view_record(serialized, epoch),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        # Inside the epoch, so that the last batch is small instead of half of the next epoch.
        return images.batch(feeding.batch_size, drop_remainder=training and feeding.drop_remainder)

    # The epoch's number reaches every seed, and the functions above are traced once for all epochs.
    return _count_epochs(first_epoch, epochs).flat_map(read_epoch)


def read_eval_views(
    files: Sequence[str],
    view: ViewOptions,
    batch_size: int,
    columns: Sequence[str] = (),
    keep: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> tf.data.Dataset:
    """Reads the deterministic views of records, untransformed: what a transform graph analyses.

    Args:
      files: TFRecord paths or patterns.
      view: the model's input size.
      batch_size: records a batch; the last one may be smaller.
      columns: feature keys of further scalar columns to read.
      keep: of a record's id (string scalar), whether the record is read (bool); None for all.

    Returns:
      Dicts of batches, see `read_views`.

    Raises:
      UserError: if a pattern matches no file.
    """
    feeding = FeedingOptions(batch_size=batch_size)
    batches = read_views(files, view=view, feeding=feeding, mode="eval", columns=columns, keep=keep)
    return batches.prefetch(tf.data.AUTOTUNE)


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


def _keep_by_id(keep: Callable[[tf.Tensor], tf.Tensor], serialized: tf.Tensor) -> tf.Tensor:
    """Asks `keep` about a record without parsing more than its id."""
    return keep(parse.parse_record(serialized, [parse.SOURCE_ID_COLUMN])[record.SOURCE_ID])


def _columns_to_parse(further: Sequence[str]) -> list[record.Column]:
    """What a view needs, and the columns asked for; each once."""
    needed = [*parse.IMAGE_COLUMNS, parse.SOURCE_ID_COLUMN, parse.LABEL_COLUMN]
    return needed + [
        column for column in record.COLUMNS if column.key in further and column not in needed
    ]


def _count_epochs(first_epoch: int, epochs: int | None) -> tf.data.Dataset:
    """The numbers of the epochs: int64 scalars."""
    if epochs is None:
        return tf.data.Dataset.counter(first_epoch)
    return tf.data.Dataset.range(first_epoch, first_epoch + epochs)
