"""ImageTransform's analysis beside tf.Transform's usual way with images, and beside ingest.

    python benchmarks/transform.py --images FOLDER [--copies 1] [--repeats 3] [--json FILE]

FOLDER holds photos, in any layout. They are ingested (256 px, JPEG 90); then two ways give the same
statistics and the same normalised images of the same shards, by the same Beam runner:

  ours   `run_analysis`: decodes in threads, analyses uint8 batches, writes the graph only. Training
         decodes the stored JPEGs again, as it must to make random views.
  naive  what TFX's Transform does: the `preprocessing_fn` decodes every record's bytes in the
         graph, by `tf.map_fn`, and `AnalyzeAndTransformDataset` writes float pixels to TFRecords
         (not gzipped, as TFX would, which only takes longer). TFX's own bookkeeping is left out.

Each way runs on all photos and on every eighth. Two sizes give the cost of an image and the fixed
cost (start-up, tracing, two shards, checks of the graph), which are the slope and the intercept.
Each run has its own process; clock and CPU seconds start after the imports. Ingest's CPU seconds
for the same photos are printed beside ours; the goal is a share below 25 %, without the fixed cost.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

from bench.fits import fit_line
from bench.folders import photos
from bench.raw import add_json_argument, write_raw

SHARDS = 2  # of both sizes, so that what a shard costs is in the fixed part
SMALL = 8  # the smaller size is every eighth photo
VIEW = {"height_px": 224, "width_px": 224, "crop_fraction": 0.875}
INGEST = {
    # The photo's folder: copies have one label, as files of the same content must.
    "label_pattern": r"\d+-(?P<label>.+?)-.+",
    "duplicates": "keep_all",
    "max_bad_fraction": 1,
    "splits": {"train": 1.0},
    "shards": SHARDS,
}


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one run took."""

    wall_s: float
    cpu_s: float
    written_bytes: int
    images: int


def run_ingest_way(images_dir: str, data_dir: str) -> int:
    """Ingests the photos; returns how many records there are."""
    from image_pipeline.components.ingest.run import run_ingest
    from image_pipeline.components.meaning.options import IngestOptions

    options = IngestOptions.model_validate(INGEST)
    work_dir = f"{data_dir}/.work"
    return run_ingest(images_dir, data_dir, work_dir, options, _make_pipeline).books.written


def run_ours(data_dir: str, output_dir: str) -> int:
    """The shipped analysis, without TFX."""
    from image_pipeline.components.transform.options import TransformOptions
    from image_pipeline.components.transform.run import run_analysis
    from image_pipeline.components.views.options import ViewOptions

    options = TransformOptions()
    view = ViewOptions.model_validate(VIEW)
    return run_analysis(data_dir, output_dir, view, options, _make_pipeline)["records"]


def run_naive(data_dir: str, output_dir: str) -> int:
    """Serialized records in, float pixels out, by tf.Transform alone."""
    import apache_beam as beam
    import tensorflow_transform.beam as tft_beam
    from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder
    from tfx_bsl.public import tfxio

    manifest = json.loads(pathlib.Path(data_dir, "manifest.json").read_text())
    shards = [f"{data_dir}/{shard['file']}" for shard in manifest["splits"]["train"]["shards"]]
    source = tfxio.TFExampleRecord(shards, telemetry_descriptors=["Benchmark"], schema=_schema())
    with (
        tempfile.TemporaryDirectory() as scratch,
        _make_pipeline() as root,
        tft_beam.Context(temp_dir=scratch),
    ):
        records = root | "Read" >> source.BeamSource(batch_size=64)
        (transformed, metadata), transform_fn = (
            records,
            source.TensorAdapterConfig(),
        ) | tft_beam.AnalyzeAndTransformDataset(decode_and_standardize, output_record_batches=True)
        encoder = RecordBatchToExamplesEncoder(metadata.schema)
        _ = (
            transformed
            | "Encode" >> beam.FlatMapTuple(lambda batch, _: encoder.encode(batch))
            | "Write" >> beam.io.WriteToTFRecord(f"{output_dir}/floats", num_shards=len(shards))
        )
        _ = transform_fn | tft_beam.WriteTransformFn(output_dir)
    return manifest["splits"]["train"]["records"]


def decode_and_standardize(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The naive `preprocessing_fn`: from bytes to floats, by the same view and statistics."""
    import tensorflow as tf

    from image_pipeline.components import contract
    from image_pipeline.components.dataset import record
    from image_pipeline.components.transform.preprocessing import standardize
    from image_pipeline.components.views import graph as views
    from image_pipeline.components.views.options import ViewOptions

    view = ViewOptions.model_validate(VIEW)
    images = tf.map_fn(
        lambda encoded: views.eval_view(views.decode_image(encoded, view.channels), view),
        inputs[record.IMAGE],
        fn_output_signature=tf.TensorSpec([view.height_px, view.width_px, 3], tf.uint8),
    )
    own = {contract.IMAGE_INPUT: images, contract.LABEL_INPUT: inputs[record.LABEL]}
    return standardize(own)


def _schema() -> Any:
    """What the naive way's records hold, as SchemaGen would say it."""
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    from image_pipeline.components.dataset import record

    one = "presence { min_fraction: 1 } shape {}"
    features = [
        f'feature {{ name: "{key}" type: BYTES {one} }}' for key in (record.IMAGE, record.LABEL)
    ]
    return text_format.Parse("\n".join(features), schema_pb2.Schema())


def _make_pipeline() -> Any:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS

    return beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS)))


WAYS: dict[str, Callable[[str, str], int]] = {
    "ingest": run_ingest_way,
    "ours": run_ours,
    "naive": run_naive,
}


def measure_here(way: str, source: str, target: str) -> Cost:
    """Runs a way in this process, after its imports."""
    import tensorflow_transform.beam  # noqa: F401

    import image_pipeline.components.ingest.run
    import image_pipeline.components.transform.run  # noqa: F401

    before, started = _cpu_s(), time.perf_counter()
    images = WAYS[way](source, target)
    wall_s, cpu_s = time.perf_counter() - started, _cpu_s() - before
    written = sum(path.stat().st_size for path in pathlib.Path(target).rglob("*") if path.is_file())
    return Cost(wall_s, cpu_s, written, images)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(way: str, source: str, target: str) -> Cost:
    """Runs a way in a process of its own, whose messages are shown only if it fails."""
    command = [sys.executable, __file__, "--measure", way, source, target]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{way} failed:\n{done.stderr[-3000:]}")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def copy_photos(source: str, target: str, copies: int) -> None:
    """Repeats the photos for volume."""
    os.makedirs(target)
    for photo in sorted(filter(os.path.isfile, pathlib.Path(source).rglob("*"))):
        for copy in range(copies):
            shutil.copyfile(photo, f"{target}/{copy}-{photo.parent.name}-{photo.name}")


def take_part(images_dir: str, target: str, part: int) -> str:
    """A folder with every n-th photo: the smaller size."""
    os.makedirs(target)
    for path in sorted(pathlib.Path(images_dir).iterdir())[::part]:
        shutil.copyfile(path, f"{target}/{path.name}")
    return target


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=photos, help="a folder of photos")
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", nargs=3, metavar=("WAY", "SOURCE", "TARGET"))
    add_json_argument(parser)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(dataclasses.asdict(measure_here(*arguments.measure))))
    elif arguments.images:
        with tempfile.TemporaryDirectory() as scratch:
            found = run_all(scratch, arguments.images, arguments.copies, arguments.repeats)
        raw = {
            way: [[dataclasses.asdict(cost) for cost in pair] for pair in pairs]
            for way, pairs in found.items()
        }
        report(raw)
        write_raw(arguments.json, "analysis", arguments, raw)
    else:
        parser.error("--images is needed")


def run_all(
    scratch: str, images_dir: str, copies: int, repeats: int
) -> dict[str, list[tuple[Cost, Cost]]]:
    """Every way's costs for the small and the whole size, repeated, the ways taking turns."""
    whole = f"{scratch}/whole"
    copy_photos(images_dir, whole, copies)
    sources = [take_part(whole, f"{scratch}/part", SMALL), whole]
    found: dict[str, list[tuple[Cost, Cost]]] = {way: [] for way in WAYS}
    for _ in range(repeats):
        data = [f"{scratch}/data-{size}" for size in ("part", "whole")]
        for way, inputs in (("ingest", sources), ("ours", data), ("naive", data)):
            targets = data if way == "ingest" else [f"{scratch}/{way}-{n}" for n in range(2)]
            for target in targets:
                shutil.rmtree(target, ignore_errors=True)
                os.makedirs(target)
            small, large = (measure(way, *pair) for pair in zip(inputs, targets, strict=True))
            found[way].append((small, large))
            for target in [] if way == "ingest" else targets:
                shutil.rmtree(target)
    return found


def report(found: dict[str, list[list[dict[str, Any]]]]) -> None:
    """A line a way, then ours against ingest and against the naive way."""
    small, large = found["ours"][0]
    print(f"{small['images']} and {large['images']} photos, {len(found['ours'])} repetitions")
    print("            images/s   CPU s per 1,000   fixed wall s   fixed CPU s   written MB")
    slopes = {}
    for way, pairs in found.items():
        rounds = [cost for pair in pairs for cost in pair]
        wall, cpu = fit_line(rounds, "wall_s"), fit_line(rounds, "cpu_s")
        slopes[way] = cpu.slope
        written_mb = statistics.median(large["written_bytes"] for _, large in pairs) / 1e6
        print(
            f"  {way:<8}{1 / wall.slope:10,.0f}{1e3 * cpu.slope:15.2f}"
            f"{wall.fixed:15.1f}{cpu.fixed:14.1f}{written_mb:13,.2f}"
        )
    naive = statistics.median(
        naive["wall_s"] / ours["wall_s"]
        for (_, naive), (_, ours) in zip(found["naive"], found["ours"], strict=True)
    )
    share = slopes["ours"] / slopes["ingest"]
    print(f"  ours / ingest, CPU an image: {share:.0%}  (goal: below 25 %)")
    print(f"  naive / ours, wall time of all {large['images']} photos: {naive:.1f}")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
