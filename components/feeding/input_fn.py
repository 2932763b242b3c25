"""From shards to batches: the whole input pipeline, read top to bottom."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.finishing import finish, keep_ready
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Again, Mode, Passes
from image_pipeline.components.feeding.records import open_records
from image_pipeline.components.feeding.shard_files import match_files
from image_pipeline.components.feeding.stages import Stages
from image_pipeline.components.order import batches
from image_pipeline.components.views.options import ViewOptions


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
    again: Again = "next",
) -> tf.data.Dataset:
    """Reads shards into batches: a pure function of the arguments, and of the iteration's number.

    (With `feeding.data_service` their records are; their order is that of arrival.)

    Iterated again, as by Keras's `fit` for each of its epochs, a data set for training gives the
    next epochs: iteration k, from 0, begins with epoch `first_epoch + k * epochs` (or, if they are
    without end, `first_epoch + k * 2**32`). An iteration counts from its first batch on, even if it
    is left there. With a `first_step` there is one iteration only, as all others would be longer.
    Evaluation is the same each time.

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
      again: what iterating the data set of training again gives: the "next" epochs, or the "same".

    Returns:
      Pairs of images [batch, height, width, channels] (or as `feeding.layout` says), of
      `feeding.dtype`, and int64 [batch], class ids (-1 for a class that the graph does not know).
      If the steps mix images, labels are float32 [batch, classes], each class's share. Without a
      graph, uint8 images and string class names. Its `cardinality` is known by the index, unless
      bad records are skipped in evaluation.

    Raises:
      UserError: if a pattern matches no file, an option does not fit the data set, or an epoch has
        no batch, or none at `first_step`.
      tf.errors.OpError: while it is iterated, around what is found only then: a damaged record, or
        that streamed files end before `first_step`.
    """
    if transform_graph_dir is None:
        graph = None
        feeding = feeding.model_copy(update={"dtype": "uint8"})  # nothing turns them into floats
    else:
        graph = TransformGraph(transform_graph_dir)
    passes = Passes(
        mode=mode,
        seed=seed,
        epochs=epochs,
        first_epoch=first_epoch,
        first_step=first_step,
        worker=worker,
        workers=workers,
        again=again,
    )
    columns = () if graph is None else graph.columns
    stages = Stages(match_files(files), view, feeding, passes, columns)
    # Draw which records, in which order; read and decode them; crop and resize: uint8 batches.
    images = stages.read()
    # Take the random steps; apply the transform graph.
    finished = finish(images, graph, feeding, view, passes.training)
    # The next batch is made while the model works on this one.
    return keep_ready(finished, feeding.prefetch_batches)


def read_views(
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
      Dicts keyed as the transform graph's inputs are: "image" uint8 [batch, height, width,
      channels], "label" string [batch], and each further column [batch] under its feature key.

    Raises:
      UserError: if a pattern matches no file.
    """
    # Whole shards in their own order: nothing that an index would be needed for.
    feeding = FeedingOptions(batch_size=batch_size, source="streaming", augment=(), dtype="uint8")
    passes = Passes(mode="eval")
    stages = Stages(match_files(files), view, feeding, passes, columns, keep, "analysis")
    return stages.read().prefetch(feeding.prefetch_batches)


def steps_per_epoch(files: Sequence[str], feeding: FeedingOptions, mode: Mode) -> int:
    """Counts the batches of one epoch: from the index, or by reading all records once.

    Raises:
      UserError: if there are none.
    """
    training = mode == "train"
    # Nothing is viewed, so any view will do.
    records = open_records(match_files(files), feeding, ViewOptions(), training, seed=0)
    count, remainder = records.count(), feeding.remainder if training else "keep"
    if count < (feeding.batch_size if remainder == "drop" else 1):
        raise UserError(
            f"an epoch must have a batch of records, but {list(files)} hold {count} and "
            f"feeding.batch_size is {feeding.batch_size}; add images, or lower feeding.batch_size."
        )
    return batches.steps_per_epoch(count, feeding.batch_size, remainder)
