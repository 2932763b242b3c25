"""`image-pipeline export`: a model in another format."""

import dataclasses

import click

from image_pipeline.commands.shared import JSON, quiet_libraries, say_json
from image_pipeline.components.json_text import to_json


@click.command(short_help="Write a model as a LiteRT file, and compare its answers.")
@click.argument("model_dir", metavar="MODEL")
@click.option("--output", "path", required=True, help="The file to write, such as model.tflite.")
@click.option(
    "--format", "format_name", type=click.Choice(["litert"]), default="litert", show_default=True
)
@click.option(
    "--weights",
    type=click.Choice(["float32", "float16", "int8"]),
    default="float32",
    show_default=True,
    help="How weights are stored: float16 takes half of the bytes, int8 a quarter.",
)
@JSON
def export(model_dir: str, path: str, format_name: str, weights: str, as_json: bool) -> None:
    """Write a model as a LiteRT file, and how near its answers are to the model's own.

    MODEL is as for `predict`. The file takes pixels at the model's input size and normalises them
    itself. What it takes, and the classes' names, are written beside it as JSON.
    """
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
