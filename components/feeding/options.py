"""Options for how training reads records."""

import os
import tempfile
from collections.abc import Mapping
from typing import Any, Literal

import pydantic

from image_pipeline.components import files
from image_pipeline.components.augment.options import (
    CutMix,
    Mixup,
    PadAndCrop,
    RandomResizedCrop,
    Steps,
)
from image_pipeline.components.options import Options, PathList
from image_pipeline.components.order.batches import Remainder
from image_pipeline.components.rules import Rule

# Options of earlier versions: what they had where nothing else was chosen, and what is instead.
_BY_INDEX = "records are read by their index, of files without one after a scan"
_REMOVED: dict[str, tuple[tuple[Any, ...], str]] = {
    "source": (("auto", "indexed"), _BY_INDEX),
    "shuffle_records": ((10_000,), f"{_BY_INDEX}, and an epoch is one permutation of all"),
    "files_at_once": ((16,), f"{_BY_INDEX}; with shuffle=shards it is shards_at_once"),
    "data_service": (
        (None,),
        "trainers read and decode their own parts of each batch, by input_fn's worker and workers, "
        "or all of it in a DataLoader's processes, by batches",
    ),
}


class SubsetOptions(Options):
    """Which of a split's records are read."""

    where: str | None = None
    """A condition on the index's columns, such as `label in ("cat", "dog") and height > 128`, or
    `"cat" in tags` for a list."""
    fraction: float = pydantic.Field(default=1.0, gt=0, le=1)
    """Share of the records, chosen by their ids: adding data never removes one."""
    fold: tuple[pydantic.NonNegativeInt, pydantic.PositiveInt] | None = None
    """`[k, n]`, k from 0, reads all but the k-th of n folds for training, and only that fold for
    evaluation."""
    leave_out: PathList = ()
    """Records that are left out, by the paths of their images, as `source` of the index has them;
    or a text file with a path a line, as `image-pipeline browse` writes it."""

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
    """A different seed gives a different subset."""
    stratified: bool = True
    """Whether every class has its share of them."""


class ManyViewsOptions(Options):
    """Several views of each image per epoch, never two of them in one batch."""

    crops: pydantic.PositiveInt = 1
    """Random crops of each image per epoch."""
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
    """Records per batch, over all workers together."""
    remainder: Remainder = "keep"
    """An epoch's last, smaller batch: keep it, drop it, or pad it with the epoch's first records.
    Training only; the latter two give every batch the same shape, which TPUs and compiled training
    steps need."""
    ahead_batches: pydantic.PositiveInt = 8
    """A data set in a store: batches whose records are asked for before they are needed. The order
    is known, so that each record is one request, of which many wait side by side."""
    cache_bytes: pydantic.NonNegativeInt = 0
    """A data set in a store: up to so many bytes of its shards are kept on the local disk as they
    are read, for later epochs and runs. Always the first shards: in a permuted epoch none is needed
    more than another."""
    cache_dir: str | None = None
    """The folder for them, which processes and runs may share; None for `image-pipeline-records` in
    that of temporary files (`TMPDIR`). Of TFRecords that others wrote, it has what is unpacked of
    gzip, and an index where none can be kept beside their folder."""
    shuffle: Literal["records", "shards"] = "records"
    """Training: `records` permutes all records; `shards` permutes the shards, and mixes the records
    of `shards_at_once`. A data set in a store then takes a request for each 8 MiB, instead of one
    for each record, and so many shards are held in memory."""
    shards_at_once: pydantic.PositiveInt = 16
    """With `shuffle=shards`: how many shards every batch takes records of, in equal parts."""
    own_shards: bool = False
    """Training by several workers: whether worker k of n reads the records of shards k, k + n, …,
    of which alone `cache_dir` then keeps some. Together, they have the same batches; their parts
    stay equal, so that some records are read by others."""
    prefetch_batches: pydantic.PositiveInt = 2
    """Finished batches kept ready. More than two only take memory: the parallel stages before them
    have already evened out what they could even out."""
    memory_fraction: float = pydantic.Field(default=0.5, gt=0, le=1)
    """Share of the free memory that batches and prefetch may take; a plan that exceeds it
    is refused before anything is read."""
    hold_decoded: bool = True
    """Whether each image is decoded only once, if the pixels of all images fit into half of
    `memory_fraction` (training and evaluation each hold a data set)."""
    compiled: bool = True
    """Whether XLA compiles random steps and the transform graph's pixels: a tenth of their time.
    It falls back, with a warning, where it cannot, or where the bits would differ. Each batch size
    is compiled once: `remainder=drop` or `pad` avoids the small last one."""
    select: SubsetOptions = SubsetOptions()
    """Which records are read, of a data set that ingest wrote."""
    balance: Literal["none", "uniform"] | dict[str, pydantic.PositiveFloat] = "none"
    """Training: shares of the classes in an epoch; `{class: weight}` names every class that is
    read."""
    balance_by: str = "label"
    """The column of the index that `balance` takes for the class: the label, or another one whose
    values are text, such as a further column of the table that the images came from."""
    mix: dict[str, pydantic.PositiveFloat] | None = None
    """Training: shares of several data sets in an epoch, `{folder: weight}`."""
    max_oversampling: float = pydantic.Field(default=10.0, ge=1)
    """Balance and mix: how often a record may be drawn per epoch, at most; others fill the rest."""
    many_views: ManyViewsOptions = ManyViewsOptions()
    """Training: several views of each image per epoch."""
    eval_subset: EvalSubsetOptions | None = None
    """Evaluation: only these records, of a data set that ingest wrote."""
    verify: Literal["none", "first_epoch", "always"] = "always"
    """Whether checksums of records are verified when they are read. It takes 0.1 ms per megabyte,
    little compared with decoding, and names a damaged record where a decoder could not."""
    bad_records: Literal["stop", "skip"] = "stop"
    """What happens if a record cannot be read: `stop` ends with its name; `skip` logs it, leaves it
    out of evaluation, and in training replaces it by another record of its batch, which thus keeps
    its size."""
    augment: Steps | None = None
    """Training: the random steps that make a view, in order; each is a name, a mapping of its
    options with the name as `op`, or the dotted path of your own function. `[]` means none: the
    views of evaluation, shuffled. So does `null` in Python; `run` and Kubeflow's compile then
    choose by the data, and say what: `[random_resized_crop, flip_horizontal]` for photos."""
    labels: Literal["ids", "one_hot"] = "ids"
    """What a class becomes: its id, or a row of shares, float32 [classes], 1 at the class, as mixup
    and cutmix make them of two. So one loss suits training that mixes and evaluation that does not.
    A class that the graph does not know is a row of zeros."""
    min_visible: float = pydantic.Field(default=0.25, ge=0, le=1)
    """Boxes of which a smaller share is left in the view, after its crop and all steps that move
    it, are dropped; the others are clipped at its sides."""
    columns: tuple[str, ...] = ()
    """Columns that are fed beside the images, by their feature keys, such as further columns of the
    table that the images came from: then images become a dictionary of `image` and these. A list
    is padded by 0 or "" to the longest of its batch, [batch, longest], and its lengths are fed as
    `<name>_length`, int64 [batch]. Only for `input_fn`, since a served image has no columns."""
    dtype: Literal["float32", "float16", "bfloat16", "uint8"] = "float32"
    """Type of the images that the model gets. `uint8` is a quarter of the bytes to copy to an
    accelerator; the transform graph is then the model's first layer, and no longer applied here."""
    layout: Literal["NHWC", "NCHW"] = "NHWC"
    """Order of an image's dimensions: channels last, or first."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _check_removed(cls, given: Any) -> Any:
        """Says what replaces an option of earlier versions; what they had by default is ignored."""
        if not isinstance(given, Mapping):
            return given
        removed = [
            f"{name} is no longer an option: {instead}; leave it out."
            for name, (defaults, instead) in _REMOVED.items()
            if name in given and given[name] not in defaults
        ]
        if removed:
            raise ValueError(" ".join(removed))
        return {name: value for name, value in given.items() if name not in _REMOVED}

    rules = (
        Rule(
            lambda options: options.draws[1:] and " and ".join(options.draws),
            "{found} cannot be combined: shares draw records as often as it takes, many_views each "
            "view once; set one of them.",
        ),
        Rule(
            lambda options: (
                options.shuffle == "shards"
                and next((name for name in options.draws if name != "many_views"), None)
            ),
            "shuffle=shards draws each record once, as its shard comes, but {found} draws some "
            "more often, from all over the epoch; leave shuffle at records, or {found} out "
            "(training.class_weights weighs the loss instead).",
        ),
        Rule(
            lambda options: options.balance_by != "label" and options.balance == "none",
            "balance_by={options.balance_by!r} says what balance shares an epoch by, but balance "
            "is none; set feeding.balance=uniform, or weights.",
        ),
        Rule(
            lambda options: (
                options.many_views.crops > 1 and not options.has(RandomResizedCrop, PadAndCrop)
            ),
            "many_views.crops={options.many_views.crops} needs random_resized_crop or "
            "pad_and_crop among the steps of augment: all centre views of an image are the same; "
            "name one of them in feeding.augment, or set crops=1.",
        ),
        Rule(
            lambda options: options.mixes_labels and options.batch_size % 2,
            "mixup and cutmix mix images two by two, so batch_size must be even, got "
            "{options.batch_size}; set feeding.batch_size.",
        ),
        Rule(
            lambda options: (
                options.own_shards
                and (
                    (options.mixes_labels and "a mix of neighbours (mixup, cutmix)")
                    or (options.shuffle == "shards" and "shuffle=shards")
                    or (options.bad_records == "skip" and "bad_records=skip")
                )
            ),
            "own_shards gives records to workers by their shards, but {found} needs each at its "
            "place in the batch; leave out one of them.",
        ),
    )

    @property
    def cache_folder(self) -> str:
        """`cache_dir`, or where it is by default."""
        folder = os.environ.get(files.LASTING) or tempfile.gettempdir()
        return self.cache_dir or os.path.join(folder, "image-pipeline-records")

    @property
    def draws(self) -> list[str]:
        """The options in use that say which records an epoch draws."""
        many = ["many_views"] if self.many_views.count > 1 else []
        return [name for name in ("balance", "mix") if self.is_set(name)] + many

    @property
    def steps(self) -> Steps:
        """The random steps of training: nothing is random that is not named."""
        return self.augment or ()

    @property
    def mixes_labels(self) -> bool:
        """Whether training mixes images, and so labels."""
        return self.has(Mixup, CutMix)

    @property
    def gives_shares(self) -> bool:
        """Whether labels are shares of classes."""
        return self.mixes_labels or self.labels == "one_hot"

    @property
    def crop(self) -> RandomResizedCrop | None:
        """The random crop that becomes the view; None for the centre."""
        first = self.steps[0] if self.steps else None
        return first if isinstance(first, RandomResizedCrop) else None

    def has(self, *kinds: type[Options]) -> bool:
        """Whether steps of such kinds are among the random ones."""
        return any(isinstance(step, kinds) for step in self.steps)

    def table_options(self) -> list[str]:
        """The options in use that need columns of the index that only ingest writes."""
        return [name for name in ("select", "balance_by", "eval_subset") if self.is_set(name)]
