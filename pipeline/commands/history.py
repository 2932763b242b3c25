"""`image-pipeline history`: the runs of a folder, what each made anew and why."""

import click

from image_pipeline.commands.shared import JSON, say
from image_pipeline.components.json_text import to_json


@click.command(short_help="List the runs in OUT: options, reasons, scores.")
@click.argument("folder", metavar="OUT")
@JSON
def history(folder: str, as_json: bool) -> None:
    """List the runs in OUT, the latest first: options that changed, steps, scores, lineage.

    OUT is the output folder of runs, of which only TFX's metadata is read.
    """
    from image_pipeline.components import files
    from image_pipeline.components.errors import UserError
    from image_pipeline.components.extras import need

    need("tfx", "`image-pipeline history`")
    from image_pipeline.history.past_runs import read_runs
    from image_pipeline.run.metadata_file import check_metadata
    from image_pipeline.run_folder import METADATA, RunFolder
    from image_pipeline.show.history import describe_runs, history_lines

    run_folder = RunFolder(folder)
    if not (files.is_local(folder) and files.exists(run_folder.metadata_path)):
        raise UserError(
            f"{folder!r} must be the local output folder of `image-pipeline run`, but it has no "
            f"{METADATA}; name that folder."
        )
    check_metadata(run_folder.metadata_path, run_folder.artifacts_dir)
    described = describe_runs(run_folder, read_runs(run_folder.metadata_path))
    if as_json:
        click.echo(to_json(described))
    else:
        say("\n".join(history_lines(described)).rstrip())
