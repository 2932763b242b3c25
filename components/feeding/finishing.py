"""From batches of views to what the model gets: random steps, transform graph, type and layout.

All of it is one function that XLA compiles: TensorFlow's own kernels would take ten times as long,
each of them reading and writing the whole batch.
"""

import logging
from collections.abc import Callable, Mapping

import tensorflow as tf

from components import contract
from components.augment import apply, flip, labels
from components.augment.batch import Batch
from components.augment.options import FlipHorizontal
from components.errors import UserError
from components.feeding.graph import TransformGraph
from components.feeding.options import FeedingOptions
from components.view_options import ViewOptions

# Keys of a batch beside the transform graph's inputs.
KEY, MIRRORED = "key", "mirrored"

_LOG = logging.getLogger(__name__)

# (uint8 images, uint64 keys [batch], bool mirrored [batch]) to (images, each one's own share).
Finish = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor | None]]


def make_augment(feeding: FeedingOptions) -> Finish:
    """The random steps of the options, but for the crop that is made with decoding."""
    mirrors = feeding.many_views.mirror
    steps = [
        # Each view comes with its mirror image then, so chance would only undo that.
        FlipHorizontal(probability=0) if mirrors and isinstance(step, FlipHorizontal) else step
        for step in feeding.augment
    ]

    def augment(
        images: tf.Tensor, keys: tf.Tensor, mirrored: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        batch = apply.apply_steps(Batch(images), keys, steps)
        batch = flip.mirror(batch, mirrored) if mirrors else batch
        return batch.images, batch.own_share

    return augment


def make_finish(
    transform: TransformGraph | None, feeding: FeedingOptions, view: ViewOptions, training: bool
) -> Callable[[Mapping[str, tf.Tensor]], tuple[tf.Tensor, tf.Tensor]]:
    """Makes the function that ends the input pipeline.

    Args:
      transform: the transform graph; None to leave pixels uint8 and labels names.
      feeding: the random steps, type and layout.
      view: the images' size.
      training: whether random steps are taken.

    Returns:
      A function of a batch as `ViewReader` gives it to images and labels, see `input_fn`.

    Raises:
      UserError: if labels are to be mixed, and there is no graph that numbers them.
    """
    if transform is None and feeding.mixes_labels:
        raise UserError(
            "mixup and cutmix need the transform graph, which numbers the classes; give "
            "transform_graph_dir, or leave them out of feeding.augment."
        )
    finish_images = _make_finish_images(transform, feeding, view, training)

    def finish(batch: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        images = batch[contract.IMAGE_INPUT]
        nothing = tf.zeros([0], tf.uint64)
        images, own_share = finish_images(
            images, batch.get(KEY, nothing), batch.get(MIRRORED, tf.cast(nothing, tf.bool))
        )
        if transform is None:
            return images, batch[contract.LABEL_INPUT]
        # Of the whole graph only the label is used, so TensorFlow prunes its pixels away.
        class_ids = transform.transform_views(batch)[1]
        if not feeding.mixes_labels:
            return images, class_ids
        own_share = tf.ones(tf.shape(class_ids), tf.float32) if own_share is None else own_share
        return images, labels.mix_labels(class_ids, own_share, len(transform.class_names))

    return finish


def _make_finish_images(
    transform: TransformGraph | None, feeding: FeedingOptions, view: ViewOptions, training: bool
) -> Finish:
    augment = make_augment(feeding) if training else _take_as_they_are
    pixels, is_compiled = _make_pixels(transform, feeding)
    if feeding.compiled and not is_compiled:
        augment = compile_steps(augment, view)

    def finish_images(
        images: tf.Tensor, keys: tf.Tensor, mirrored: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        images, own_share = augment(images, keys, mirrored)
        return _lay_out(pixels(images), feeding.layout), own_share

    return compile_steps(finish_images, view) if feeding.compiled and is_compiled else finish_images


def _make_pixels(
    transform: TransformGraph | None, feeding: FeedingOptions
) -> tuple[Callable[[tf.Tensor], tf.Tensor], bool]:
    """From uint8 pixels to the model's, and whether XLA compiles that."""
    if transform is None or feeding.dtype == "uint8":
        return tf.identity, True
    compiled = transform.compile_pixels() if feeding.compiled else None
    pixels = compiled or transform.transform_images
    return lambda images: tf.cast(pixels(images), feeding.dtype), compiled is not None


def _take_as_they_are(
    images: tf.Tensor, keys: tf.Tensor, mirrored: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor | None]:
    del keys, mirrored
    return images, None


def _lay_out(images: tf.Tensor, layout: str) -> tf.Tensor:
    return tf.transpose(images, [0, 3, 1, 2]) if layout == "NCHW" else images


def compile_steps(function: Finish, view: ViewOptions) -> Finish:
    """Has XLA compile the function; with a warning not, if it cannot."""
    compiled = tf.function(function, jit_compile=True)
    shape = (2, view.height_px, view.width_px, view.channels)
    try:
        with tf.device("/CPU:0"):  # where tf.data runs it, whatever else the machine has
            compiled(tf.zeros(shape, tf.uint8), tf.zeros([2], tf.uint64), tf.zeros([2], tf.bool))
    except (tf.errors.OpError, NotImplementedError) as error:
        _LOG.warning(
            "The random steps are not compiled (%s): they may take ten times as long; leave out "
            "the step that XLA does not know, or set feeding.compiled=false.",
            str(error).splitlines()[0],
        )
        return function
    return compiled
