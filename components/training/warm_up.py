"""What TensorFlow Serving runs before it takes requests, so that the first is answered as fast.

The server looks for this file in a model's folder: records of `PredictionLog`.
"""

import io

import cv2
import numpy as np
from tensorflow import make_tensor_proto
from tensorflow_serving.apis import prediction_log_pb2

from image_pipeline.components import files
from image_pipeline.components.dataset.tfrecord import frame
from image_pipeline.components.tasks.signatures import (
    IMAGE_BYTES,
    PIXELS,
    SERVE_IMAGES,
    SERVE_PIXELS,
)
from image_pipeline.components.views.options import ViewOptions

WARM_UP_FILE = ("assets.extra", "tf_serving_warmup_requests")  # TensorFlow Serving's own names


def write_warm_up(model_dir: str, view: ViewOptions) -> None:
    """Writes a request for each signature that callers use, of one grey image.

    Args:
      model_dir: the SavedModel's folder.
      view: the model's input.
    """
    shape = (view.height_px, view.width_px, view.channels)
    pixels = np.full(shape, 128, view.dtype)
    requests = [
        _make_log(SERVE_IMAGES, IMAGE_BYTES, np.array([_encode(pixels)], object)),
        _make_log(SERVE_PIXELS, PIXELS, pixels[np.newaxis]),
    ]
    content = b"".join(frame(request.SerializeToString()) for request in requests)
    files.write_file(files.join(model_dir, *WARM_UP_FILE), content)


def _make_log(signature: str, name: str, value: np.ndarray) -> prediction_log_pb2.PredictionLog:
    log = prediction_log_pb2.PredictionLog()
    request = log.predict_log.request
    request.model_spec.signature_name = signature
    request.inputs[name].CopyFrom(make_tensor_proto(value))
    return log


def _encode(pixels: np.ndarray) -> bytes:
    """A file as callers send it: a JPEG; of other values than 8-bit gray or RGB an `.npy` file."""
    if pixels.dtype == np.uint8 and pixels.shape[-1] in (1, 3):
        return cv2.imencode(".jpg", pixels)[1].tobytes()
    file = io.BytesIO()
    np.save(file, pixels)
    return file.getvalue()
