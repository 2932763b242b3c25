"""Models that answer once an image: networks from random weights, and heads for each answer."""

import keras

from image_pipeline.components.models.compiling import compile_model
from image_pipeline.components.models.names import Head
from image_pipeline.components.models.options import TrainingOptions

# Every block halves the image, until its shorter side would be under this many pixels: 32 px images
# pass three blocks, 224 px images five.
SMALLEST_MAP_PX = 4
MOST_BLOCKS = 5
FIRST_FILTERS = 16
MOST_FILTERS = 256
# 20 layers, as in He et al. 2015 (arXiv 1512.03385, section 4.2): on CIFAR-10, 0.27 million weights
# reach an accuracy of 91.25 % there; the wide one is Zagoruyko's and Komodakis's WRN-16-4 (arXiv
# 1605.07146), 2.7 million weights, 94.98 %. Blocks are those of He et al. 2016 (arXiv 1603.05027).
COMPACT, COMPACT_BLOCKS = (16, 32, 64), 3
WIDE, WIDE_BLOCKS = (64, 128, 256), 2
# Of the network for larger images; a block each.
_LARGER = (32, 64, 128, 256)
_LARGE_PX = 96  # from here on, the first convolution is followed by another halving


def build_model(
    input_shape: tuple[int, int, int], num_classes: int, options: TrainingOptions
) -> keras.Model:
    """Builds and compiles the classifier.

    Args:
      input_shape: height, width and channels of the normalised images.
      num_classes: length of the probability vector.
      options: the recipe.

    Returns:
      A model from float32 [batch, height, width, channels] to float32 [batch, num_classes],
      probabilities that sum to 1. Labels may be class ids or, of mixed images, shares of classes;
      records of unknown class (id -1) count neither in the loss nor in the accuracy.
    """
    inputs = keras.Input(input_shape, name="image")
    return add_head("classes", inputs, build_features(inputs), num_classes, options)


def add_head(
    head: Head,
    inputs: keras.KerasTensor,
    features: keras.KerasTensor,
    num_classes: int,
    options: TrainingOptions,
) -> keras.Model:
    """A compiled model of what a network sees in images, [batch, features].

    It gives float32 [batch, num_classes]: probabilities that sum to 1 for classes, one of each for
    tags, numbers for values, of which there is one. Labels are those of the loss: of tags float32
    [batch, num_classes], of values float32 [batch].
    """
    if head == "classes":
        name, activation = "probabilities", "softmax"
        loss, metrics = cross_entropy, [Accuracy()]
    elif head == "tags":
        name, activation = "probabilities", "sigmoid"
        of_each = {"multi_label": True, "num_labels": num_classes}
        ranked = keras.metrics.AUC(curve="PR", name="mean_average_precision", **of_each)
        f1 = keras.metrics.F1Score(average="micro", threshold=0.5, name="f1")
        loss, metrics = binary_cross_entropy, [ranked, f1]
    else:
        name, activation, loss = "value", None, "mean_squared_error"
        errors = keras.metrics.MeanSquaredError, keras.metrics.MeanAbsoluteError
        metrics = [each() for each in errors]
    outputs = keras.layers.Dense(num_classes, activation=activation, name=name, dtype="float32")(
        features
    )
    model = keras.Model(inputs, outputs)
    compile_model(model, loss, metrics, options)
    return model


def build_features(images: keras.KerasTensor) -> keras.KerasTensor:
    """What the network sees in images (float32 [batch, height, width, any]): [batch, features]."""
    outputs = images
    blocks = count_halvings(min(images.shape[1:3]), SMALLEST_MAP_PX, MOST_BLOCKS, least=1)
    for block in range(blocks):
        outputs = convolve_twice(outputs, min(FIRST_FILTERS << block, MOST_FILTERS))
        outputs = keras.layers.MaxPooling2D(padding="same")(outputs)
    return keras.layers.GlobalAveragePooling2D()(outputs)


def see_plainly(images: keras.KerasTensor) -> keras.KerasTensor:
    """Features of small images, [batch, 128], which a few hundred steps teach.

    Each block has one convolution, and nothing is averaged, so where things are is known at once.
    """
    outputs = images
    for block in range(
        count_halvings(min(images.shape[1:3]), SMALLEST_MAP_PX, MOST_BLOCKS, least=1)
    ):
        filters = min(2 * FIRST_FILTERS << block, MOST_FILTERS)
        outputs = keras.layers.Conv2D(filters, 3, padding="same", activation="relu")(outputs)
        outputs = keras.layers.MaxPooling2D(padding="same")(outputs)
    return keras.layers.Dense(128, activation="relu")(keras.layers.Flatten()(outputs))


def see_small(images: keras.KerasTensor, sizes: tuple[int, ...], blocks: int) -> keras.KerasTensor:
    """Features of small images, [batch, last size], of float [batch, height, width, any]."""
    outputs = _convolve(images, 16)
    for level, filters in enumerate(sizes):
        for block in range(blocks):
            outputs = _add_block(outputs, filters, strides=2 if level and not block else 1)
    return keras.layers.GlobalAveragePooling2D()(activate(outputs))


def see_larger(images: keras.KerasTensor) -> keras.KerasTensor:
    """Features of images of about 64 to 224 px, [batch, 256]."""
    outputs = activate(_convolve(images, _LARGER[0], strides=2))
    if min(images.shape[1:3]) >= _LARGE_PX:
        outputs = keras.layers.MaxPooling2D(3, strides=2, padding="same")(outputs)
    for level, filters in enumerate(_LARGER):
        outputs = _add_block(outputs, filters, strides=2 if level else 1)
    return keras.layers.GlobalAveragePooling2D()(activate(outputs))


def _add_block(inputs: keras.KerasTensor, filters: int, strides: int) -> keras.KerasTensor:
    """Two convolutions whose outputs are added to their inputs."""
    active = activate(inputs)
    passed = inputs
    if strides > 1 or inputs.shape[-1] != filters:
        passed = _convolve(active, filters, strides, size=1)
    outputs = activate(_convolve(active, filters, strides))
    return keras.layers.Add()([passed, _convolve(outputs, filters)])


def _convolve(
    inputs: keras.KerasTensor, filters: int, strides: int = 1, size: int = 3
) -> keras.KerasTensor:
    return keras.layers.Conv2D(
        filters,
        size,
        strides=strides,
        padding="same",
        use_bias=False,
        kernel_initializer="he_normal",
    )(inputs)


def activate(inputs: keras.KerasTensor) -> keras.KerasTensor:
    """A batch normalisation and a ReLU."""
    # 0.9, not Keras's 0.99, settles within the few steps that small data sets give.
    return keras.layers.ReLU()(keras.layers.BatchNormalization(momentum=0.9)(inputs))


@keras.saving.register_keras_serializable("image_pipeline")
def cross_entropy(labels: keras.KerasTensor, probabilities: keras.KerasTensor) -> keras.KerasTensor:
    """Cross entropy of class ids, or of the classes' shares.

    Args:
      labels: int [batch] or [batch, 1], class ids, -1 for none; or float32 [batch, classes].
      probabilities: float32 [batch, classes].

    Returns:
      float32 [batch]; Keras leaves records without a class out of the mean.
    """
    if _are_shares(labels, probabilities):
        return keras.losses.categorical_crossentropy(labels, probabilities)
    return cross_entropy_of_ids(labels, probabilities, ignored=-1)


def cross_entropy_of_ids(
    ids: keras.KerasTensor, probabilities: keras.KerasTensor, ignored: int
) -> keras.KerasTensor:
    """Cross entropy of the logits, where a softmax made the probabilities.

    Of probabilities Keras clips it at 1e-7, below which nothing is learned; with `ignore_class` it
    does not go back to the logits by itself.

    Args:
      ids: int, any shape, class ids; `ignored` for none.
      probabilities: float32 [..., classes].
      ignored: which id is none.

    Returns:
      float32 of the ids' shape; Keras leaves ignored ones out of the mean.
    """
    logits = getattr(probabilities, "_keras_logits", None)
    return keras.losses.sparse_categorical_crossentropy(
        ids,
        probabilities if logits is None else logits,
        from_logits=logits is not None,
        ignore_class=ignored,
    )


@keras.saving.register_keras_serializable("image_pipeline")
def binary_cross_entropy(
    tags: keras.KerasTensor, probabilities: keras.KerasTensor
) -> keras.KerasTensor:
    """Cross entropy of each tag, so that each can have a weight of its own.

    Args:
      tags: float32 [batch, tags], 0 or 1, or shares where images are mixed.
      probabilities: float32 [batch, tags].

    Returns:
      float32 [batch, tags]; Keras takes the mean.
    """
    return keras.ops.binary_crossentropy(tags, probabilities)


@keras.saving.register_keras_serializable("image_pipeline")
class Accuracy(keras.metrics.MeanMetricWrapper):
    """The share of records for which `accuracy` holds, of those that have a class."""

    def __init__(self, name: str = "accuracy", dtype: str | None = None):
        """Takes what Keras gives to every metric."""
        super().__init__(accuracy, name=name, dtype=dtype)

    def update_state(
        self,
        y_true: keras.KerasTensor,
        y_pred: keras.KerasTensor,
        sample_weight: keras.KerasTensor | None = None,
    ) -> None:
        """Counts a batch; labels and predictions are those of `accuracy`."""
        if _are_shares(y_true, y_pred):
            known = keras.ops.any(y_true > 0, axis=-1)
        else:
            known = keras.ops.reshape(y_true, [-1]) >= 0
        weight = keras.ops.cast(known, self.dtype)
        if sample_weight is not None:
            weight *= keras.ops.reshape(keras.ops.cast(sample_weight, self.dtype), [-1])
        super().update_state(y_true, y_pred, weight)

    def get_config(self) -> dict:
        """What makes another one like it."""
        return {"name": self.name, "dtype": self.dtype}


def accuracy(labels: keras.KerasTensor, probabilities: keras.KerasTensor) -> keras.KerasTensor:
    """Whether the likeliest class is the label's (of shares: the one of the greatest).

    Args and returns are those of `cross_entropy`.
    """
    if _are_shares(labels, probabilities):
        return keras.metrics.categorical_accuracy(labels, probabilities)
    return keras.metrics.sparse_categorical_accuracy(labels, probabilities)


def _are_shares(labels: keras.KerasTensor, probabilities: keras.KerasTensor) -> bool:
    return len(labels.shape) == 2 and labels.shape[1] == probabilities.shape[1] > 1


def count_halvings(shorter_side_px: int, smallest_px: int, most: int, least: int = 0) -> int:
    """How often images are halved, from `least` to `most`, so that none gets smaller than that."""
    halvings = least
    while halvings < most and shorter_side_px >> (halvings + 1) >= smallest_px:
        halvings += 1
    return halvings


def convolve_twice(inputs: keras.KerasTensor, filters: int) -> keras.KerasTensor:
    """A block's convolutions, [batch, height, width, any] → [batch, height, width, filters]."""
    outputs = inputs
    for _ in range(2):
        convolve = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)
        outputs = activate(convolve(outputs))
    return outputs
