"""Whether streamed records have the type that a view asks for: it is known when they are read."""

import types

from image_pipeline.components.feeding.rules import PIXELS
from image_pipeline.components.rules import check
from image_pipeline.components.views.options import ViewOptions


def check_type(stored: str, view: ViewOptions, named: str) -> None:
    """Raises UserError if values of this type are not read as the view asks for."""
    shown = types.SimpleNamespace(dtype=stored, channels=view.channels)
    check(PIXELS[:1], stored=shown, images=f"the images of {named!r}", view=view)
