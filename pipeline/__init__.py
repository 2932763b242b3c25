"""Raw images to training batches and a served model, with TensorFlow, Beam and TFX.

What most people need is here. Names are imported on first use: TFX alone takes 10 to 30 s.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from image_pipeline.api import (
        analyze,
        batches,
        check_model,
        export_model,
        from_generators,
        ingest,
        input_fn,
        predict,
        steps_per_epoch,
    )
    from image_pipeline.components.errors import UserError
    from image_pipeline.components.images.bad_image import BadImage
    from image_pipeline.components.ingest.component import ImageExampleGen
    from image_pipeline.components.sources.references import Annotations, ImageRef
    from image_pipeline.components.training.steps_per_execution import SyncEpochs
    from image_pipeline.components.transform.component import ImageTransform

__all__ = [
    "Annotations",
    "BadImage",
    "ImageExampleGen",
    "ImageRef",
    "ImageTransform",
    "SyncEpochs",
    "UserError",
    "analyze",
    "batches",
    "check_model",
    "export_model",
    "from_generators",
    "ingest",
    "input_fn",
    "predict",
    "steps_per_epoch",
]
_MODULES = {
    "BadImage": "components.images.bad_image",
    "ImageExampleGen": "components.ingest.component",
    "ImageRef": "components.sources.references",
    "ImageTransform": "components.transform.component",
    "Annotations": "components.sources.references",
    "SyncEpochs": "components.training.steps_per_execution",
    "UserError": "components.errors",
}

_OF_TFX = ("ImageExampleGen", "ImageTransform")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _OF_TFX:
        from image_pipeline.components.extras import need

        need("tfx", f"image_pipeline.{name}")
    module = importlib.import_module(f"{__name__}.{_MODULES.get(name, 'api')}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
