"""Residual networks: for images of about 32 px, and for larger ones."""

import keras

# 20 layers, as in He et al. 2015 (arXiv 1512.03385, section 4.2): on CIFAR-10, 0.27 million weights
# reach an accuracy of 91.25 % there; the wide one is Zagoruyko's and Komodakis's WRN-16-4 (arXiv
# 1605.07146), 2.7 million weights, 94.98 %. Blocks are those of He et al. 2016 (arXiv 1603.05027).
_COMPACT, _COMPACT_BLOCKS = (16, 32, 64), 3
_WIDE, _WIDE_BLOCKS = (64, 128, 256), 2
# Of the network for larger images; a block each.
_LARGER = (32, 64, 128, 256)
_LARGE_PX = 96  # from here on, the first convolution is followed by another halving


def see_compactly(images: keras.KerasTensor) -> keras.KerasTensor:
    """Features of small images, [batch, 64], of float [batch, height, width, any]."""
    return _see_small(images, _COMPACT, _COMPACT_BLOCKS)


def see_widely(images: keras.KerasTensor) -> keras.KerasTensor:
    """The same, [batch, 256], with ten times the weights and the time."""
    return _see_small(images, _WIDE, _WIDE_BLOCKS)


def see_larger(images: keras.KerasTensor) -> keras.KerasTensor:
    """Features of images of about 64 to 224 px, [batch, 256]."""
    outputs = _activate(_convolve(images, _LARGER[0], strides=2))
    if min(images.shape[1:3]) >= _LARGE_PX:
        outputs = keras.layers.MaxPooling2D(3, strides=2, padding="same")(outputs)
    for level, filters in enumerate(_LARGER):
        outputs = _add_block(outputs, filters, strides=2 if level else 1)
    return keras.layers.GlobalAveragePooling2D()(_activate(outputs))


def _see_small(images: keras.KerasTensor, sizes: tuple[int, ...], blocks: int) -> keras.KerasTensor:
    outputs = _convolve(images, 16)
    for level, filters in enumerate(sizes):
        for block in range(blocks):
            outputs = _add_block(outputs, filters, strides=2 if level and not block else 1)
    return keras.layers.GlobalAveragePooling2D()(_activate(outputs))


def _add_block(inputs: keras.KerasTensor, filters: int, strides: int) -> keras.KerasTensor:
    """Two convolutions whose outputs are added to their inputs."""
    active = _activate(inputs)
    passed = inputs
    if strides > 1 or inputs.shape[-1] != filters:
        passed = _convolve(active, filters, strides, size=1)
    outputs = _activate(_convolve(active, filters, strides))
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


def _activate(inputs: keras.KerasTensor) -> keras.KerasTensor:
    # 0.9, not Keras's 0.99, settles within the few steps that small data sets give.
    return keras.layers.ReLU()(keras.layers.BatchNormalization(momentum=0.9)(inputs))
