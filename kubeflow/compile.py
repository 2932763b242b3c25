"""The command line of `image_pipeline.kubeflow.compile`: for Kubeflow Pipelines and Vertex AI.

This folder is not a package: PyPI has a package named kubeflow, which it would shadow.
"""

import os

import click

from image_pipeline.commands.shared import EndsIfInterrupted, say
from image_pipeline.kubeflow.compile import compile_pipeline, prepare_options


@click.command(
    cls=EndsIfInterrupted,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--images", "images_dir", required=True, help="URI of the images.")
@click.option("--root", "pipeline_root", required=True, help="URI for the steps' outputs.")
@click.option("--push", "push_dir", required=True, help="URI for models that passed.")
@click.option("--image", required=True, metavar="REGISTRY/NAME:TAG", help="Image of all steps.")
@click.option("--output", "output_path", required=True, help="pipeline.yaml, or .json for Vertex.")
@click.option("--config", "config_path", help="YAML file; overrides the defaults.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override one value, e.g. --set training.epochs=3. May be repeated.",
)
@click.argument("beam_flags", nargs=-1, type=click.UNPROCESSED)
def compile_command(
    images_dir: str,
    pipeline_root: str,
    push_dir: str,
    image: str,
    output_path: str,
    config_path: str | None,
    overrides: tuple[str, ...],
    beam_flags: tuple[str, ...],
) -> None:
    """Compile the pipeline for Kubeflow Pipelines or Vertex AI.

    Beam flags go after a separate --, for example: -- --runner=DataflowRunner --project=…
    """
    from image_pipeline.config import load_config
    from image_pipeline.show.terminal import quiet_terminal

    config = load_config(config_path, overrides)
    config, beam_args, chosen = prepare_options(config, images_dir, beam_flags)
    # Drops what libraries say while they are imported; errors still get through.
    with quiet_terminal(os.devnull):
        job = compile_pipeline(
            config, images_dir, pipeline_root, push_dir, image, output_path, beam_args
        )
    root = job["pipelineSpec"]["root"]
    steps, parameters = root["dag"]["tasks"], root["inputDefinitions"]["parameters"]
    if chosen:
        say(f"Look at: {chosen}.")
    say(f"Wrote {output_path}, {len(steps)} steps: {', '.join(sorted(steps))}.")
    say(f"Parameters of a run: {', '.join(parameters)}.")
    for name, parameter in parameters.items():
        if "defaultValue" not in parameter:
            say(f"Each run must give {name}: new when the images are.")


def main() -> None:
    """Runs the command line as `image-pipeline` does: one message for an error, and its codes."""
    from image_pipeline import cli

    cli.main(compile_command)


if __name__ == "__main__":
    main()
