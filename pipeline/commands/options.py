"""`image-pipeline options`: every option of the configuration, its default and what it does."""

import dataclasses

import click

from image_pipeline.commands.shared import JSON, complete_option, say, say_json


@click.command(short_help="List the options, or tell all about one.")
@click.argument("key", required=False, shell_complete=complete_option)
@JSON
@click.option("--markdown", is_flag=True, help="Print the page of the documentation.")
def options(key: str | None, as_json: bool, markdown: bool) -> None:
    """List the options of the configuration, or describe those that KEY names.

    KEY is an option (training.epochs), a group (training), a random step (cutout) or a word in
    their keys (epochs).
    """
    from image_pipeline.option_list import find_options, list_options
    from image_pipeline.show.options import describe_lines, list_lines, write_page

    groups = find_options(key) if key else list_options()
    if as_json:
        say_json({"groups": [dataclasses.asdict(group) for group in groups]})
    elif markdown:
        say(write_page(groups), nl=False)
    else:
        say("\n".join(describe_lines(groups) if key else list_lines(groups)).rstrip())
