"""Ingest and ImageTransform's analysis on Spark or Prism, beside the local runner.

    python -m benchmarks.engines spark|prism [--images FOLDER] [--build build]

Fetches the engine if need be (`jars.py`, `prism.py`), and runs both jobs on the local runner and on
the engine, over small drawn images if no folder is given. The shards, index, books and manifest,
`analysis.json` and vocabularies must be the same, byte for byte. Exits with 1 if they are not.
"""

import argparse
import pathlib
import sys
import tempfile

from benchmarks.flink.drawings import draw_images
from benchmarks.flink.jobs import read_results, run_both
from benchmarks.jars import SPARK, NotAvailable, fetch_job_server
from benchmarks.prism import fetch_prism
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS


def fetch_spark_args(build_dir: pathlib.Path) -> list[str]:
    """The Beam flags of an embedded Spark; raises `NotAvailable`."""
    return [
        "--runner=SparkRunner",
        "--spark_master_url=local[2]",
        f"--spark_job_server_jar={fetch_job_server(SPARK, build_dir / 'spark').resolve()}",
        "--environment_type=LOOPBACK",
    ]


def fetch_prism_args(build_dir: pathlib.Path) -> list[str]:
    """The Beam flags of a Prism on this machine; raises `NotAvailable`."""
    return [
        "--runner=PrismRunner",
        f"--prism_location={fetch_prism(build_dir / 'prism')}",
        "--environment_type=LOOPBACK",
    ]


ENGINES = {"spark": fetch_spark_args, "prism": fetch_prism_args}


def compare(images: pathlib.Path, scratch: pathlib.Path, engine: str, beam_args: list[str]) -> bool:
    """Runs both jobs on both engines, and prints what they took; tells whether they are equal."""
    expected: dict[str, bytes] = {}
    is_same = True
    for name, given in (("local", LOCAL_BEAM_ARGS), (engine, beam_args)):
        timings = run_both(images, scratch / name, given)
        results = read_results(scratch / name)
        expected = expected or results
        is_same = results == expected
        took = "; ".join(f"{job} {timing.total_s:.1f} s" for job, timing in timings.items())
        print(f"  {name:<6} {took}; {'identical' if is_same else 'DIFFERENT'}", flush=True)
    return is_same


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--images", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    arguments = parser.parse_args()
    if arguments.images and not arguments.images.is_dir():
        parser.error(f"--images={arguments.images}: there is no such folder.")
    try:
        beam_args = ENGINES[arguments.engine](arguments.build)
    except NotAvailable as error:
        sys.exit(f"{arguments.engine} cannot run here: {error}")
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        images = arguments.images or draw_images(scratch / "drawn", per_class=60)
        sys.exit(not compare(images, scratch, arguments.engine, beam_args))


if __name__ == "__main__":
    main()
