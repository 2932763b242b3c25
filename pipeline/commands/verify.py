"""`image-pipeline verify`: is a data set intact, and does an epoch of it hold what it should?"""

import dataclasses
import sys

import click

from image_pipeline.commands.shared import CONFIG, JSON, SET, quiet_libraries, say, say_json

_MOST_LINES = 100


@click.command()
@click.argument("data_set")
@click.option(
    "--epoch",
    type=click.IntRange(min=0),
    help="Instead, read this epoch of training and count every record.",
)
@CONFIG
@SET
@JSON
def verify(
    data_set: str,
    epoch: int | None,
    config_path: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check a data set: every file, record and index row; or a transform graph: every file.

    DATA_SET is the folder that ingest or analyze wrote. Each finding names the shard, the record,
    its source image and the byte where it begins. Exit codes: 0 all is intact, 1 it is not.

    With --epoch, draws that epoch of training according to the options (--config, --set), reads
    each of its records with its checksums, and checks that it comes as often as the options say.
    """
    from image_pipeline.named_folder import refuse_run

    refuse_run(data_set, "verify")
    if epoch is not None:
        _verify_epoch(data_set, epoch, config_path, overrides, as_json)
        return
    if config_path or overrides:
        raise click.UsageError(
            "--config and --set decide how an epoch is drawn; give --epoch, too."
        )
    with quiet_libraries("verify"):
        from image_pipeline.components.dataset.verify import verify_data_set
        from image_pipeline.components.feeding.analysis import holds_graph, verify_graph
        from image_pipeline.show.words import format_count

        what = "transform graph" if holds_graph(data_set) else "data set"
        verify_folder = verify_graph if holds_graph(data_set) else verify_data_set
        findings = verify_folder(data_set)
    if as_json:
        say_json({"findings": findings})
    else:
        for finding in findings[:_MOST_LINES]:
            say(finding)
        if len(findings) > _MOST_LINES:
            say(f"… and {len(findings) - _MOST_LINES:,} more; --json lists all of them")
        say(format_count(len(findings), "finding") if findings else f"The {what} is intact.")
    sys.exit(1 if findings else 0)


def _verify_epoch(
    data_set: str, epoch: int, config_path: str | None, overrides: tuple[str, ...], as_json: bool
) -> None:
    from image_pipeline.config import load_config

    config = load_config(config_path, overrides)
    with quiet_libraries("verify"):
        from rich.console import Console

        from image_pipeline.components import files
        from image_pipeline.components.dataset.paths import in_split
        from image_pipeline.components.feeding.records import match_files
        from image_pipeline.components.feeding.verify_epoch import verify_epoch
        from image_pipeline.show.terminal import Table, print_table
        from image_pipeline.show.words import format_count

        paths = match_files([files.join(data_set, in_split("train"))])
        verified = verify_epoch(paths, config.feeding, config.training.seed, epoch)
    if as_json:
        say_json(vars(verified))
        return
    times = format_count(verified.records, "record")
    if verified.draws == verified.records:
        times = f"{times}, each exactly once"
    else:
        times = f"{format_count(verified.draws, 'view')} of {times}, as often as due"
    line = f"Epoch {verified.epoch}: {times}, in {format_count(verified.steps, 'step')}"
    if verified.dropped:
        line += f"; {verified.dropped:,} do not fill a batch and are dropped"
    if verified.padded:
        line += f"; {verified.padded:,} more pad the last batch"
    say(f"{line}.")
    if verified.quality is not None:  # Each figure with its value for an ideal permutation.
        ideal = dataclasses.asdict(verified.ideal) if verified.ideal else {}
        rows = [
            (name.replace("_", " "), f"{value:.4f}", f"{ideal[name]:.4f}" if ideal else "")
            for name, value in dataclasses.asdict(verified.quality).items()
        ]
        heads = ("shuffle", "here", "ideal" if ideal else "")
        print_table(Table(heads, rows), Console(highlight=False))
