"""A forecast of an ingest as lines of text, with what would stop it."""

import os
import shutil

from rich.console import Console

from image_pipeline.components import files
from image_pipeline.components.ingest.forecast import Forecast
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.show.ingest_summary import describe_inferred
from image_pipeline.show.terminal import print_rows
from image_pipeline.show.words import format_count


def free_disk_bytes(folder: str) -> int | None:
    """Free bytes on the disk that a folder is on or will be on; None for object stores."""
    if not files.is_local(folder):
        return None
    path = os.path.abspath(folder)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return shutil.disk_usage(path).free


def forecast_cluster(
    forecast: Forecast, cores: int, core_price: float | None
) -> dict[str, int | float]:
    """What an ingest takes on a cluster.

    Args:
      forecast: the forecast for this machine.
      cores: the cluster's number of cores, each as fast as one of this machine's.
      core_price: price of a core with its memory per hour, or None.

    Returns:
      `cores`, `seconds`, `core_hours`, and with a price the `cost` in its currency.
    """
    seconds = forecast.cluster_seconds(cores)
    hours = cores * seconds / 3600
    found = {"cores": cores, "seconds": round(seconds, 1), "core_hours": round(hours, 3)}
    return found if core_price is None else found | {"cost": round(hours * core_price, 2)}


def print_forecast(
    forecast: Forecast,
    options: IngestOptions,
    free_bytes: int | None,
    cluster: dict[str, int | float] | None = None,
) -> None:
    """Shows a forecast, and in red what would stop the ingest."""
    classes = "none named by the paths; see ingest.label_pattern"
    if counts := forecast.classes.values():
        most = format_count(max(counts), "file")
        classes = f"{len(counts):,}, of {min(counts):,} to {most}"
    rows = [
        *describe_inferred(forecast.understood, forecast.noticed),
        ("images found", f"{forecast.found:,}, {_megabytes(forecast.source_bytes)}"),
        ("classes", classes),
        ("sampled", f"{forecast.sampled:,}"),
        ("bad files", f"about {forecast.bad_fraction:.1%}"),
        *_list_reasons(forecast.bad_reasons),
    ]
    if forecast.skipped_kinds:
        rows += [("skipped", "files that are not images"), *_list_reasons(forecast.skipped_kinds)]
    for encoding, size_bytes in forecast.stored_bytes.items():
        is_chosen = encoding == forecast.encoding
        remark = f" ± {forecast.error_fraction:.0%} (chosen)" if is_chosen else ""
        rows.append((f"stored as {encoding}", _megabytes(size_bytes) + remark))
    shards = ", ".join(f"{split} {count:,}" for split, count in forecast.shards.items())
    free = "" if free_bytes is None else f" at the peak; {_megabytes(free_bytes)} are free"
    rows += [
        ("shards", shards),
        ("time", f"about {forecast.seconds:,.0f} s on this machine"),
        ("disk needed", _megabytes(forecast.peak_disk_bytes) + free),
    ]
    if cluster is not None:
        time = f"about {cluster['seconds']:,.0f} s once its machines have started"
        cost = f", {cluster['cost']:,.2f} at the price given" if "cost" in cluster else ""
        text = f"{time}, {cluster['core_hours']:,.2f} core hours{cost}"
        rows.append((f"on {cluster['cores']:,} cores", text))
    console = Console(highlight=False)
    print_rows(rows, console)
    print_rows(warning_rows(forecast, options, free_bytes), console, style="red")


def warning_rows(
    forecast: Forecast, options: IngestOptions, free_bytes: int | None
) -> list[tuple[str, str]]:
    """What would stop the ingest; empty if all is well."""
    rows = []
    if free_bytes is not None and forecast.peak_disk_bytes > free_bytes:
        missing = _megabytes(forecast.peak_disk_bytes - free_bytes)
        way_out = "free some space or choose another disk"
        rows.append(("disk too small", f"{missing} too little; {way_out}"))
    if forecast.bad_fraction > options.max_bad_fraction:
        allowed = f"more than ingest.max_bad_fraction={options.max_bad_fraction:g}"
        way_out = "repair or remove them, or raise it"
        rows.append(("too many bad files", f"{allowed}: the ingest would stop; {way_out}"))
    return rows


def _list_reasons(reasons: dict[str, dict]) -> list[tuple[str, str]]:
    template = "{sampled:,} of the sample, for example {path}: {message}"
    return [(f"  {reason}", template.format(**found)) for reason, found in reasons.items()]


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB"
