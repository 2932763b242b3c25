"""`image-pipeline predict`: what a model says of images."""

import sys

import click

from image_pipeline.commands.shared import CONFIG, SET, quiet_libraries
from image_pipeline.components.errors import UserError
from image_pipeline.components.json_text import to_json


@click.command()
@click.argument("model_dir", metavar="MODEL")
@click.argument("images", nargs=-1, required=True, metavar="IMAGES...")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each file.")
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="How many of the likeliest classes, tags or objects to name.",
)
@click.option("--output", "output_dir", help="Folder for the masks, a PNG for each file.")
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    help="Most files to ask about at a time.",
)
@CONFIG
@SET
def predict(
    model_dir: str,
    images: tuple[str, ...],
    as_json: bool,
    top: int,
    output_dir: str | None,
    batch_size: int,
    config_path: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Ask a model about images, and print a line for each.

    MODEL is the folder of an exported or pushed model, a folder of versions, or the output folder
    of a run, whose latest model is asked; or a URI. IMAGES are files, patterns, folders, archives,
    tables, or whatever ingest takes; options for these are given as for ingest.

    The exit code is 1 if any file could not be predicted.
    """
    from image_pipeline.config import load_config
    from image_pipeline.named_model import find_model
    from image_pipeline.run.preflight import check_output
    from image_pipeline.show.predictions import PredictionTable

    options = load_config(config_path, overrides).ingest
    with quiet_libraries("predict") as console:
        folder = find_model(model_dir)
        if output_dir is not None:
            for named in images:
                check_output(output_dir, named)
        from image_pipeline.components.inference.exported import ExportedModel
        from image_pipeline.components.inference.predict import predict as ask
        from image_pipeline.components.inference.predict import write_mask
        from image_pipeline.components.tasks.signatures import MASK_BYTES

        model = ExportedModel(folder)
        if output_dir is not None and MASK_BYTES not in model.outputs:
            raise UserError(
                "--output is for masks, but the model gives none; leave it out, and send what is "
                "printed to a file."
            )
        table = PredictionTable(console)
        if not as_json:
            console.print(f"model {folder}", markup=False, soft_wrap=True)
        for prediction in ask(model, images, options, top, batch_size):
            shown = write_mask(prediction, output_dir)
            table.count(shown)
            if as_json:
                console.file.write(f"{to_json(shown)}\n")
                console.file.flush()
            else:
                table.print(shown)
        if not as_json:
            table.finish()
    if table.failed:
        sys.exit(1)
