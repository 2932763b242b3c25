"""An update of a data set on Flink, beside a fresh ingest of its images on the local runner."""

import pathlib
import time

from benchmarks.flink.cluster import FlinkCluster
from benchmarks.flink.drawings import draw_image, draw_images
from benchmarks.flink.jobs import JOB_TIMEOUT_S, call_cli
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS

CHANGED = 8  # images that are added, removed and moved to the other class, each


def edit(images: pathlib.Path) -> None:
    """Removes images of both classes, moves others between them, and draws new ones."""
    cats, dogs = (sorted((images / name).iterdir()) for name in ("cat", "dog"))
    for path in (*cats[:CHANGED:2], *dogs[:CHANGED:2]):
        path.unlink()
    for number in range(CHANGED):
        cats[-1 - number].rename(images / "dog" / f"was-cat-{number}.png")
        draw_image(images / "cat" / f"new-{number}.png", 10**8 + number)


def read_files(data: pathlib.Path) -> dict[str, bytes]:
    """A data set's files by their paths, but for what is hidden: times, logs and old versions."""
    files = {str(path.relative_to(data)): path for path in data.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if "/." not in f"/{name}"}


def check_update(folder: pathlib.Path, cluster: FlinkCluster) -> bool:
    """Whether an update on Flink has the files of a fresh ingest here; prints what it took.

    Args:
      folder: an empty one, for all that is written.
      cluster: where the data set is made and updated, with parallelism 2.
    """
    images, data, fresh = draw_images(folder / "images"), folder / "data", folder / "fresh"
    cluster.fill()
    given = ["--images", str(images), "--quiet", "--output"]
    on_flink = ["--", *cluster.beam_args(2)]
    call_cli(["ingest", *given, str(data), *on_flink], folder / "ingest", JOB_TIMEOUT_S)
    edit(images)
    before, started = cluster.last_job()["jid"], time.monotonic()
    call_cli(["update", str(data), "--quiet", *on_flink], folder / "update", JOB_TIMEOUT_S)
    took = time.monotonic() - started
    ran = cluster.last_job()["jid"] != before
    call_cli(["ingest", *given, str(fresh), "--", *LOCAL_BEAM_ARGS], fresh, JOB_TIMEOUT_S)
    is_same = ran and read_files(data) == read_files(fresh)
    verdict = "identical" if is_same else "DIFFERENT" if ran else "NOT RUN ON FLINK"
    print(f"  an update on Flink, parallelism 2: {took:.1f} s; {verdict}", flush=True)
    return is_same
