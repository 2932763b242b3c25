"""What a run on this machine is to do, checked before TensorFlow and TFX are even imported."""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.inference.named_images import check_listed
from image_pipeline.components.inference.options import options_for_others
from image_pipeline.components.meaning.listing import (
    Listing,
    check_listing,
    list_images,
    offer,
)
from image_pipeline.components.sources.span_pattern import (
    LATEST,
    SpanFolder,
    has_span,
    list_spans,
    pick_span,
)
from image_pipeline.config import PipelineConfig, check_run
from image_pipeline.init.choose_steps import complete_steps
from image_pipeline.run.engine import choose_engine, make_paths_absolute
from image_pipeline.run.preflight import check_classes, check_output
from image_pipeline.run_folder import RunFolder

_OTHER_OUTPUTS = (
    "give a local folder and --push for the models, use ingest and analyze, which write to any "
    "store, or compile for Kubeflow, which has its runs in any store"
)


@dataclasses.dataclass(frozen=True)
class Part:
    """Which components run; what comes before them is taken from the latest run.

    Attributes:
      first: runs, and all that needs it; None for all that `last` needs.
      last: runs, and what it needs; None for all that needs `first`.
    """

    first: str | None = None
    last: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether that is the whole pipeline."""
        return self.first is None and self.last is None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What is run, on what, and where it goes.

    Attributes:
      images_dir: the folder of images, or a pattern of spans' folders.
      output_dir: its folder (see `RunFolder`). Absolute, or a URI: TFX keeps it, and may hand a
        result to workers elsewhere in a later run.
      fingerprint: hash of the images' names, sizes and modification times.
      beam_args: Beam flags; they name the runner and its mode.
      span: which of the pattern's spans to run; None if `images_dir` is not a pattern.
      earlier: number and fingerprint of further spans that `config.spans.window` wants. They are
        ingested first, one by one; TFX's cache has those that already are.
      part: which components run. Without ImageExampleGen, no span is ingested.
      push_dir: where models are pushed, in any store; None for the run's own folder for them.
    """

    config: PipelineConfig
    images_dir: str
    output_dir: str
    fingerprint: str
    beam_args: tuple[str, ...]
    span: int | None = None
    earlier: Mapping[int, str] = dataclasses.field(default_factory=dict)
    part: Part = Part()
    push_dir: str | None = None

    @property
    def pushed_dir(self) -> str:
        """Where models are pushed, a folder for each version."""
        return self.push_dir or self.folder.pushed_dir

    @property
    def folder(self) -> RunFolder:
        """Where everything goes."""
        return RunFolder(self.output_dir)


def plan_run(
    config: PipelineConfig,
    images_dir: str,
    output_dir: str,
    beam_flags: Sequence[str],
    span: str | None = None,
    part: Part = Part(),
    push_dir: str | None = None,
) -> tuple[RunPlan, Listing]:
    """Checks what can be checked at once.

    Args:
      images_dir: the folder of images, or a pattern of spans' folders.
      output_dir: the run's folder.
      beam_flags: the user's Beam flags, which are completed.
      span: number or date of one of the pattern's spans; None for the latest.
      part: which components run.
      push_dir: where models are pushed; None for a folder of the run's.

    Returns:
      The plan, and what there is of its images.

    Raises:
      UserError: if the engine, the images, those to predict or the output folder cannot be used.
    """
    check_run(config, is_listed=False)
    beam_args = choose_engine(beam_flags, config.dataflow)
    (images_dir,) = make_paths_absolute(beam_args, images_dir)  # As whoever ingests asks for them.
    files.check_text(images_dir, "--images")
    files.check_text(files.make_absolute(output_dir), "--output")
    source = find_images(images_dir, span, config.spans.window)
    newest = list_images(source.folders[-1].path, config.ingest)
    config = config.model_copy(update={"ingest": newest.options})
    config, chosen = complete_steps(config, newest)
    check_run(config)
    survey, earlier = survey_source(source, newest)
    survey = dataclasses.replace(survey, noticed=(*survey.noticed, *filter(None, [chosen])))
    check_classes(survey, images_dir)
    for folder in source.folders:
        check_output(output_dir, folder.path)
    files.check_known_to_tensorflow(output_dir, "--output", _OTHER_OUTPUTS)
    output_dir = files.make_absolute(output_dir)
    if set("*?[") & set(output_dir):  # StatisticsGen would find no shards.
        raise UserError(
            "--output must not have *, ? or [ in its path, for TFX finds its files by patterns, "
            f"got {output_dir!r}; choose another."
        )
    if push_dir is not None:
        files.check_answers(push_dir)
    if config.inference.images is not None:
        check_listed(config.inference.images, options_for_others(config.ingest))
    plan = RunPlan(
        config=config,
        images_dir=images_dir,
        output_dir=output_dir,
        fingerprint=survey.fingerprint,
        beam_args=tuple(beam_args),
        span=source.span,
        earlier=earlier,
        part=part,
        push_dir=None if push_dir is None else files.make_absolute(push_dir),
    )
    return plan, survey


@dataclasses.dataclass(frozen=True)
class ImageSource:
    """The images of a run.

    Attributes:
      folders: the folders that hold them, the newest last; one without a number if there are no
        spans.
      span: the newest folder's; None if there are no spans.
    """

    folders: tuple[SpanFolder, ...]
    span: int | None


def find_images(images_dir: str, span: str | None, window: int | Literal["all"]) -> ImageSource:
    """Finds the folders of images.

    Args:
      images_dir: a folder, or a pattern of spans' folders.
      span: the number or date of a span; None for the latest.
      window: how many spans are used together, at most.

    Raises:
      UserError: if there is no such span, or if spans are asked for without a pattern.
    """
    if not has_span(images_dir):
        asked = f"--span {span}" if span else f"spans.window={window}" if window != 1 else None
        if asked:
            raise UserError(
                f"{asked} needs spans, but --images {images_dir!r} is one folder; give a pattern "
                "such as photos/day-{SPAN} or photos/{YYYY}-{MM}-{DD}."
            )
        return ImageSource((SpanFolder(0, None, images_dir),), None)
    folders = list_spans(images_dir)
    newest = pick_span(folders, images_dir, span or LATEST).span
    upto = [folder for folder in folders if folder.span <= newest]
    return ImageSource(tuple(upto if window == "all" else upto[-window:]), newest)


def survey_source(source: ImageSource, newest: Listing) -> tuple[Listing, dict[int, str]]:
    """Lists the other folders, and offers all listings to whoever ingests them.

    Args:
      source: the folders.
      newest: what the last of them holds; the others are read with its options.

    Returns:
      What they hold together: the newest one's listing with the counts of all; and the numbers and
      fingerprints of the others.

    Raises:
      UserError: if a folder is missing or empty.
    """
    found, outside, classes = 0, 0, collections.Counter[str]()
    fingerprints: dict[int, str] = {}
    for folder in source.folders:  # One by one: each listing has files open.
        is_newest = folder is source.folders[-1]
        listing = check_listing(newest if is_newest else list_images(folder.path, newest.options))
        offer(listing, newest.options)
        found, outside = found + listing.found, outside + listing.outside
        classes.update(listing.classes)
        fingerprints |= {} if is_newest else {folder.span: listing.fingerprint}
    counts = dict(sorted(classes.items()))
    together = dataclasses.replace(newest, found=found, outside=outside, classes=counts)
    return together, fingerprints
