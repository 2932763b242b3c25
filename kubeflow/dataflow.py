"""Writes ingest as a Dataflow template: the job, described, for Dataflow to start at any time.

It is the very transform that `image-pipeline ingest` runs. Nothing is started; the template, and
beside it what the workers fetch, go to the places that the flags name.
"""

import os
import sys

import click

from components import files
from components.errors import UserError
from components.ingest.options import IngestOptions

RUNNER = "--runner=DataflowRunner"


def write_template(
    images_dir: str, output_dir: str, options: IngestOptions, beam_args: list[str]
) -> None:
    """Describes the job of ingest, and writes it where `--template_location` says.

    Args:
      images_dir: the URI of the images, as the workers see it.
      output_dir: the URI of the data set.
      options: of ingest.
      beam_args: checked Beam flags; they name Dataflow and `--template_location`.
    """
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from components.ingest.transforms import IngestImages

    pipeline = beam.Pipeline(options=PipelineOptions(beam_args))
    work_dir = files.join(output_dir, ".work")
    (
        pipeline
        | "Ingest" >> IngestImages(images_dir, output_dir, work_dir, options)  # dict
        # Or a failure here would repeat the steps before it, which need the folder.
        | "Settle" >> beam.Reshuffle()
        | "DeleteWork" >> beam.Map(lambda _, folder: files.delete_tree(folder), work_dir)
    )
    pipeline.run()


def check_remote(**paths: str) -> None:
    """Dataflow's machines see none of this one's folders.

    Raises:
      UserError: naming the option.
    """
    for name, path in paths.items():
        if files.is_local(path):
            raise UserError(
                f"--{name}={path}: Dataflow's machines cannot read this machine's folders; copy "
                "it to a bucket, and give its gs:// URI."
            )


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--images", "images_dir", required=True, help="URI of the images.")
@click.option("--output", "output_dir", required=True, help="URI of the data set.")
@click.option("--template", "template_path", required=True, help="The template: gs://BUCKET/NAME.")
@click.option("--config", "config_path", help="YAML file; overrides the defaults.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one value.")
@click.argument("beam_flags", nargs=-1, type=click.UNPROCESSED)
def template_command(
    images_dir: str,
    output_dir: str,
    template_path: str,
    config_path: str | None,
    overrides: tuple[str, ...],
    beam_flags: tuple[str, ...],
) -> None:
    """Write ingest as a Dataflow template.

    Flags go behind a separate --: --project, --region, --temp_location, --sdk_container_image.
    """
    from components.beam_args import complete_beam_args
    from pipeline.config import load_config
    from pipeline.engine import check_engine

    config = load_config(config_path, overrides)
    beam_args = complete_beam_args([RUNNER, f"--template_location={template_path}", *beam_flags])
    if not files.is_local(template_path):
        check_remote(images=images_dir, output=output_dir)
    check_engine(beam_args)
    write_template(images_dir, output_dir, config.ingest, beam_args)
    click.echo(f"Wrote {template_path}.")


def main() -> None:
    """Runs the command line; an error that a person can put right becomes one message."""
    try:
        template_command()
    except UserError as error:
        click.secho(f"Error: {error}", fg="red", err=True)
        sys.exit(1)
    # Threads of Beam and of Google's libraries have been seen to crash while Python shuts down.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
