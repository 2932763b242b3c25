"""From shards to batches: the whole input pipeline, read top to bottom."""

import logging
import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.dataset import record
from image_pipeline.components.feeding import budget
from image_pipeline.components.feeding.analysis import read_vocabulary
from image_pipeline.components.feeding.finishing import finish, keep_ready
from image_pipeline.components.feeding.found_columns import (
    Manifests,
    find_columns,
    find_most_boxes,
    name_length,
)
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.graph_fits import check_fits, check_view
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.parse import Tensors, parse_batch
from image_pipeline.components.feeding.passes import Again, Mode, Passes
from image_pipeline.components.feeding.python_calls import call_python
from image_pipeline.components.feeding.reader import (
    CLASS,
    KEY,
    MIRRORED,
    ROW,
    SERIALIZED,
    WINDOW,
)
from image_pipeline.components.feeding.records import (
    find_label_kind,
    match_files,
    open_records,
    read_manifests,
)
from image_pipeline.components.feeding.rules import check_pixels
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.labels.kinds import BOXES, CLASSES, find_kind
from image_pipeline.components.views.options import ViewOptions

_LOG = logging.getLogger(__name__)
_PLAIN_VIEWS = (
    "feeding.augment names no random steps: training sees the views of evaluation, shuffled. "
    'augment=["random_resized_crop", "flip_horizontal"] would crop and mirror them at random.'
)


# All here is ops already. AutoGraph would translate each function first, which took more than half
# of the time to the first batch.
@tf.autograph.experimental.do_not_convert
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

    Iterated again, as by Keras's `fit` for each of its epochs, a data set for training gives the
    next epochs: iteration k, from 0, begins with epoch `first_epoch + k * epochs` (or, if they are
    without end, `first_epoch + k * 2**32`). An iteration counts from its first batch on, even if it
    is left there. With a `first_step` there is one iteration only, as all others would be longer.
    Evaluation is the same each time.

    Every epoch has every record exactly once (unless `feeding` balances classes, asks for many
    views, drops or pads the remainder, or skips bad records), in batches that never reach into the
    next epoch, so `steps_per_epoch` batches are one epoch. "train" shuffles and takes the random
    steps of `feeding.augment`, "eval" does neither. Nothing is random that is not named: by default
    training sees the views of evaluation; `["random_resized_crop", "flip_horizontal"]` crops and
    mirrors them.

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
      If the steps mix images, or `feeding.labels` is one_hot, labels are float32 [batch, classes],
      each class's share. Tags are float32 [batch, tags] of 0 and 1, values float32 [batch]. Where
      images have masks, these are the labels: int32 [batch, height, width], the pixels' class ids,
      255 for none. Where they have boxes, labels are a dictionary, see `boxes.finish_boxes`:
      `boxes` float32 [batch, most boxes, 4], top, left, bottom and right as shares of the view;
      `labels` int32 [batch, most boxes], -1 where there is no box; `count` int32 [batch], how many
      there are: they come first. Without a graph, images of `view.dtype` and string class names (or
      tags, a line each; masks; boxes). The data set's `cardinality` is known, unless bad records
      are skipped in evaluation; its attribute `class_names` has the names in the order
      of the ids, or is None.

    Raises:
      UserError: if a pattern matches no file, an option or the transform graph does not fit the
        data set, the graph is damaged, or an epoch has no batch, or none at `first_step`.
      tf.errors.OpError: while it is iterated, around what is found only then: a damaged record.
    """
    if transform_graph_dir is None:
        graph = None
        feeding = feeding.model_copy(update={"dtype": "uint8"})  # nothing turns them into floats
    else:
        graph = TransformGraph(transform_graph_dir)
        check_view(graph, view)
    manifests = read_manifests(files)
    if graph is not None:
        paths = match_files(files)
        check_fits(graph.folder, graph.analysis, graph, manifests, paths, feeding, mode)
    if mode == "train" and feeding.augment is None:
        _LOG.info(_PLAIN_VIEWS)
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
    kind = find_label_kind(files)
    columns = find_columns(manifests, kind, feeding, () if graph is None else graph.columns)
    # Draw which records, in which order; read and decode them; crop and resize: uint8 batches.
    images = ImageBatches(files, view, feeding, passes, columns)
    # Take the random steps; apply the transform graph.
    names = images.class_names
    finished = finish(images.read(), graph, feeding, view, passes.training, kind, names=names)
    # The next batch is made while the model works on this one.
    batches = keep_ready(finished, feeding.prefetch_batches)
    # As Keras's data sets have them; and what `SyncEpochs` asks for.
    batches.class_names = _name_classes(manifests, kind, graph, names)
    batches.passes = passes
    return batches


def _name_classes(
    manifests: Manifests,
    kind: LabelKind,
    graph: TransformGraph | None,
    names: Sequence[str] | None,
) -> list[str] | None:
    """The names of the ids, or of all labels without a graph; None if there are none, or unknown.

    `names` are those of the classes that occur.
    """
    if kind.moves:
        manifest = next(iter(manifests.values()), None)
        return None if manifest is None else list(kind.class_names(manifest))
    named = [name for name in names or () if name]  # "" is that of images of no class
    if kind is CLASSES and names is not None and not named:
        return None
    return named or None if graph is None else read_vocabulary(graph.folder)


def steps_per_epoch(files: Sequence[str], feeding: FeedingOptions, mode: Mode) -> int:
    """Counts the batches of one epoch.

    Raises:
      UserError: if there are none.
    """
    return open_records(files, None, feeding, Passes(mode=mode)).steps


def list_batches(passes: Passes, steps: int) -> tf.data.Dataset:
    """The pairs of epoch and step, int64 scalars, of batches of which an epoch has so many."""

    def list_steps(epoch: tf.Tensor) -> tf.data.Dataset:
        numbers = tf.data.Dataset.range(passes.first_step_of(epoch), steps)
        return tf.data.Dataset.zip(tf.data.Dataset.from_tensors(epoch).repeat(), numbers)

    if passes.epochs == 1 and not passes.goes_on:
        # TensorFlow would optimise the function of `flat_map` whenever an iteration begins.
        return list_steps(tf.constant(passes.first_epoch, tf.int64))
    return passes.count_epochs().flat_map(list_steps)


class ImageBatches:
    """The stages up to the images: which records, and their pixels in the model's size.

    Each stage is a data set made of the one before it, over all epochs: the first batches of an
    epoch are made beside the last of the one before. The epoch's number travels with what is drawn,
    so that all functions are traced once for all epochs.
    """

    def __init__(
        self,
        files: Sequence[str],
        view: ViewOptions,
        feeding: FeedingOptions,
        passes: Passes,
        columns: Sequence[record.Column] = (),
        rows: np.ndarray | None = None,
    ):
        """Opens the records, and checks what they will hold in memory.

        With `rows` (int64 [n], of the index), each epoch has just these, in their order.

        Raises:
          UserError: if an option or the workers do not fit, or the memory is too small.
        """
        manifests = read_manifests(files)
        check_pixels(manifests, view)
        self._view, self._feeding, self._passes = view, feeding, passes
        self._columns = tuple(columns)
        self._kind = find_kind(columns)
        self._most_boxes = find_most_boxes(manifests) if self._kind is BOXES else None
        self._batch_size = passes.share_of_batch(feeding)
        self._records = open_records(files, view, feeding, passes, columns, rows)
        self._records.check_step(passes.first_step)
        held = self._records.plan_memory(passes.mode)
        held += self._records.hold_decoded(held)
        _LOG.info(budget.check_budget(held, feeding, passes.mode))

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes that occur, by the index."""
        return self._records.index.classes

    @tf.autograph.experimental.do_not_convert
    def read(self) -> tf.data.Dataset:
        """Runs all stages up to the images.

        Returns:
          Dicts of "image" `view.dtype` [batch, height, width, channels], "label" string [batch],
          each column [batch] under its feature key, and in training `KEY` uint64 [batch] and
          `MIRRORED` bool [batch]. `record.MASK_COLUMN` is read as uint8 [batch, height, width, 1],
          class ids; the columns of boxes as `boxes.place_boxes` gives them.
        """
        passes, feeding = self._passes, self._feeding
        numbers = list_batches(passes, self._records.steps)
        if self._records.in_store:
            # Asked for so many batches before they are needed, as the order is known.
            numbers = numbers.map(self._announce).prefetch(feeding.ahead_batches)
        # One batch is made, by all cores, while the one before it is passed on.
        images = numbers.map(self._read_batch, num_parallel_calls=2, deterministic=True)
        may_be_empty = not passes.training and feeding.bad_records == "skip"
        if may_be_empty:
            images = images.filter(lambda batch: tf.size(batch[contract.LABEL_INPUT]) > 0)
        number = passes.count_batches(None if may_be_empty else self._records.steps)
        if number == tf.data.UNKNOWN_CARDINALITY:
            return images
        return images.apply(tf.data.experimental.assert_cardinality(number))

    def _announce(self, epoch: tf.Tensor, step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        reader = self._records

        def announce(epoch: np.int64, step: np.int64) -> list[np.int64]:
            reader.announce(int(epoch), int(step))
            return [step]

        (step,) = call_python(announce, [epoch, step], [tf.int64])
        return epoch, tf.ensure_shape(step, [])

    def _read_batch(self, epoch: tf.Tensor, step: tf.Tensor) -> Tensors:
        """What `BatchReader.read` gives, as tensors, with the labels and columns of its records."""
        reader, training = self._records, self._passes.training
        further = [c for c in self._columns if c != record.MASK_COLUMN]
        dtypes = {"image": tf.as_dtype(self._view.dtype)}
        dtypes |= dict.fromkeys((ROW, CLASS, "height", "width"), tf.int64)
        dtypes |= {KEY: tf.uint64, MIRRORED: tf.bool} if training else {}
        dtypes |= {WINDOW: tf.int32} if training and self._feeding.crop is not None else {}
        dtypes |= {record.MASK: tf.uint8} if record.MASK_COLUMN in self._columns else {}
        dtypes |= {SERIALIZED: tf.string} if further else {}

        def read(epoch: np.int64, step: np.int64) -> list[np.ndarray]:
            made = reader.read(int(epoch), int(step))
            return [made[name] for name in dtypes]

        values = call_python(read, [epoch, step], list(dtypes.values()))
        batch = dict(zip(dtypes, values, strict=True))
        for name in {*batch} - {"image", record.MASK, WINDOW}:
            batch[name].set_shape([None])
        names = [os.fsencode(name) for name in reader.index.classes]
        batch[contract.LABEL_INPUT] = tf.gather(tf.constant(names), batch[CLASS])
        if further:
            batch |= parse_batch(batch[SERIALIZED], further)
        placed = self._kind.place(batch, batch.get(WINDOW), self._view, self._most_boxes)
        return self._select({**batch, **placed})

    def _select(self, batch: Tensors) -> Tensors:
        """The parts of a batch that `read` returns, with the known shapes."""
        view = self._view
        of_labels = self._kind.shapes(view, self._most_boxes)
        size = of_labels | {contract.IMAGE_INPUT: [view.height_px, view.width_px, view.channels]}
        is_static = self._passes.training and self._feeding.remainder != "keep"
        count = self._batch_size if is_static else None
        own = (KEY, MIRRORED) if self._passes.training else ()
        columns = [c for c in self._columns if c not in self._kind.columns]
        lists = [c.key for c in columns if c.is_list and c.key != record.TAGS]
        size |= {key: [None] for key in lists}
        further = (*own, *(column.key for column in columns), *map(name_length, lists))
        names = (contract.IMAGE_INPUT, contract.LABEL_INPUT, *further, *of_labels)
        return {name: tf.ensure_shape(batch[name], [count, *size.get(name, [])]) for name in names}
