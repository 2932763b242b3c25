"""The demo's data: the 1,797 handwritten digits of scikit-learn, written as image files."""

import os

from image_pipeline.components import files
from image_pipeline.config import PipelineConfig

# 8x8 pixels, stored losslessly and seen by the model at four times the size; a mirrored or cropped
# digit might be another one.
DEMO_CONFIG = PipelineConfig.model_validate(
    {
        "name": "digits-demo",
        "ingest": {"prepare": {"encoding": "png"}, "splits": {"train": 0.8, "eval": 0.2}},
        "view": {"height_px": 32, "width_px": 32, "channels": 1},
        "feeding": {
            "batch_size": 64,
            "augment": [],
        },
        "training": {"epochs": 8},
        "evaluation": {"min_accuracy": 0.95},
    }
)


def write_digits(images_dir: str) -> int:
    """Writes each digit as `<images_dir>/<digit>/<number>.png`, grayscale, 8x8 pixels.

    Files that already exist are left untouched, so that a second run finds nothing new.

    Returns:
      The number of images.
    """
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    for number, (image, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        path = files.join(images_dir, str(label), f"{number:04d}.png")
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            # scikit-learn counts ink from 0 to 16.
            Image.fromarray(np.round(image * (255 / 16)).astype(np.uint8)).save(path)
    return len(digits.images)
