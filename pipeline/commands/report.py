"""`image-pipeline report`: a data set or a run on one page."""

import click

from image_pipeline.commands.shared import JSON, quiet_libraries, say, say_json


@click.command()
@click.argument("folder", metavar="OUT")
@click.option("--against", metavar="OTHER", help="An earlier OUT: the report shows what changed.")
@click.option(
    "--output",
    "output_path",
    default="report.html",
    show_default=True,
    help="The page: a single, self-contained HTML file.",
)
@JSON
def report(folder: str, against: str | None, output_path: str, as_json: bool) -> None:
    """Summarise a data set or a run on one HTML page.

    OUT is the folder that ingest wrote, or the output folder of a run. The page opens from disk and
    needs no network. Pixels are measured on a sample; the page says how large it is.
    """
    if not output_path.endswith(".html"):
        raise click.UsageError(f"--output must end in .html, got {output_path!r}.")
    with quiet_libraries("report"):
        from image_pipeline.components.evaluation.facts import seal_evaluation
        from image_pipeline.report.page import write_report

        figures = write_report(folder, against, output_path)
        if figures["evaluation"]:
            figures["evaluation"] = seal_evaluation(figures["evaluation"])
    if as_json:
        say_json(figures | {"output": output_path})
        return
    for notice in figures["notices"]:
        say(f"{notice.section}: {notice.text}")
    say(output_path)
