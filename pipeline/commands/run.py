"""`image-pipeline run` and `demo`: the pipeline on this machine."""

import os
import sys
from typing import TYPE_CHECKING

import click

from image_pipeline.commands.shared import (
    BEAM,
    CONFIG,
    FOLLOW_LINKS,
    FROM,
    IMAGES,
    JSON,
    OUTPUT,
    QUIET,
    SET,
    SPAN,
    TO,
    add_follow_links,
    open_terminal,
    say_json,
)
from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.json_text import to_sealed_json

if TYPE_CHECKING:
    from image_pipeline.components.meaning.listing import Listing
    from image_pipeline.run.run_plan import RunPlan

EXIT_NOT_PUSHED = 3
# 8x8 pixels, stored losslessly and seen by the model at four times the size; a mirrored or cropped
# digit might be another one.
_DEMO = {
    "name": "digits-demo",
    "ingest": {"prepare": {"encoding": "png"}, "splits": {"train": 0.8, "eval": 0.2}},
    "view": {"height_px": 32, "width_px": 32, "channels": 1},
    "feeding": {"batch_size": 64, "augment": []},
    "training": {"epochs": 8},
    "evaluation": {"min_accuracy": 0.95},
}


@click.command()
@IMAGES
@OUTPUT
@CONFIG
@SET
@FOLLOW_LINKS
@JSON
@QUIET
@SPAN
@FROM
@TO
@click.option(
    "--push",
    "push_dir",
    metavar="FOLDER|URI",
    help="Push models there, for example to s3://models/digits, instead of into --output.",
)
@click.option(
    "--profile",
    "profile_steps",
    type=click.IntRange(1, 50),
    metavar="STEPS",
    help="Also trace this many steps in the middle of training for TensorBoard (1 to 50).",
)
@click.option(
    "--folds",
    type=click.IntRange(2, 20),
    metavar="N",
    help="Cross-validate instead: train N models (2 to 20), each without one Nth of the images, "
    "which judge it.",
)
@BEAM
def run(
    images_dir: str,
    output_dir: str,
    config_path: str | None,
    overrides: tuple[str, ...],
    follow_links: bool,
    as_json: bool,
    quiet: bool,
    span: str | None,
    first: str | None,
    last: str | None,
    push_dir: str | None,
    profile_steps: int | None,
    folds: int | None,
    beam_flags: tuple[str, ...],
) -> None:
    """Run the pipeline, or a part of it, on a folder of images.

    Beam flags go after a separate --, for example: -- --direct_running_mode=multi_processing
    """
    from image_pipeline.components.extras import need
    from image_pipeline.config import load_config
    from image_pipeline.run.run_plan import Part, plan_run

    need("tfx", "`image-pipeline run`")
    if profile_steps is not None:
        overrides = (*overrides, f"training.profile_steps={profile_steps}")
    config = load_config(config_path, add_follow_links(overrides, follow_links))
    part = Part(first, last)
    plan, survey = plan_run(config, images_dir, output_dir, beam_flags, span, part, push_dir)
    if folds is not None:
        if plan.span is not None or not part.is_whole or push_dir is not None:
            raise UserError(
                "--folds trains models to be judged, none to be pushed, of all images of one "
                "folder or table; leave out --span, --from, --to and --push, and name one folder."
            )
        _cross_validate(plan, survey, folds, as_json, quiet)
        return
    _run_and_tell(plan, survey, as_json, quiet)


@click.command()
@click.option("--output", "output_dir", default="demo-output", show_default=True)
@JSON
@QUIET
def demo(output_dir: str, as_json: bool, quiet: bool) -> None:
    """Run the whole pipeline on 1,797 handwritten digits."""
    from image_pipeline.components.extras import need
    from image_pipeline.config import PipelineConfig
    from image_pipeline.run.preflight import check_output
    from image_pipeline.run.run_plan import plan_run

    need("tfx", "`image-pipeline demo`")
    images_dir = os.path.join(output_dir, "images")
    check_output(output_dir, images_dir)
    _write_digits(images_dir)
    config = PipelineConfig.model_validate(_DEMO)
    plan, survey = plan_run(config, images_dir, os.path.join(output_dir, "run"), ())
    _run_and_tell(plan, survey, as_json, quiet)


def _write_digits(images_dir: str) -> None:
    """Writes scikit-learn's digits as `<images_dir>/<digit>/<number>.png`, grayscale.

    Files that already exist are left untouched, so that a second run finds nothing new.
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


def _cross_validate(
    plan: "RunPlan", survey: "Listing", folds: int, as_json: bool, quiet: bool
) -> None:
    from image_pipeline.components.locks import hold_lock
    from image_pipeline.run.functions import check_functions
    from image_pipeline.show.ingest_summary import describe_inferred
    from image_pipeline.show.terminal import print_rows

    log_path = plan.folder.log_path
    with hold_lock(plan.output_dir), open_terminal(log_path, as_json or quiet) as console:
        from image_pipeline.components.evaluation.metrics import METRICS
        from image_pipeline.run.folds import cross_validate, notice
        from image_pipeline.show.progress import ComponentProgress
        from image_pipeline.show.words import format_measured

        noticed = [
            *survey.noticed,
            *notice(survey, plan.config.training, folds),
            *check_functions(plan.config, len(survey.classes), plan.part),
        ]
        print_rows(describe_inferred(survey.options.understood, noticed), console)
        with ComponentProgress(console) as progress:
            summary = cross_validate(
                plan.config, survey, plan.output_dir, folds, plan.beam_args, progress.start
            )
        rows = [
            (
                METRICS[name].words if name in METRICS else name,
                format_measured(of["mean"], (of["low"], of["high"])),
            )
            for name, of in summary["figures"].items()
        ]
        models = ("models", f"{plan.output_dir}/fold_1 … fold_{folds}")
        print_rows([(f"mean of {folds} folds", "and its 95 % interval"), *rows, models], console)
    if as_json:
        say_json(summary | {"noticed": noticed})


def _run_and_tell(plan: "RunPlan", survey: "Listing", as_json: bool, quiet: bool) -> None:
    """Runs, shows the results, and exits with a code if the model was not pushed."""
    from image_pipeline.components.locks import hold_lock
    from image_pipeline.run.functions import check_functions
    from image_pipeline.show.ingest_summary import describe_inferred, describe_survey
    from image_pipeline.show.progress import ComponentProgress
    from image_pipeline.show.terminal import print_line, print_rows
    from image_pipeline.tfx_metadata import check_metadata

    folder, lock = plan.folder, hold_lock(plan.output_dir)
    # Two runs at once would write the same metadata.db, and could push to the same folder.
    with lock as check_lock, open_terminal(folder.log_path, as_json or quiet) as console:
        check_metadata(folder.metadata_path, folder.artifacts_dir)
        where = f" in {len(plan.earlier) + 1:,} spans" if plan.earlier else ""
        labels = describe_survey([*survey.classes], plan.config.ingest)
        what = f"{survey.found:,} files{where}, {labels}"
        if plan.config.ingest.generator is not None:
            what = f"{survey.found:,} shards of {plan.images_dir}"
        print_line(f"{what}; {plan.beam_args[0]}", console)
        print_rows(describe_inferred(survey.options.understood, survey.noticed), console)
        # The user's own functions are tried before any work; this may take TensorFlow.
        noticed = check_functions(plan.config, len(survey.classes), plan.part)
        print_rows([("look at", sentence) for sentence in noticed], console)
        with ComponentProgress(console) as progress:
            progress.start("importing TFX")
            from image_pipeline.run.local import run_locally
            from image_pipeline.show.summary import is_whole, print_summary, summarize_run

            def start(name: str) -> None:
                check_lock()
                progress.start(name)

            runs = run_locally(plan, start, progress.finish)
            check_lock()
            summary = summarize_run(runs, folder.log_path)
        if is_whole(summary):  # A part's would pass for a whole run's, and could replace one.
            with open(folder.summary_path, "w", encoding="utf-8") as file:
                file.write(to_sealed_json(summary, indent=1))
        print_summary(summary, console)
    if as_json:
        say_json(summary)
    if summary.get("blessed") is False:
        sys.exit(EXIT_NOT_PUSHED)
