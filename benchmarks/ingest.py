"""Ingest beside the bare loop of the same libraries and beside a hand-written script.

    python benchmarks/ingest.py --images FOLDER [--copies 5] [--repeats 5] [--srgb-only]
        [--json FILE]

FOLDER holds photos, in any layout. All three do the same job on the same files: decode, resize the
shorter side to 256 pixels, encode as JPEG with quality 90. The bare loop runs on one core and keeps
nothing; ours (`run_ingest`: checks, hashes, splits, order, index, manifest) and the script
(`multiprocessing.Pool` and `TFRecordWriter`, no checks at all) use every core and write TFRecords.
Repetitions alternate, so that a drift of the machine's speed meets all three. Ours converts photos
with a foreign colour profile to sRGB, which the other two do not do; --srgb-only leaves those out.
"""

import argparse
import contextlib
import glob
import multiprocessing
import os
import pathlib
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable

import apache_beam as beam
import cv2
import simplejpeg
from apache_beam.options.pipeline_options import PipelineOptions

from bench.folders import photos
from bench.raw import add_json_argument, write_raw
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.threads import usable_cores

SIZE_PX, QUALITY = 256, 90
OPTIONS = IngestOptions(label_pattern=None, duplicates="keep_all", max_bad_fraction=1)


def convert(path: str) -> bytes:
    """Decode, resize, encode: what no ingest can do without."""
    image = simplejpeg.decode_jpeg(pathlib.Path(path).read_bytes(), "BGR", strict=False)
    scale = SIZE_PX / min(image.shape[:2])
    if scale < 1:
        size = [max(SIZE_PX, round(side * scale)) for side in image.shape[1::-1]]
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    return cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1].tobytes()


def run_bare_loop(paths: list[str]) -> None:
    """One core, nothing written."""
    for path in paths:
        convert(path)


def write_part(job: tuple[str, list[str]]) -> None:
    """One process's shard of the hand-written script."""
    import tensorflow as tf

    target, paths = job
    with tf.io.TFRecordWriter(target) as writer:
        for path in paths:
            value = tf.train.BytesList(value=[convert(path)])
            name = tf.train.BytesList(value=[path.encode()])
            features = {
                "image/encoded": tf.train.Feature(bytes_list=value),
                "image/filename": tf.train.Feature(bytes_list=name),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


def run_script(pool: multiprocessing.pool.Pool, paths: list[str], target: str) -> None:
    """What people write by hand: a pool of processes, a shard each."""
    cores = usable_cores()
    pool.map(write_part, [(f"{target}/{n}.tfrecord", paths[n::cores]) for n in range(cores)])


def run_ours(images_dir: str, target: str) -> None:
    """The shipped ingest, without the command line's imports."""
    run_ingest(
        images_dir,
        target,
        f"{target}/.work",
        OPTIONS,
        lambda: beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS))),
    )


def measure(work: Callable[[], None]) -> tuple[float, float]:
    """Wall and CPU seconds of this process (and, for CPU, of processes that have ended)."""
    before, started = _cpu_s(), time.perf_counter()
    work()
    return time.perf_counter() - started, _cpu_s() - before


def _cpu_s() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def is_srgb(path: str) -> bool:
    """Whether the photo needs no conversion of colours."""
    return "icc" not in prepare_image(pathlib.Path(path).read_bytes(), PrepareOptions()).notes


def copy_photos(source: str, target: str, copies: int, srgb_only: bool) -> list[str]:
    """Repeats the photos for volume; returns all paths."""
    paths = []
    photos = sorted(filter(os.path.isfile, glob.glob(f"{source}/**/*", recursive=True)))
    for photo in filter(is_srgb, photos) if srgb_only else photos:
        for copy in range(copies):
            path = f"{target}/{copy}-{pathlib.Path(photo).name}"
            shutil.copyfile(photo, path)
            paths.append(path)
    return paths


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=photos, required=True, help="a folder of photos")
    parser.add_argument("--copies", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--srgb-only", action="store_true")
    add_json_argument(parser)
    arguments = parser.parse_args()
    cv2.setNumThreads(0)
    times: dict[str, list[tuple[float, float]]] = {"bare loop": [], "ours": [], "script": []}
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory())
        folder = os.path.join(scratch, "photos")
        os.makedirs(folder)
        paths = copy_photos(arguments.images, folder, arguments.copies, arguments.srgb_only)
        pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(usable_cores()))
        pool.map(_warm_up, range(4 * usable_cores()))
        run_ours(folder, os.path.join(scratch, "warm-up"))
        for repeat in range(arguments.repeats):
            target = os.path.join(scratch, f"out-{repeat}")
            os.makedirs(target)
            times["bare loop"].append(measure(lambda: run_bare_loop(paths)))
            times["ours"].append(measure(lambda t=target: run_ours(folder, f"{t}/ours")))
            times["script"].append(measure(lambda t=target: run_script(pool, paths, t)))
            shutil.rmtree(target)
    report(times, len(paths))
    write_raw(arguments.json, "ingest", arguments, {"images": len(paths), "ways": times})


def _warm_up(_: int) -> None:
    import tensorflow  # noqa: F401

    time.sleep(0.2)  # So that every process of the pool takes one, and imports before the clock.


def report(times: dict[str, list[tuple[float, float]]], images: int) -> None:
    """Medians, and the ratios of each repetition's pairs."""
    cores = usable_cores()
    print(f"{images} photos, {cores} cores, {len(times['ours'])} alternating repetitions, medians")
    for name, pairs in times.items():
        wall = statistics.median(wall for wall, _ in pairs)
        cpu = statistics.median(cpu for _, cpu in pairs)
        cpu_text = f"{1e3 * cpu / images:6.2f} CPU ms/image" if name != "script" else ""
        print(f"  {name:<10}{images / wall:8.0f} images/s {cpu_text}")
    limit = [b[0] / (cores * o[0]) for b, o in zip(times["bare loop"], times["ours"], strict=True)]
    script = [s[0] / o[0] for s, o in zip(times["script"], times["ours"], strict=True)]
    print(f"  ours / (cores x bare loop): {statistics.median(limit):.2f}  (goal: 0.90 or more)")
    print(f"  ours / script:              {statistics.median(script):.2f}  (goal: 1.00 or more)")


if __name__ == "__main__":
    main()
