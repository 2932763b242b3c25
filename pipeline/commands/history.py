"""`image-pipeline history`: the runs of a folder, what each made again and why."""

import click

from image_pipeline.commands.shared import JSON, say, say_json


@click.command(short_help="List the runs in OUT: options, reasons, scores.")
@click.argument("folder", metavar="OUT")
@JSON
def history(folder: str, as_json: bool) -> None:
    """List the runs in OUT, the latest first: options that changed, steps, scores, lineage.

    OUT is the output folder of runs; TFX's metadata says what they did, `facts.json` how good their
    models are.
    """
    from image_pipeline.components.extras import need

    need("tfx", "`image-pipeline history`")
    from image_pipeline.show.history import history_lines, read_past

    described = read_past(folder)
    if as_json:
        say_json({"runs": described})
    else:
        say("\n".join(history_lines(described)).rstrip())
