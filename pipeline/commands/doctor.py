"""`image-pipeline doctor`: what limits training, measured, and what to change."""

import click

from image_pipeline.commands.shared import (
    CONFIG,
    JSON,
    SET,
    FiniteRange,
    quiet_libraries,
    say,
    say_json,
)
from image_pipeline.components.errors import UserError


@click.command()
@click.argument("folder", metavar="OUT")
@CONFIG
@SET
@click.option(
    "--seconds",
    default=3.0,
    show_default=True,
    type=FiniteRange(min=0, min_open=True, max=600),
    help="Duration of each measurement; there are about a dozen.",
)
@click.option(
    "--step-ms",
    type=FiniteRange(min=0, min_open=True),
    help="Milliseconds per step of your own model, instead of measuring training.model.",
)
@click.option(
    "--profile",
    "profile_steps",
    type=click.IntRange(1, 50),
    metavar="STEPS",
    help="Also trace this many training steps for TensorBoard (1 to 50).",
)
@click.option(
    "--profile-dir",
    default="profile",
    show_default=True,
    help="Folder for the trace.",
)
@JSON
def doctor(
    folder: str,
    config_path: str | None,
    overrides: tuple[str, ...],
    seconds: float,
    step_ms: float | None,
    profile_steps: int | None,
    profile_dir: str,
    as_json: bool,
) -> None:
    """Measure what limits training, and say what to change.

    OUT is the output folder of a run, whose options are used (--config replaces them, --set
    changes them), or a folder that ingest wrote. It measures reading, decoding, cropping, random
    steps and the transform graph on the records of the train split, the model's step, both
    together, and several short steps in one call. Estimates are marked as such. A run's folder
    keeps what was found as doctor.json, which the report shows; nothing else in it is changed.
    """
    from image_pipeline.named_folder import find_source, list_split
    from image_pipeline.run_config import read_config

    source = find_source(folder)
    config = read_config(source, config_path, overrides)
    pattern = list_split(source.data_dir, "train")
    unkept = ""
    with quiet_libraries("doctor") as console:
        from rich.console import Console

        from image_pipeline.doctor.examine import examine
        from image_pipeline.doctor.verdict import write_examination

        found = examine(
            config,
            pattern,
            source.graph_dir,
            seconds=seconds,
            step_ms=step_ms,
            profile_steps=profile_steps,
            profile_dir=profile_dir,
            console=Console(quiet=True) if as_json else console,
        )
        if source.run is not None:
            try:
                write_examination(source.run.examination_path, found)
            except (OSError, UserError) as error:
                unkept = f"Not kept for the report: {error}"
    if unkept:
        say(unkept, err=True)
    if as_json:
        say_json(vars(found))
