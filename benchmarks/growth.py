"""What grows with the data: ingest, analysis and an epoch at several sizes.

    python benchmarks/growth.py --images FOLDER [--sizes 1 3 10 30] [--records 0] [--repeats 3]
        [--json FILE]

FOLDER holds photos, in any layout; a size is how often each of them is there, as a link to it (with
--records, of that many of them). Every run has its own process, whose clock starts after its
imports:

  ingest    `run_ingest`: 256 px, JPEG 90, in two shards a core
  analysis  `run_analysis` of a view of 224 px, with its own graph
  epoch     `input_fn`: random crops and flips, from its call to the last batch of the first epoch

A line fitted by least squares of relative errors gives the cost of an image and the fixed cost;
RESULTS.md projects both to ImageNet-1k.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from bench.fits import fit_line
from bench.folders import photos
from bench.raw import add_json_argument, write_raw
from rivals.install import QUIET
from rivals.usage import cpu_s

VIEW = {"height_px": 224, "width_px": 224, "crop_fraction": 0.875}
STEPS = [{"op": "random_resized_crop"}, {"op": "flip_horizontal", "probability": 0.5}]
BATCH_SIZE = 64


def run_ingest_here(folder: pathlib.Path) -> Callable[[], int]:
    """Prepares the ingest of the folder's photos."""
    from image_pipeline.components.ingest.run import run_ingest
    from image_pipeline.components.meaning.options import IngestOptions

    options = IngestOptions.model_validate(
        {
            "label_pattern": None,
            "duplicates": "keep_all",
            "splits": {"train": 1.0},
            "shards": 2 * len(os.sched_getaffinity(0)),
            "follow_links": True,
            "max_bad_fraction": 1,
        }
    )
    places = [str(folder / name) for name in ("photos", "records", ".work")]
    return lambda: run_ingest(*places, options, _make_pipeline).books.written


def run_analysis_here(folder: pathlib.Path) -> Callable[[], int]:
    """Prepares the analysis of the folder's records."""
    from image_pipeline.components.transform.options import TransformOptions
    from image_pipeline.components.transform.run import run_analysis
    from image_pipeline.components.views.options import ViewOptions

    view, options = ViewOptions.model_validate(VIEW), TransformOptions()
    records, graph = str(folder / "records"), str(folder / "graph")
    return lambda: run_analysis(records, graph, view, options, _make_pipeline)["records"]


def run_epoch_here(folder: pathlib.Path) -> Callable[[], int]:
    """Prepares the first epoch of the folder's records."""
    from image_pipeline.components.feeding.input_fn import input_fn
    from image_pipeline.components.feeding.options import FeedingOptions
    from image_pipeline.components.views.options import ViewOptions

    shards = sorted(map(str, (folder / "records").glob("Split-train/*tfrecord*")))
    feeding = {"batch_size": BATCH_SIZE, "augment": STEPS, "hold_decoded": False}

    def read() -> int:
        batches = input_fn(
            shards,
            view=ViewOptions.model_validate(VIEW),
            feeding=FeedingOptions.model_validate(feeding),
            transform_graph_dir=str(folder / "graph"),
            mode="train",
            epochs=1,
        )
        return sum(len(batch[0]) for batch in batches)

    return read


def _make_pipeline() -> Any:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS

    return beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS)))


STAGES = {"ingest": run_ingest_here, "analysis": run_analysis_here, "epoch": run_epoch_here}


def measure_here(stage: str, folder: pathlib.Path) -> dict[str, float]:
    """Runs a stage in this process, after its imports."""
    import tensorflow_transform.beam  # noqa: F401

    work = STAGES[stage](folder)
    before, started = cpu_s(), time.perf_counter()
    images = work()
    wall_s, used_s = time.perf_counter() - started, cpu_s() - before
    return {"images": images, "wall_s": wall_s, "cpu_s": used_s}


def measure(stage: str, folder: pathlib.Path) -> dict[str, float]:
    """Runs a stage in a process of its own, whose messages are shown only if it fails."""
    command = [sys.executable, "-W", "ignore", __file__, "--measure", stage, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | QUIET)
    if done.returncode:
        raise RuntimeError(f"{stage} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def link_photos(photos: list[pathlib.Path], target: pathlib.Path, copies: int) -> None:
    """A folder with links to each photo, so many times."""
    target.mkdir(parents=True)
    for number, photo in enumerate(photos):
        for copy in range(copies):
            (target / f"{copy}-{number:06d}{photo.suffix}").symlink_to(photo.resolve())


def run_all(arguments: argparse.Namespace, scratch: pathlib.Path) -> dict[str, Any]:
    """Every stage's rounds at every size."""
    found = sorted(path for path in pathlib.Path(arguments.images).rglob("*") if path.is_file())
    photos = found[: arguments.records or None]
    stages: dict[str, list[dict[str, float]]] = {stage: [] for stage in STAGES}
    for size in arguments.sizes:
        for _ in range(arguments.repeats):
            link_photos(photos, scratch / "photos", size)
            for stage, rounds in stages.items():
                rounds.append(measure(stage, scratch) | {"size": size})
                said = {name: round(value, 2) for name, value in rounds[-1].items()}
                print(f"  {stage:<9}{said}", flush=True)
            shutil.rmtree(scratch)
            scratch.mkdir()
    return {"photos": len(photos), "stages": stages}


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=photos, help="a folder of photos")
    parser.add_argument("--sizes", nargs="+", type=int, default=[1, 3, 10, 30])
    parser.add_argument("--records", type=int, default=0, help="photos to take; 0: all")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", nargs=2, metavar=("STAGE", "FOLDER"), help=argparse.SUPPRESS)
    add_json_argument(parser)
    arguments = parser.parse_args()
    if arguments.measure:
        stage, folder = arguments.measure
        print(json.dumps(measure_here(stage, pathlib.Path(folder))))
        return
    if not arguments.images:
        parser.error("--images is needed")
    with tempfile.TemporaryDirectory() as scratch:
        results = run_all(arguments, pathlib.Path(scratch))
    for stage, rounds in results["stages"].items():
        for name in ("wall_s", "cpu_s"):
            line = fit_line(rounds, name)
            print(f"  {stage:<9}{name:<7}{1e3 * line.slope:8.3f} ms an image, {line.fixed:.2f} s")
    del arguments.measure
    write_raw(arguments.json, "growth", arguments, results)


if __name__ == "__main__":
    main()
