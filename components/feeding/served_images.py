"""Images made one by one, with TensorFlow's ops only: these run on a data service's workers.

Everywhere else `batch_maker` makes whole batches, in half of the time. The deterministic view is
the same in both; pixels of random crops may differ by one level, as OpenCV resizes in whole
numbers.
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.dataset import record
from image_pipeline.components.feeding import parse, service
from image_pipeline.components.feeding.keys import KeyMaker
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.reader import KEY, MIRRORED, BatchReader
from image_pipeline.components.feeding.streaming import StreamedRecords
from image_pipeline.components.labels.kinds import MASKS, find_kind
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.options import ViewOptions

# A block that has all of an image's colours, at half the resolution.
_MARGIN_PX = 16


class ServedImages:
    """Training's images, from the workers of a tf.data service; see `service`."""

    def __init__(
        self,
        records: BatchReader | StreamedRecords,
        keys: KeyMaker,
        view: ViewOptions,
        feeding: FeedingOptions,
        passes: Passes,
        columns: Sequence[record.Column],
        most_boxes: int | None = None,
    ):
        """Does not read yet; `columns` are further ones, with boxes `most_boxes` is known."""
        assert isinstance(records, StreamedRecords)  # ensured by the options
        self._records, self._keys = records, keys
        self._view, self._feeding, self._passes = view, feeding, passes
        self._most_boxes = most_boxes
        self._kind = find_kind(columns)
        names = [column.key for column in columns if column not in self._kind.columns]
        names += self._kind.shapes(view, most_boxes)
        self._names = (contract.LABEL_INPUT, KEY, MIRRORED, *names)

    def read(self, address: str) -> tf.data.Dataset:
        """Batches as `ImageBatches.read` gives them, from the service whose dispatcher is there.

        Raises:
          UserError: if there is no such service, or it has no worker.
        """
        size = self._passes.share_of_batch(self._feeding)
        is_static = self._feeding.remainder != "keep"
        serve = service.serve(address, self._read_share, size)
        return self._passes.count_epochs().flat_map(
            lambda epoch: serve(epoch).batch(size, drop_remainder=is_static)
        )

    def _read_share(self, epoch: tf.Tensor, share: service.Share) -> tf.data.Dataset:
        """The records that one worker of the service reads and decodes."""
        size, (number, shares) = self._feeding.batch_size, share
        records = self._records.read_serialized(epoch)
        batches = records.skip(self._passes.first_step_of(epoch) * size).batch(
            size, drop_remainder=self._feeding.remainder == "drop"
        )
        own = batches.map(self._take_share).unbatch().shard(shares, number)
        return own.map(
            lambda one: self._make_image(one, epoch),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )

    def _take_share(self, batch: tf.Tensor) -> tf.Tensor:
        start, stop = self._passes.cut_share(tf.size(batch), self._feeding)
        return batch[start:stop]

    def _make_image(self, serialized: tf.Tensor, epoch: tf.Tensor) -> parse.Tensors:
        drawn, windows = self._keys.add(self._records.draw_batch(epoch, serialized[None]), epoch)
        drawn |= self._kind.place(drawn, windows, self._view, self._most_boxes)
        features = {name: values[0] for name, values in drawn.items()}
        window = None if windows is None else windows[0]
        image = make_image(features, window, self._view)
        if self._kind is MASKS:
            features[record.MASK] = make_mask(features, window, self._view)
        return {contract.IMAGE_INPUT: image, **{name: features[name] for name in self._names}}


def make_image(
    features: Mapping[str, tf.Tensor], window: tf.Tensor | None, view: ViewOptions
) -> tf.Tensor:
    """Makes a record's image.

    Args:
      features: scalars of one parsed record, at least those of `parse.IMAGE_COLUMNS`.
      window: int32 [4], the crop that is resized; None for the deterministic view.
      view: the model's input size.

    Returns:
      `view.dtype` [view.height_px, view.width_px, view.channels].
    """
    if window is None:
        return views.eval_view(parse.decode_record(features, view), view)
    cropped = decode_window(features, window, view)
    size = tf.constant([view.height_px, view.width_px])
    resized = views.resize(cropped, size)
    return tf.ensure_shape(resized, [view.height_px, view.width_px, view.channels])


def make_mask(
    features: Mapping[str, tf.Tensor], window: tf.Tensor | None, view: ViewOptions
) -> tf.Tensor:
    """Makes the view of a record's mask: uint8 [height_px, width_px, 1]; as `make_image`."""
    mask = tf.io.decode_png(features[record.MASK], channels=1)
    if window is None:
        return views.eval_mask_view(mask, view)
    size = tf.constant([view.height_px, view.width_px])
    return views.take_nearest(_crop(mask, window), window[2:], size, tf.zeros([2], tf.int32), view)


def decode_window(
    features: Mapping[str, tf.Tensor], window: tf.Tensor, view: ViewOptions
) -> tf.Tensor:
    """Decodes a part of a record's image.

    Args:
      features: scalars of one parsed record, at least those of `parse.IMAGE_COLUMNS`.
      window: int32 [4]: top, left, height and width, in pixels, inside the image.
      view: the model's input.

    Returns:
      `view.dtype` [height, width, channels], the same pixels as decoding everything and then
      cropping.
    """
    encoded, channels = features[record.IMAGE], view.channels
    if view.dtype == "float32" or channels not in (1, 3):
        return _crop(parse.decode_record(features, view), window)
    # Of a JPEG, only the rows and blocks around the window are decoded; other formats cannot do
    # that.
    cropped = tf.cond(
        tf.io.is_jpeg(encoded) & ~parse.is_raw(features),
        lambda: _decode_and_crop(encoded, window, channels),
        lambda: _crop(parse.decode_record(features, view), window),
    )
    return tf.ensure_shape(cropped, [None, None, channels])


def _decode_and_crop(encoded: tf.Tensor, window: tf.Tensor, channels: int) -> tf.Tensor:
    """Decodes a part of a JPEG, with a margin: the border's colours are smoothed with it."""
    corner, size = window[:2], window[2:]
    first = tf.maximum(corner - _MARGIN_PX, 0)
    last = tf.minimum(corner + size + _MARGIN_PX, tf.io.extract_jpeg_shape(encoded)[:2])
    widened = tf.concat([first, last - first], axis=0)
    part = tf.io.decode_and_crop_jpeg(
        encoded, widened, channels=channels, dct_method="INTEGER_ACCURATE"
    )
    return _crop(part, tf.concat([corner - first, size], axis=0))


def _crop(image: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Cuts a window (int32 [4]: top, left, height, width) out of an image."""
    top, left, height, width = tf.unstack(window)
    return image[top : top + height, left : left + width]
