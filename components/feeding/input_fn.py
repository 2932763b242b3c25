"""From shards to batches: the whole input pipeline, read top to bottom."""

import logging
from collections.abc import Callable, Sequence
from typing import Literal

import tensorflow as tf

from components import contract, record, views
from components.errors import UserError
from components.feeding import augment, memory, parse, service
from components.feeding.batches import worker_bounds
from components.feeding.graph import TransformGraph
from components.feeding.indexed import IndexedRecords
from components.feeding.options import FeedingOptions
from components.feeding.records import open_records
from components.feeding.streaming import count_records, match_files
from components.view_options import ViewOptions

Mode = Literal["train", "eval"]
_LOG = logging.getLogger(__name__)


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
    first_step: int = 0,
    worker: int = 0,
    workers: int = 1,
) -> tf.data.Dataset:
    """Reads shards into batches; the batches are a pure function of the arguments.

    (With `feeding.data_service` their records are; their order is that of arrival.)

    Every epoch has every record exactly once (unless `feeding` balances classes, asks for many
    views, drops or pads the remainder, or skips bad records), in batches that never reach into the
    next epoch, so `steps_per_epoch` batches are one epoch. "train" shuffles and makes random views,
    "eval" does neither.

    Args:
      files: TFRecord paths or patterns; those that end in .gz are gunzipped.
      view: the model's input size.
      feeding: batch size, order, selection and augmentation.
      transform_graph_dir: the folder of the transform graph, or None for untransformed batches.
      mode: "train" or "eval".
      seed: decides order and random views, together with the epoch's number.
      epochs: passes over the records, the first one from `first_step` on; None for passes without
        end.
      first_epoch: number of the first pass. Training that goes on after n epochs gives n.
      first_step: number of the first pass's first batch. Training that goes on within an epoch
        gives the batches of it that are done; all that follows is as if it had not stopped.
      worker: number of this worker, from 0; `InputContext.input_pipeline_id`.
      workers: how many share each batch; `InputContext.num_input_pipelines`. Together they read
        what one would read, batch by batch. A small last batch may leave some without a record:
        workers that step together need `feeding.remainder` "drop" or "pad".

    Returns:
      Pairs of float32 [batch, height, width, channels] and int64 [batch], class ids (-1 for a class
      that the graph does not know); without a graph, of uint8 pixels and string class names.

    Raises:
      UserError: if a pattern matches no file, or an option does not fit the data set.
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
        first_step=first_step,
        worker=worker,
        workers=workers,
        columns=() if transform is None else transform.columns,
    )
    if transform is None:
        batches = batches.map(
            lambda inputs: (inputs[contract.IMAGE_INPUT], inputs[contract.LABEL_INPUT])
        )
    else:
        # On whole uint8 batches: as the graph was analysed, and a quarter of float's bytes to copy.
        apply = transform.compile() if feeding.compiled else transform.transform_views
        # The memory plan counts two batches in work: AUTOTUNE would hold one a core.
        batches = batches.map(apply, num_parallel_calls=2, deterministic=True)
    # The next batch is made while the model works on this one.
    return batches.prefetch(feeding.prefetch_batches)


def read_views(
    files: Sequence[str],
    *,
    view: ViewOptions,
    feeding: FeedingOptions,
    mode: Mode,
    seed: int = 0,
    epochs: int | None = 1,
    first_epoch: int = 0,
    first_step: int = 0,
    worker: int = 0,
    workers: int = 1,
    columns: Sequence[str] = (),
    keep: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> tf.data.Dataset:
    """Reads shards into batches of views: everything up to the transform graph.

    Args:
      files: as `input_fn` has them, like all that is not listed here.
      columns: feature keys of further scalar columns to read.
      keep: of a record's id (string scalar), whether the record is read (bool); None for all.
        Makes the records stream.

    Returns:
      Dicts keyed as the transform graph's inputs are: "image" uint8 [batch, height, width,
      channels], "label" string [batch], and each further column [batch] under its feature key.

    Raises:
      UserError: if a pattern matches no file, or an option does not fit the data set.
      ValueError: if the mode is neither "train" nor "eval", or the workers do not fit.
    """
    _check_arguments(mode, feeding.batch_size, worker, workers)
    training = mode == "train"
    paths = match_files(files)
    records = open_records(paths, feeding, training, seed, keep)
    stages = records.plan_memory(view)
    if isinstance(records, IndexedRecords) and record.FORMAT not in columns:
        stages += records.hold_decoded(view, stages)
    _LOG.info(memory.check_budget(stages, feeding))
    parsed = parse.columns_to_parse(columns)

    def view_record(drawn: dict[str, tf.Tensor], epoch: tf.Tensor) -> dict[str, tf.Tensor]:
        features = parse.parse_record(drawn["serialized"], parsed)
        if training:
            record_seed = augment.record_seed(
                seed, epoch, features[record.SOURCE_ID], drawn["copy"]
            )
            image = augment.train_view(
                features, record_seed, view, feeding.augment, feeding.many_views, drawn["view"]
            )
        else:
            image = views.eval_view(parse.decode_record(features, view.channels), view)
        extra = {key: features[key] for key in columns}
        return {contract.IMAGE_INPUT: image, contract.LABEL_INPUT: features[record.LABEL], **extra}

    def read_share(epoch: tf.Tensor, share: service.Share = (0, 1)) -> tf.data.Dataset:
        is_first = tf.equal(epoch, first_epoch)
        start = tf.where(is_first, tf.constant(first_step, tf.int64), 0)
        batches = records.read_epoch(epoch, start, is_first)
        if workers > 1:
            batches = batches.map(lambda drawn: _take_share(drawn, worker, workers))
        number, shares = share
        drawn = batches.unbatch().shard(shares, number)
        # Decoding is where the time goes: all cores, and still in order.
        return drawn.map(
            lambda drawn: view_record(drawn, epoch),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )

    batch_size = feeding.batch_size // workers
    read_images: Callable[[tf.Tensor], tf.data.Dataset] = read_share
    if training and feeding.data_service is not None:
        read_images = service.serve(feeding.data_service, read_share, batch_size)

    def read_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        # Inside the epoch, so that the last batch is small instead of half of the next epoch.
        drop = training and feeding.remainder != "keep"
        return read_images(epoch).batch(batch_size, drop_remainder=drop)

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
    # Whole shards in their own order: nothing that an index would be needed for.
    feeding = FeedingOptions(batch_size=batch_size, source="streaming")
    batches = read_views(files, view=view, feeding=feeding, mode="eval", columns=columns, keep=keep)
    return batches.prefetch(tf.data.AUTOTUNE)


def steps_per_epoch(files: Sequence[str], feeding: FeedingOptions, mode: Mode) -> int:
    """Counts the batches of one epoch: from the index, or by reading all records once.

    Raises:
      UserError: if there are none.
    """
    training = mode == "train"
    records = open_records(match_files(files), feeding, training, seed=0)
    if isinstance(records, IndexedRecords):
        count, steps = records.order.length, records.steps
    else:
        count = count_records(files)
        round_up = 0 if training and feeding.remainder == "drop" else feeding.batch_size - 1
        steps = (count + round_up) // feeding.batch_size
    if steps == 0:
        raise UserError(
            f"an epoch must have a batch of records, but {list(files)} hold {count} and "
            f"feeding.batch_size is {feeding.batch_size}; add images, or lower feeding.batch_size."
        )
    return steps


def _take_share(drawn: dict[str, tf.Tensor], worker: int, workers: int) -> dict[str, tf.Tensor]:
    """This worker's part of a batch, as `batches.worker_slice` cuts it."""
    start, stop = worker_bounds(tf.size(drawn["copy"]), worker, workers)
    return {name: values[start:stop] for name, values in drawn.items()}


def _check_arguments(mode: str, batch_size: int, worker: int, workers: int) -> None:
    if mode not in ("train", "eval"):
        raise ValueError(f"mode must be 'train' or 'eval', got {mode!r}.")
    if not 0 <= worker < workers:
        raise ValueError(f"worker must be from 0 to workers - 1, got {worker} of {workers}.")
    if batch_size % workers:
        raise ValueError(
            f"feeding.batch_size must be a multiple of the {workers} workers that share each "
            f"batch, got {batch_size}; set feeding.batch_size."
        )


def _count_epochs(first_epoch: int, epochs: int | None) -> tf.data.Dataset:
    """The numbers of the epochs: int64 scalars."""
    counter = tf.data.Dataset.counter(first_epoch)
    return counter if epochs is None else counter.take(epochs)
