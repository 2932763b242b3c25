"""`image-pipeline verify`: is a data set whole?"""

import dataclasses
import json
import sys

import click

from pipeline.commands.shared import JSON

_MOST_LINES = 100


@click.command()
@click.argument("data_set")
@JSON
def verify(data_set: str, as_json: bool) -> None:
    """Check a data set: every file, record and index row.

    DATA_SET is the folder that ingest wrote. Each finding names the shard, the record, its source
    image and the byte where it begins. Exit codes: 0 the data set is whole, 1 it is not.
    """
    from components.ingest.verify import verify_data_set

    findings = verify_data_set(data_set)
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(finding) for finding in findings]))
    else:
        for finding in findings[:_MOST_LINES]:
            click.echo(finding)
        if len(findings) > _MOST_LINES:
            click.echo(f"… and {len(findings) - _MOST_LINES:,} more; --json lists all of them")
        click.echo(f"{len(findings):,} findings" if findings else "The data set is whole.")
    sys.exit(1 if findings else 0)
