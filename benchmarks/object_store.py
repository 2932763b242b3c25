"""Ingest and reading from an object store 50 ms away, beside the same from the local disk.

    python -m benchmarks.object_store --images FOLDER [--limit 400] [--copies 3] [--repeats 3]
        [--scheme gs] [--delay-ms 50] [--threads 0] [--tasks images ingest read]

FOLDER holds photos, in any layout. The store is `tests/object_store/server.py` on loopback, each of
whose answers waits for the delay. Local and store take turns. `images` is an ingest with the images
in the store and all else on the disk; `ingest` has the working folder and the output there, too;
`read` is one epoch of `input_fn` at 224 px with random crops. A line gives medians: images/s, CPU
seconds of this process, those of the store (it shares this machine's cores, which a real one would
not), and requests an image.
"""

import argparse
import collections
import contextlib
import dataclasses
import functools
import itertools
import os
import pathlib
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator

import apache_beam as beam
import psutil
from apache_beam.options.pipeline_options import PipelineOptions

from image_pipeline.components import files
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.threads import map_in_order, usable_cores
from tests.object_store.store import Store, run_store, use_store

SIZE_PX, BATCH_SIZE = 224, 32


@dataclasses.dataclass(frozen=True)
class Timing:
    """One run: its wall and CPU seconds, the store's CPU seconds, and the requests to it."""

    wall_s: float
    cpu_s: float
    store_cpu_s: float
    requests: dict[str, int]


def ingest(root: str, target: str, run: str, threads: int) -> None:
    """The shipped ingest, of a root's photos into a folder below the target."""
    options = IngestOptions(duplicates="keep_all", max_bad_fraction=1, threads=threads)
    output = files.join(target, f"data-{run}")
    run_ingest(
        files.join(root, "photos"),
        output,
        files.join(output, ".work"),
        options,
        lambda: beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS))),
    )


def read(root: str) -> int:
    """An epoch of training batches of a root's first data set; returns the images."""
    from image_pipeline.components.feeding.input_fn import input_fn
    from image_pipeline.components.feeding.options import FeedingOptions
    from image_pipeline.components.views.options import ViewOptions

    batches = input_fn(
        [files.join(root, "data-0", "Split-train", "*")],
        view=ViewOptions(height_px=SIZE_PX, width_px=SIZE_PX),
        feeding=FeedingOptions(
            batch_size=BATCH_SIZE,
            hold_decoded=False,
            augment=["random_resized_crop", "flip_horizontal"],
        ),
        transform_graph_dir=None,
        mode="train",
    )
    return sum(len(images) for images, _ in batches)


def measure(work: Callable[[], object], store: Store) -> Timing:
    """Runs it once."""
    store.control()
    server = psutil.Process(store.process_id)
    before, server_before = _cpu_s(), sum(server.cpu_times()[:2])
    started = time.perf_counter()
    work()
    wall_s = time.perf_counter() - started
    server_s = sum(server.cpu_times()[:2]) - server_before
    return Timing(wall_s, _cpu_s() - before, server_s, store.control()["requests"])


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def copy_photos(source: str, target: str, limit: int, copies: int) -> int:
    """Copies the first photos, several times each, to a folder `all`; returns their number.

    One folder is one label: equal images of several labels would be put aside.
    """
    found = sorted(path for path in pathlib.Path(source).rglob("*") if path.is_file())[:limit]
    folder = pathlib.Path(target) / "all"
    folder.mkdir(parents=True)
    for copy, (number, path) in itertools.product(range(copies), enumerate(found)):
        shutil.copyfile(path, folder / f"{copy}-{number:05d}-{path.name}")
    return len(found) * copies


def upload(source: str, target: str) -> None:
    """Copies a local folder to the store."""
    paths = [path for path in pathlib.Path(source).rglob("*") if path.is_file()]

    def write(path: pathlib.Path) -> None:
        with files.write_atomically(files.join(target, str(path.relative_to(source)))) as file:
            file.write(path.read_bytes())

    collections.deque(map_in_order(write, paths, 8), maxlen=0)


def report(task: str, images: int, timings: dict[str, list[Timing]]) -> None:
    """Medians of each place, and of the ratios of each repetition's pair."""
    print(task)
    for place, runs in timings.items():
        wall_s = statistics.median(run.wall_s for run in runs)
        cpu_s = statistics.median(run.cpu_s for run in runs)
        store_cpu_s = statistics.median(run.store_cpu_s for run in runs)
        counts = {kind: round(n / images, 3) for kind, n in sorted(runs[-1].requests.items())}
        print(
            f"  {place:<6}{images / wall_s:8.0f} images/s {cpu_s:7.1f} CPU s "
            f"{store_cpu_s:6.1f} CPU s of the store; requests an image: {counts or 0}"
        )
    pairs = list(zip(*timings.values(), strict=True))
    speed = statistics.median(local.wall_s / store.wall_s for local, store in pairs)
    cores = usable_cores()
    # Wall time without what the transport took of these cores: its CPU seconds here, and the
    # store's, spread over them.
    less = statistics.median(
        local.wall_s / (store.wall_s - (store.cpu_s - local.cpu_s + store.store_cpu_s) / cores)
        for local, store in pairs
    )
    print(
        f"  store / local: {speed:.2f}; less the transport's CPU {less:.2f} (goal: 0.80 or more)",
        flush=True,
    )


@contextlib.contextmanager
def make_places(arguments: argparse.Namespace) -> Iterator[tuple[dict[str, str], Store, int]]:
    """A folder and a bucket with the same photos; the store is slow from now on."""
    with contextlib.ExitStack() as stack:
        local = stack.enter_context(tempfile.TemporaryDirectory())
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        photos = os.path.join(local, "photos")
        images = copy_photos(arguments.images, photos, arguments.limit, arguments.copies)
        store = stack.enter_context(run_store(folder))
        stack.enter_context(use_store(store))
        root = store.uri.replace("gs", arguments.scheme)
        upload(photos, files.join(root, "photos"))
        store.control(delay_s=arguments.delay_ms / 1000)
        yield {"local": local, "store": root}, store, images


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", required=True)
    parser.add_argument("--limit", type=int, default=400)
    parser.add_argument("--copies", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--delay-ms", type=float, default=50)
    parser.add_argument("--scheme", choices=["gs", "s3"], default="gs")
    parser.add_argument("--threads", type=int, default=0, help="of ingest")
    parser.add_argument("--tasks", nargs="+", default=["images", "ingest", "read"])
    arguments = parser.parse_args()
    works = {
        "images": lambda root, run: ingest(root, places["local"], f"i{run}", arguments.threads),
        "ingest": lambda root, run: ingest(root, root, run, arguments.threads),
        "read": lambda root, run: read(root),
    }
    with make_places(arguments) as (places, store, images):
        for root in places.values():
            ingest(root, root, "0", arguments.threads)
        for task in arguments.tasks:
            timings: dict[str, list[Timing]] = {place: [] for place in places}
            for root in places.values():
                works[task](root, "warm-up")
            for repeat in range(1, arguments.repeats + 1):
                for place, root in places.items():
                    work = functools.partial(works[task], root, str(repeat))
                    run = measure(work, store)
                    timings[place].append(run)
            report(task, images, timings)


if __name__ == "__main__":
    main()
