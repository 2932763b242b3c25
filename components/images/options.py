"""What becomes of every image before it is written."""

from typing import Literal

import pydantic

from image_pipeline.components.dataset.record import PixelType
from image_pipeline.components.images.depth import DepthOptions
from image_pipeline.components.images.sound import SoundOptions
from image_pipeline.components.options import Options, leave_out_unset

_ColorLevel = pydantic.conint(ge=0, le=255)
Encoding = Literal["jpeg", "png", "raw", "original"]


class PrepareOptions(Options):
    """What every image becomes before it is written."""

    resize: Literal["shorter_side", "longer_side", "exact", "none"] = "shorter_side"
    """Which side becomes `size_px`; the other keeps the aspect ratio. `exact` makes both sides
    `size_px` and distorts, as exported models then do with the files that they are asked about;
    `none` keeps the size."""

    size_px: pydantic.PositiveInt = 256
    """Target length in pixels of the side that `resize` names."""

    enlarge: bool = False
    """Whether smaller images are enlarged to `size_px`. Otherwise they are kept as they are; with
    `exact`, those of which either side is smaller."""

    encoding: Encoding = "jpeg"
    """How pixels are stored. `png` is lossless and about 5 times larger than `jpeg`; `raw` is
    row-major uint8, larger still. `original` keeps the bytes of upright 8-bit JPEGs and PNGs that
    need no conversion, including their metadata (such as GPS positions); everything else is
    encoded anew, as PNG where the source is lossless, as JPEG otherwise. All other encodings
    remove all metadata."""

    jpeg_quality: int = pydantic.Field(default=90, ge=1, le=100)
    """JPEG quality, 1 to 100; higher is larger. Chroma is stored at half resolution (4:2:0)."""

    color: Literal["rgb", "gray"] = "rgb"
    """Channels: 3 for `rgb`, 1 for `gray`. Gray images become `rgb` by repetition."""

    dtype: PixelType = "uint8"
    """Type of the stored values. With `uint8`, images of 16 bits become 8 as `depth` says. With the
    others, which `encoding: raw` stores, every value stays as it is; images of another type are
    refused, except that `float32` also reads float64 (rounded) and int16 and int8 (exactly). Colour
    profiles are not applied. All but `uint8` is read as float32 by analysis, training and serving.
    """

    depth: DepthOptions = DepthOptions()

    channels: pydantic.PositiveInt | None = pydantic.Field(default=None, le=255)
    """Number of channels that every image has to have, which are stored as they are, whatever they
    mean (`color` does not matter then); needs `encoding: raw`. None: gray or RGB, as `color` says.
    """

    alpha_background: tuple[_ColorLevel, _ColorLevel, _ColorLevel] = (255, 255, 255)  # type: ignore[valid-type]
    """RGB colour, 0 to 255, on which transparent images are laid."""

    min_side_px: pydantic.PositiveInt = 1
    """Images with a side of fewer pixels are refused."""

    max_pixels: int = pydantic.Field(default=178_956_970, ge=1, le=2**30)
    """Images whose header declares more pixels are refused before decoding, as decompression
    bombs. The default is where Pillow refuses; 2**30 is OpenCV's own limit. The resized image is
    held to it too."""

    max_file_bytes: pydantic.PositiveInt = 256 * 1024 * 1024
    """Files of more bytes are refused unread."""

    sound: SoundOptions | None = None
    """WAV and FLAC files become such pictures. None: they are no images."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> "PrepareOptions":
        named = f"dtype={self.dtype}" if self.dtype != "uint8" else f"channels={self.channels}"
        if self.is_deep and self.encoding != "raw":
            raise ValueError(f"{named} needs encoding=raw, got {self.encoding}; set it, too.")
        if self.is_deep and self.sound is not None:
            raise ValueError("sound draws uint8 pictures; leave out dtype and channels.")
        if self.is_deep and self.depth != DepthOptions():
            raise ValueError(
                f"depth makes 8 bits of 16, but {named} keeps every value as it is; leave out one "
                "of them."
            )
        return self

    @pydantic.model_serializer(mode="wrap")
    def _dump(self, dump: pydantic.SerializerFunctionWrapHandler) -> dict:
        return leave_out_unset(dump(self), self, ("dtype", "depth", "channels", "sound"))

    @property
    def is_deep(self) -> bool:
        """Whether pixels are other than 8-bit gray or RGB."""
        return self.dtype != "uint8" or self.channels is not None

    def choose_size(self, height: int, width: int) -> tuple[int, int]:
        """The (height, width) in pixels that an upright image of so many is resized to."""
        size_px = self.size_px
        reference_px = max(height, width) if self.resize == "longer_side" else min(height, width)
        if self.resize == "none" or (reference_px < size_px and not self.enlarge):
            return height, width
        if self.resize == "exact":
            return size_px, size_px
        # In integers, rounded half up: no side depends on how a float was rounded.
        return tuple(  # type: ignore[return-value]
            max(1, (2 * side * size_px + reference_px) // (2 * reference_px))
            for side in (height, width)
        )
