"""From batches of images to what the model gets: random steps, transform graph, type and layout.

XLA compiles each step, and the transform graph's pixels: TensorFlow's own kernels would take ten
times as long, each of them reading and writing the whole batch.
"""

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.augment import apply, geometry, mix
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.options import FlipHorizontal, UserStep
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.budget import batches_in_work
from image_pipeline.components.feeding.found_columns import name_length
from image_pipeline.components.feeding.graph import TransformGraph, compile_or_keep, once
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.reader import KEY, MIRRORED
from image_pipeline.components.feeding.rules import FEEDING
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.labels.kinds import CLASSES
from image_pipeline.components.rules import check
from image_pipeline.components.threads import usable_cores
from image_pipeline.components.views.options import ViewOptions

# Of a batch, its keys (uint64 [batch]) and what is mirrored (bool [batch]).
Augment = Callable[[Batch, tf.Tensor, tf.Tensor], Batch]
Pixels = Callable[[tf.Tensor], tf.Tensor]


def make_augment(feeding: FeedingOptions, view: ViewOptions, kind: LabelKind = CLASSES) -> Augment:
    """The random steps of the options, except the crop that is made while decoding."""
    mirrors = feeding.many_views.mirror
    steps = [
        # Each crop then comes with its mirror image, which a random flip would undo. The flip keeps
        # its place in the list, by which later steps are seeded.
        FlipHorizontal(probability=0) if mirrors and isinstance(step, FlipHorizontal) else step
        for step in feeding.steps
    ]
    # Each step by itself: if fused with the next one, XLA would recompute it for each of its uses,
    # and take up to five times as long. A user's own may depend on anything: it has no key.
    functions = [
        _compile_step(
            function,
            None if isinstance(step, UserStep) else (step.model_dump_json(), place),
            *(feeding, view, tf.uint64, kind),
        )
        for place, step, function in apply.step_functions(steps)
    ]
    mirror = None
    if mirrors:
        mirror = _compile_step(geometry.mirror, "mirror", feeding, view, tf.bool, kind)

    def augment(batch: Batch, keys: tf.Tensor, mirrored: tf.Tensor) -> Batch:
        for function in functions:
            batch = function(batch, keys)
        return batch if mirror is None else mirror(batch, mirrored)

    return augment


def finish(
    images: tf.data.Dataset,
    graph: TransformGraph | None,
    feeding: FeedingOptions,
    view: ViewOptions,
    training: bool,
    kind: LabelKind = CLASSES,
    at_once: int | None = None,
    names: Sequence[str] | None = None,
) -> tf.data.Dataset:
    """Turns what `ImageBatches.read` gives into what `input_fn` gives, so many batches at once.

    The other arguments are those of `make_finish`.
    """
    count = at_once or batches_in_work()
    function = make_finish(graph, feeding, view, training, kind, names)
    return images.map(function, num_parallel_calls=count, deterministic=True)


def keep_ready(batches: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """Keeps this many batches ready, with one thread per core, and one per op.

    The batches are made in parallel; ops that split their work again would only wait for each
    other. Nothing is tuned while batches are read: the end of an iteration would often wait for
    TensorFlow's tuner, which sleeps twice as long each time (`docs/why-prefetch.md`).
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = usable_cores()
    options.threading.max_intra_op_parallelism = 1
    return batches.prefetch(count).with_options(options)


def make_finish(
    graph: TransformGraph | None,
    feeding: FeedingOptions,
    view: ViewOptions,
    training: bool,
    kind: LabelKind = CLASSES,
    names: Sequence[str] | None = None,
) -> Callable[[Mapping[str, tf.Tensor]], tuple[Any, Any]]:
    """Makes the function that ends the input pipeline.

    Args:
      graph: the transform graph; None to leave pixels as they are, and labels names.
      feeding: the random steps, type and layout.
      view: the images' size.
      training: whether random steps are taken.
      kind: of the labels.
      names: of all classes that occur, where they are known.

    Returns:
      A function of a batch as `ImageBatches.read` gives it to images and labels, see `input_fn`.

    Raises:
      UserError: if labels are to be mixed or one-hot, but no graph numbers them; or masks or
        boxes.
    """
    known = {"view": view, "steps": feeding.steps} if training else {}
    check(FEEDING, labels=kind, feeding=feeding, has_graph=graph is not None, **known)
    if training:
        apply.check_user_steps(feeding.steps, next(iter(kind.moves), None))
    augment = make_augment(feeding, view, kind) if training else _take_as_they_are
    pixels = _make_pixels(graph, feeding, view)
    number = None if graph is None or kind.moves else graph.number_labels(names)

    def finish_batch(batch: Mapping[str, tf.Tensor]) -> tuple[Any, Any]:
        views = augment(take_views(batch, kind), batch.get(KEY), batch.get(MIRRORED))
        fed = pixels(views.images)
        if feeding.columns:
            lengths = (name for name in map(name_length, feeding.columns) if name in batch)
            columns = {key: batch[key] for key in (*feeding.columns, *lengths)}
            fed = {contract.IMAGE_INPUT: fed} | columns
        return fed, make_labels(batch, views, graph, feeding, kind, number)

    return finish_batch


def take_views(batch: Mapping[str, tf.Tensor], kind: LabelKind) -> Batch:
    """The images of a batch, and what moves with them."""
    moving = {field: batch[key] for field, key in kind.moves.items()}
    return Batch(batch[contract.IMAGE_INPUT], **moving)


def _make_pixels(
    graph: TransformGraph | None, feeding: FeedingOptions, view: ViewOptions
) -> Pixels:
    """From the view's pixels to the model's, in its type and layout."""
    if graph is not None and feeding.dtype == "uint8" and view.dtype != "uint8":
        raise UserError(
            f"feeding.dtype=uint8 gives pixels as they are stored, but view.dtype={view.dtype}; "
            "set feeding.dtype=float32, or read without a transform graph."
        )
    if graph is None or feeding.dtype == "uint8":
        return functools.partial(_lay_out, layout=feeding.layout)
    compiled = graph.compile_pixels() if feeding.compiled else None
    normalise = compiled or graph.transform_images

    def pixels(images: tf.Tensor) -> tf.Tensor:
        return _lay_out(tf.cast(normalise(images), feeding.dtype), feeding.layout)

    if compiled is None:
        return pixels
    key = ("pixels", compiled, feeding.dtype, feeding.layout)
    return once(key, lambda: tf.function(pixels, jit_compile=True, autograph=False))


def _lay_out(images: tf.Tensor, layout: str) -> tf.Tensor:
    return tf.transpose(images, [0, 3, 1, 2]) if layout == "NCHW" else images


def _take_as_they_are(batch: Batch, keys: tf.Tensor | None, mirrored: tf.Tensor | None) -> Batch:
    del keys, mirrored
    return batch


def _compile_step(
    function: apply.StepFunction,
    key: Hashable,
    feeding: FeedingOptions,
    view: ViewOptions,
    second: tf.DType,
    kind: LabelKind,
) -> apply.StepFunction:
    """The step, compiled if so configured; its second argument has the type `second` [batch]."""
    if not feeding.compiled:
        return function
    shape, shapes = (3, view.height_px, view.width_px, view.channels), kind.shapes(view, 2)
    moving = {
        field: tf.zeros([3, *shapes[key]], tf.uint8 if field == "masks" else tf.float32)
        for field, key in kind.moves.items()
    }
    example = Batch(tf.zeros(shape, view.dtype), **moving)

    def compile_step() -> apply.StepFunction:
        return compile_or_keep(
            function,
            (example, tf.zeros([3], second)),
            "A random step is not compiled, and may take ten times as long; leave it out, or set "
            "feeding.compiled=false.",
        )

    return (
        compile_step()
        if key is None
        else once(("step", key, shape, view.dtype, kind.name), compile_step)
    )


def make_labels(
    batch: Mapping[str, tf.Tensor],
    views: Batch,
    graph: TransformGraph | None,
    feeding: FeedingOptions,
    kind: LabelKind,
    number: Callable[[Mapping[str, tf.Tensor]], tf.Tensor] | None = None,
) -> Any:
    """Makes what a model is to answer for a batch: classes, tags, values, masks or boxes.

    Args:
      batch: as `ImageBatches.read` gives it.
      views: what the random steps have made of it.
      graph: the transform graph; None to leave labels as records have them.
      feeding: which steps were taken, and which boxes count.
      kind: of the labels.
      number: `TransformGraph.number_labels`; None to ask the whole graph.

    Returns:
      See `input_fn`.
    """
    if graph is None or kind.moves:
        return kind.truth(batch, views, feeding.min_visible)
    count = batch[contract.LABEL_INPUT].shape[0]  # None where batches differ in size
    # Of the whole graph only the label is used, so TensorFlow prunes its pixels away.
    labels = graph(batch)[1] if number is None else number(batch)
    labels = tf.ensure_shape(labels, [count, *labels.shape[1:]])
    if not feeding.gives_shares:
        return labels
    own_share = views.own_share
    own_share = tf.ones(tf.shape(labels)[:1], tf.float32) if own_share is None else own_share
    if graph.label is not None:
        return mix.mix_rows(labels, own_share)
    return mix.mix_labels(labels, own_share, len(graph.class_names))
