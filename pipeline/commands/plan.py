"""`image-pipeline plan`: what an ingest will need and store, before it runs."""

import dataclasses

import click

from image_pipeline.commands.shared import (
    CONFIG,
    FOLLOW_LINKS,
    IMAGES,
    JSON,
    SET,
    FiniteRange,
    add_follow_links,
    say_json,
)


@click.command()
@IMAGES
@click.option(
    "--output",
    "output_dir",
    default=".",
    help="Where results would go; its free disk space is shown.",
)
@CONFIG
@SET
@FOLLOW_LINKS
@click.option("--sample", default=200, show_default=True, type=click.IntRange(min=1))
@click.option("--seed", default=0, show_default=True, help="Chooses the sample.")
@click.option(
    "--cores",
    type=click.IntRange(min=1),
    help="Also forecast a cluster with this many cores, each as fast as one here.",
)
@click.option(
    "--core-price",
    type=FiniteRange(min=0),
    help="Price of one core there per hour, with its memory.",
)
@JSON
def plan(
    images_dir: str,
    output_dir: str,
    config_path: str | None,
    overrides: tuple[str, ...],
    follow_links: bool,
    sample: int,
    seed: int,
    cores: int | None,
    core_price: float | None,
    as_json: bool,
) -> None:
    """Forecast an ingest: bytes, shards, time and disk space.

    Prepares a random sample of the files and writes nothing. Byte-identical files are unknown
    until all files are read, so each of them is counted.
    """
    from image_pipeline.components.ingest.forecast import forecast_ingest
    from image_pipeline.config import load_config
    from image_pipeline.show.forecast import forecast_cluster, free_disk_bytes, print_forecast

    if core_price is not None and cores is None:
        raise click.UsageError("--core-price is the price of one of --cores; give both.")
    options = load_config(config_path, add_follow_links(overrides, follow_links)).ingest
    forecast = forecast_ingest(images_dir, options, sample, seed)
    free_bytes = free_disk_bytes(output_dir)
    cluster = None if cores is None else forecast_cluster(forecast, cores, core_price)
    if as_json:
        further = {"free_disk_bytes": free_bytes} | (
            {} if cluster is None else {"cluster": cluster}
        )
        say_json(dataclasses.asdict(forecast) | further)
    else:
        print_forecast(forecast, options, free_bytes, cluster)
