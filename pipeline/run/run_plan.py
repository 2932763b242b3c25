"""What a run on this machine is to do, checked before TensorFlow and TFX are even imported."""

import dataclasses
from collections.abc import Mapping, Sequence

from image_pipeline.components import files
from image_pipeline.components.inference.named_images import check_listed
from image_pipeline.components.inference.options import options_for_others
from image_pipeline.components.meaning.listing import Listing, list_images
from image_pipeline.config import PipelineConfig, check_labels_fit, check_pixels_fit, check_splits
from image_pipeline.init.choose_steps import complete_steps
from image_pipeline.run.engine import choose_engine, make_paths_absolute
from image_pipeline.run.part import Part
from image_pipeline.run.preflight import check_classes, check_output
from image_pipeline.run.spans import find_images, survey_source
from image_pipeline.run_folder import RunFolder

_OTHER_OUTPUTS = (
    "give a local folder and --push for the models, use ingest and analyze, which write to any "
    "store, or compile for Kubeflow, which has its runs in any store"
)


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
    part: Part = Part()  # noqa: RUF009  (frozen)
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
    part: Part = Part(),  # noqa: B008  (frozen)
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
    check_splits(config)
    beam_args = choose_engine(beam_flags, config.dataflow)
    (images_dir,) = make_paths_absolute(beam_args, images_dir)  # As whoever ingests asks for them.
    source = find_images(images_dir, span, config.spans.window)
    newest = list_images(source.folders[-1].path, config.ingest)
    config = config.model_copy(update={"ingest": newest.options})
    config, chosen = complete_steps(config, newest)
    check_labels_fit(config)
    check_pixels_fit(config)
    survey, earlier = survey_source(source, newest)
    survey = dataclasses.replace(survey, noticed=(*survey.noticed, *filter(None, [chosen])))
    check_classes(survey, images_dir)
    for folder in source.folders:
        check_output(output_dir, folder.path)
    files.check_known_to_tensorflow(output_dir, "--output", _OTHER_OUTPUTS)
    if push_dir is not None:
        files.check_answers(push_dir)
    if config.inference.images is not None:
        check_listed(config.inference.images, options_for_others(config.ingest))
    plan = RunPlan(
        config=config,
        images_dir=images_dir,
        output_dir=files.make_absolute(output_dir),
        fingerprint=survey.fingerprint,
        beam_args=tuple(beam_args),
        span=source.span,
        earlier=earlier,
        part=part,
        push_dir=None if push_dir is None else files.make_absolute(push_dir),
    )
    return plan, survey
