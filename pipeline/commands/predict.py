"""`image-pipeline predict`, `export`: what a model says of images; other formats."""

import dataclasses
import sys

import click

from image_pipeline.commands.shared import CONFIG, JSON, SET, quiet_libraries, say, say_json
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


@click.command(short_help="Write a model as LiteRT, or a data set as Parquet.")
@click.argument("source", metavar="MODEL|DATA")
@click.option(
    "--output", "path", required=True, help="The file to write, such as model.tflite; or a folder."
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["litert", "parquet"]),
    default="litert",
    show_default=True,
)
@click.option(
    "--weights",
    type=click.Choice(["float32", "float16", "int8"]),
    default="float32",
    show_default=True,
    help="litert: how weights are stored: float16 takes half of the bytes, int8 a quarter.",
)
@click.option("--name", help="parquet: the data set's name; by default, its folder's.")
@click.option(
    "--licence",
    help="parquet: identifier or address of the licence; by default, those that a column says.",
)
@JSON
def export(
    source: str,
    path: str,
    format_name: str,
    weights: str,
    name: str | None,
    licence: str | None,
    as_json: bool,
) -> None:
    """Write a model as a LiteRT file, or a data set as Parquet for Hugging Face and Croissant.

    litert: MODEL is as for `predict`. The file takes pixels at the model's input size and
    normalises them itself. What it takes, and the classes' names, are written beside it as JSON,
    and how near its answers are to the model's own is printed.

    parquet: DATA is the folder that ingest wrote, or the output folder of a run. Written are a file
    for each shard, README.md (a data card) and croissant.json.
    """
    if format_name == "parquet":
        _export_data(source, path, name, licence, as_json)
    elif name or licence:
        raise click.UsageError("--name and --licence are for --format parquet.")
    else:
        _export_model(source, path, format_name, weights, as_json)


def _export_data(
    source: str, folder: str, name: str | None, licence: str | None, as_json: bool
) -> None:
    from image_pipeline.components.dataset.as_parquet import write_parquet
    from image_pipeline.named_folder import find_latest_data_set

    data_dir = find_latest_data_set(source)
    name = name or source.rstrip("/").rpartition("/")[2] or "images"
    written = write_parquet(data_dir, folder, name, licence)
    if as_json:
        say_json({"path": folder, "files": written})
    else:
        say(f"{folder}: {', '.join(written)}")


def _export_model(model_dir: str, path: str, format_name: str, weights: str, as_json: bool) -> None:
    from image_pipeline.components import files
    from image_pipeline.named_model import find_model

    with quiet_libraries("export") as console:
        folder = find_model(model_dir)
        files.check_writable(path)
        from image_pipeline.components.inference import litert
        from image_pipeline.components.inference.exported import ExportedModel

        model = ExportedModel(folder)
        content = litert.convert_model(model, weights)  # type: ignore[arg-type]
        parity = dataclasses.asdict(litert.measure_parity(model, content))
        facts = {
            "model": folder,
            "format": format_name,
            "weights": weights,
            **litert.describe_model(model),
            "bytes": len(content),
            "parity": parity,
        }
        files.write_file(path, content)
        files.write_file(f"{path}.json", (to_json(facts, indent=1) + "\n").encode())
        from image_pipeline.show.terminal import print_rows

        console.quiet = as_json
        same = parity["same_likeliest"]
        labels = "" if same is None else f"; the likeliest class is the same in {same:.2%}"
        differ = f"{parity['mean_difference']:.2g} on average, {parity['most_difference']:.2g} at"
        rows = [
            ("model", folder),
            ("file", f"{path}, {len(content):,} bytes, weights {weights}"),
            ("beside it", f"{path}.json: the input, the outputs, the classes"),
            ("answers differ", f"{differ} most, over {parity['images']} drawn images{labels}"),
        ]
        print_rows(rows, console)
    if as_json:
        say_json({"path": path, **facts})
