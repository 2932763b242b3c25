"""A forecast as lines of text, and the free disk space."""

import dataclasses
import os
import shutil

from rich.console import Console

from image_pipeline.components import files
from image_pipeline.components.ingest.forecast import Forecast
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.show.ingest_summary import said_of_source
from image_pipeline.show.rows import print_rows
from image_pipeline.show.words import format_count

_WAY_OUT = "repair or remove them, or raise it"


@dataclasses.dataclass(frozen=True)
class Cluster:
    """What an ingest takes on a cluster of so many cores."""

    cores: int
    seconds: float
    core_hours: float


@dataclasses.dataclass(frozen=True)
class PricedCluster(Cluster):
    """The same with its cost, in the currency of the price."""

    cost: float


def free_disk_bytes(folder: str) -> int | None:
    """Free bytes on the disk that a folder is on or will be on; None for object stores."""
    if not files.is_local(folder):
        return None
    path = os.path.abspath(folder)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return shutil.disk_usage(path).free


def forecast_cluster(forecast: Forecast, cores: int, core_price: float | None) -> Cluster:
    """The forecast for a cluster.

    Args:
      forecast: the forecast for this machine.
      cores: the cluster's number of cores, each as fast as one of this machine's.
      core_price: price of a core with its memory per hour, or None.
    """
    seconds = forecast.cluster_seconds(cores)
    core_hours = cores * seconds / 3600
    rounded = cores, round(seconds, 1), round(core_hours, 3)
    if core_price is None:
        return Cluster(*rounded)
    return PricedCluster(*rounded, round(core_hours * core_price, 2))


def print_forecast(
    forecast: Forecast,
    options: IngestOptions,
    free_bytes: int | None,
    cluster: Cluster | None = None,
) -> None:
    """Shows a forecast, and in red what would stop the ingest."""
    console = Console(highlight=False)
    print_rows(forecast_rows(forecast, free_bytes), console)
    print_rows([] if cluster is None else cluster_rows(cluster), console)
    print_rows(warning_rows(forecast, options, free_bytes), console, style="red")


def forecast_rows(forecast: Forecast, free_bytes: int | None) -> list[tuple[str, str]]:
    """The lines of a forecast."""
    shards = ", ".join(f"{split} {count:,}" for split, count in forecast.shards.items())
    free = "" if free_bytes is None else f" at the peak; {_megabytes(free_bytes)} are free"
    rows = [
        *said_of_source(forecast.understood, forecast.noticed),
        ("images found", f"{forecast.found:,}, {_megabytes(forecast.source_bytes)}"),
        ("classes", _describe_classes(forecast.classes)),
        ("sampled", f"{forecast.sampled:,}"),
        ("bad files", f"about {forecast.bad_fraction:.1%}"),
    ]
    rows += _list_reasons(forecast.bad_reasons)
    if forecast.skipped_kinds:
        rows.append(("skipped", "files that are no images"))
        rows += _list_reasons(forecast.skipped_kinds)
    for encoding, size_bytes in forecast.stored_bytes.items():
        is_chosen = encoding == forecast.encoding
        remark = f" ± {forecast.error_fraction:.0%} (chosen)" if is_chosen else ""
        rows.append((f"stored as {encoding}", _megabytes(size_bytes) + remark))
    return [
        *rows,
        ("shards", shards),
        ("time", f"about {forecast.seconds:,.0f} s on this machine"),
        ("disk needed", _megabytes(forecast.peak_disk_bytes) + free),
    ]


def _list_reasons(reasons: dict[str, dict]) -> list[tuple[str, str]]:
    return [
        (
            f"  {reason}",
            f"{found['sampled']:,} of the sample, for example {found['path']}: {found['message']}",
        )
        for reason, found in reasons.items()
    ]


def cluster_rows(cluster: Cluster) -> list[tuple[str, str]]:
    """The line of a cluster's forecast."""
    cost = ""
    if isinstance(cluster, PricedCluster):
        cost = f", {cluster.cost:,.2f} at the price given"
    time = f"about {cluster.seconds:,.0f} s once its machines have started"
    return [(f"on {cluster.cores:,} cores", f"{time}, {cluster.core_hours:,.2f} core hours{cost}")]


def warning_rows(
    forecast: Forecast, options: IngestOptions, free_bytes: int | None
) -> list[tuple[str, str]]:
    """What would stop the ingest; empty if all is well."""
    rows = []
    if free_bytes is not None and forecast.peak_disk_bytes > free_bytes:
        missing = _megabytes(forecast.peak_disk_bytes - free_bytes)
        rows.append(
            ("disk too small", f"{missing} too little; free some space or choose another disk")
        )
    if forecast.bad_fraction > options.max_bad_fraction:
        allowed = f"ingest.max_bad_fraction={options.max_bad_fraction:g}"
        rows.append(
            ("too many bad files", f"more than {allowed}: the ingest would stop; {_WAY_OUT}")
        )
    return rows


def _describe_classes(classes: dict[str, int]) -> str:
    if not classes:
        return "none named by the paths; see ingest.label_pattern"
    most = format_count(max(classes.values()), "file")
    return f"{len(classes):,}, of {min(classes.values()):,} to {most}"


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB"
