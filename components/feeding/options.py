"""Options of the way training reads records."""

import re
from typing import Literal

import pydantic

from components.options import Options


class AugmentOptions(Options):
    """Random views, made for training batches only."""

    flip: bool = True
    """Mirror left to right with probability 1/2. Switch off where sides matter (digits, text)."""
    random_resized_crop: bool = True
    """Crop a random area and aspect ratio, then resize, instead of the centre view."""
    crop_area: tuple[float, float] = (0.08, 1.0)
    """Least and greatest share of the area that a random crop keeps (torchvision's default)."""
    crop_aspect: tuple[float, float] = (3 / 4, 4 / 3)
    """Least and greatest width / height of a random crop."""

    @pydantic.model_validator(mode="after")
    def _check_bounds(self) -> "AugmentOptions":
        for name in ("crop_area", "crop_aspect"):
            least, greatest = getattr(self, name)
            if not 0 < least <= greatest:
                raise ValueError(
                    f"{name} must be two positive numbers, the lesser first, "
                    f"got [{least}, {greatest}]; set augment.{name}."
                )
        if self.crop_area[1] > 1:
            raise ValueError(
                f"crop_area is a share of the image and at most 1, got {self.crop_area[1]}; "
                "set augment.crop_area."
            )
        return self


class SubsetOptions(Options):
    """Which of a split's records are read."""

    where: str | None = None
    """A condition on the index's columns, such as `label in ("cat", "dog") and height > 128`."""
    fraction: float = pydantic.Field(default=1.0, gt=0, le=1)
    """Share of the records, chosen by their ids: adding data never takes one away."""
    fold: tuple[pydantic.NonNegativeInt, pydantic.PositiveInt] | None = None
    """`[k, n]`, k from 0, reads all but the k-th of n folds for training, and only that for
    evaluation."""

    @pydantic.field_validator("fold")
    @classmethod
    def _check_fold(cls, fold: tuple[int, int] | None) -> tuple[int, int] | None:
        if fold is not None and (fold[0] >= fold[1] or fold[1] < 2):
            raise ValueError(
                f"fold must be [k, n] with 0 <= k < n and n at least 2, got {list(fold)}; "
                "set select.fold."
            )
        return fold


class EvalSubsetOptions(Options):
    """A part of the evaluation split that is always the same."""

    records: pydantic.PositiveInt
    """How many."""
    seed: int = 0
    """Another seed, another subset."""
    stratified: bool = True
    """Whether every class has its share of them."""


class ManyViewsOptions(Options):
    """Several views of each image an epoch, never two of them in one batch."""

    crops: pydantic.PositiveInt = 1
    """Random crops of each image an epoch."""
    mirror: bool = False
    """Whether each of them is followed, elsewhere in the epoch, by its mirror image; then no view
    is flipped at random."""

    @property
    def count(self) -> int:
        """Views of one image an epoch."""
        return self.crops * (2 if self.mirror else 1)


class FeedingOptions(Options):
    """How `input_fn` reads shards."""

    batch_size: pydantic.PositiveInt = 64
    """Records a batch, over all workers together."""
    remainder: Literal["keep", "drop", "pad"] = "keep"
    """An epoch's last, smaller batch: keep it, drop it, or pad it with the epoch's first records.
    Training only; the latter two give every batch one shape, which TPUs and compiled training steps
    want. `pad` needs the index."""
    source: Literal["auto", "indexed", "streaming"] = "auto"
    """`indexed` takes records from shards in any order; `streaming` reads files from their
    beginning and shuffles a window. `auto` takes the index where there is one on a local disk."""
    data_service: str | None = None
    """Training: address of a tf.data service dispatcher, such as `grpc://localhost:5000`, whose
    workers stream, decode and augment. Every record still comes once an epoch, but in the order of
    arrival; `components/feeding/service.py` says what else this promises less."""
    shuffle_records: pydantic.PositiveInt = 10_000
    """Streaming: encoded records in the shuffle window."""
    files_at_once: pydantic.PositiveInt = 16
    """Streaming: shards read side by side by the interleave (fewer, if there are fewer)."""
    prefetch_batches: pydantic.PositiveInt = 2
    """Finished batches kept ready. More than two only hold memory: what they could even out, the
    parallel stages before them have evened out already."""
    memory_fraction: float = pydantic.Field(default=0.5, gt=0, le=1)
    """Share of the free memory that windows, batches and prefetch may take; a plan over it is
    refused before anything is read."""
    hold_decoded: bool = True
    """Whether each image is decoded only once, where all of them fit into half of
    `memory_fraction` as pixels (training and evaluation each hold a data set). Indexed records
    only, and where the view has the stored images' number of channels."""
    compiled: bool = True
    """Whether XLA compiles the transform graph's pixels, for a tenth of their time. It falls back,
    with a warning, where the bits would not be the same."""
    select: SubsetOptions = SubsetOptions()
    """Which records are read. Needs the index."""
    balance: Literal["none", "uniform"] | dict[str, pydantic.PositiveFloat] = "none"
    """Training: shares of the classes in an epoch; `{class: weight}` names every class that is
    read. Needs the index."""
    mix: dict[str, pydantic.PositiveFloat] | None = None
    """Training: shares of several data sets in an epoch, `{folder: weight}`. Needs the index."""
    max_oversampling: float = pydantic.Field(default=10.0, ge=1)
    """Balance and mix: how often a record may be drawn in an epoch, at most; others fill up."""
    many_views: ManyViewsOptions = ManyViewsOptions()
    """Training: several views of each image an epoch. Needs the index."""
    eval_subset: EvalSubsetOptions | None = None
    """Evaluation: only these records. Needs the index."""
    verify: Literal["none", "first_epoch", "always"] = "always"
    """Whether the checksums of indexed records are computed when they are read. It takes 0.1 ms a
    megabyte, little beside decoding, and names a damaged record where a decoder could not.
    Streaming always does."""
    bad_records: Literal["stop", "skip"] = "stop"
    """What an indexed record does that cannot be read: stop with its name, or be logged and left
    out of evaluation, and in training be replaced by another record of its batch, which so keeps
    its size. `skip` needs the index."""
    augment: AugmentOptions = AugmentOptions()

    @pydantic.field_validator("data_service")
    @classmethod
    def _check_address(cls, address: str | None) -> str | None:
        if address is not None and not re.fullmatch(r"grpc://.+:\d+", address):
            raise ValueError(
                f"data_service must be grpc://<host>:<port>, got {address!r}; set the "
                "dispatcher's address, or leave it out."
            )
        return address

    @pydantic.model_validator(mode="after")
    def _check_combinations(self) -> "FeedingOptions":
        shares = {"balance": self.balance != "none", "mix": self.mix is not None}
        together = [name for name, is_set in shares.items() if is_set]
        together += ["many_views"] if self.many_views.count > 1 else []
        if len(together) > 1:
            raise ValueError(
                f"{' and '.join(together)} cannot be combined: shares draw records as often as it "
                "takes, many_views each view once; set one of them."
            )
        if self.many_views.crops > 1 and not self.augment.random_resized_crop:
            raise ValueError(
                f"many_views.crops={self.many_views.crops} needs augment.random_resized_crop: all "
                "centre views of an image are the same; switch it on, or set crops=1."
            )
        if self.source == "streaming" and (needing := self.index_options()):
            raise ValueError(
                f"source is streaming, but {needing} need the index; set source=indexed or auto."
            )
        if self.data_service and (self.source == "indexed" or self.index_options()):
            needing = self.index_options() or ["source=indexed"]
            raise ValueError(
                f"data_service streams, but {needing} need the index; leave out one of them."
            )
        return self

    def index_options(self) -> list[str]:
        """The options set that only work with the index."""
        defaults = FeedingOptions.model_construct()
        names = ("select", "balance", "mix", "many_views", "eval_subset")
        needing = [name for name in names if getattr(self, name) != getattr(defaults, name)]
        needing += ["remainder=pad"] if self.remainder == "pad" else []
        return needing + (["bad_records=skip"] if self.bad_records == "skip" else [])
