"""Ingest and ImageTransform's analysis on a real Flink, beside the local runner.

    python -m benchmarks.flink [--images FOLDER ...] [--limit 5000] [--build build/flink]

Fetches Flink if need be (`jars.py`), and for each folder of images (small drawn ones if none
is given) runs both jobs four times: on the local runner; on two task managers with parallelism 1
and 2; and once more with 2, while the task manager that does the main work is killed in mid-run.
Every run must leave the same shards, index, books and manifest, byte for byte, and the same
`analysis.json` and vocabularies. Prints what each run took, and of that the seconds that Flink
itself was busy: the rest is the job server's start, the translation and sending the jars.
An update on Flink must leave the files of a fresh ingest. Last, a pool whose Python lacks Beam: the
job must end with an error, and not stay on the cluster.
Exits with 1 if any run differs.
"""

import argparse
import pathlib
import sys
import tempfile

from benchmarks.flink.broken_pool import check_broken_pool
from benchmarks.flink.cluster import FlinkCluster, start_cluster
from benchmarks.flink.drawings import draw_images
from benchmarks.flink.jobs import Timing, read_results, run_both
from benchmarks.flink.updating import check_update
from benchmarks.jars import FLINK, NotAvailable, fetch_job_server
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS


def link_images(source: pathlib.Path, target: pathlib.Path, limit: int) -> int:
    """Links at most `limit` images, evenly chosen, in their folders; returns how many."""
    paths = sorted(path for path in source.rglob("*") if path.is_file())
    if len(paths) > limit:
        paths = [paths[i * len(paths) // limit] for i in range(limit)]
    for path in paths:
        link = target / path.relative_to(source)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path.resolve())
    return len(paths)


def compare(source: pathlib.Path, scratch: pathlib.Path, limit: int, cluster: FlinkCluster) -> bool:
    """Makes all runs on one folder and prints them; tells whether all are identical."""
    images = scratch / "images"
    print(f"{source}: {link_images(source, images, limit):,} images", flush=True)
    runs = {
        "local runner": (LOCAL_BEAM_ARGS, None, False),
        "Flink, parallelism 1": (cluster.beam_args(1), cluster, False),
        "Flink, parallelism 2": (cluster.beam_args(2), cluster, False),
        "Flink, 2, one killed": (cluster.beam_args(2), cluster, True),
    }
    expected: dict[str, bytes] = {}
    all_same = True
    for number, (name, (beam_args, where, kill)) in enumerate(runs.items()):
        output = scratch / str(number)
        timings = run_both(images, output, beam_args, where, kill)
        results = read_results(output)
        expected = expected or results
        all_same &= results == expected
        print_run(name, timings, results == expected)
    return all_same


def print_run(name: str, timings: dict[str, Timing], is_same: bool) -> None:
    """One line a run."""
    parts = []
    for job, timing in timings.items():
        flink = f" ({timing.flink_s:.1f} on Flink)" if timing.flink_s is not None else ""
        again = f", {timing.restarts} restart(s)" if timing.restarts else ""
        parts.append(f"{job} {timing.total_s:6.1f} s{flink}{again}")
    verdict = "identical" if is_same else "DIFFERENT"
    print(f"  {name:<22}{'; '.join(parts)}; {verdict}", flush=True)


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", nargs="*", type=pathlib.Path, default=[])
    parser.add_argument("--limit", type=int, default=5000)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/flink"))
    arguments = parser.parse_args()
    try:
        job_server = fetch_job_server(FLINK, arguments.build).resolve()
    except NotAvailable as error:
        sys.exit(f"Flink cannot run here: {error}")
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        sources = arguments.images or [draw_images(scratch / "drawn")]
        with start_cluster(job_server, arguments.build / "log") as cluster:
            same = [
                compare(source, scratch / f"run-{number}", arguments.limit, cluster)
                for number, source in enumerate(sources)
            ]
            same.append(check_update(scratch / "updated", cluster))
            same.append(check_broken_pool(sources[0], scratch / "broken", cluster))
    sys.exit(not all(same))


if __name__ == "__main__":
    main()
