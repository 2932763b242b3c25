"""`batches` beside `input_fn`: the same batches, processor time, memory, and what is imported.

    python -m benchmarks.arrays --images FOLDER [--epochs 4] [--repeats 3]

FOLDER holds photos. They are ingested with a shorter side of 256 px; then processes of their own,
in turns, read some epochs of random crops and flips of 224 px, as uint8 without a transform graph:
`input_fn`, and `batches` with `tensorflow` blocked from import. A line has the medians of the
repeats: the time to the first batch, seconds and CPU seconds of the others, the process's peak
memory.
"""

import argparse
import hashlib
import importlib.abc
import multiprocessing
import pathlib
import resource
import statistics
import sys
import tempfile
import time
from typing import Any

OPTIONS: dict[str, Any] = {
    "view": {"height_px": 224, "width_px": 224},
    "augment": ["random_resized_crop", "flip_horizontal"],
    "batch_size": 32,
    "hold_decoded": False,
}


class _Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        """Refuses what `batches` does without."""
        if name.split(".")[0] in ("tensorflow", "keras", "apache_beam", "tfx"):
            raise ImportError(f"{name} is blocked")


def _read(pipe: Any, reader: str, data: str, epochs: int) -> None:
    started = time.monotonic()
    if reader == "batches":
        sys.meta_path.insert(0, _Blocked())
    from image_pipeline import api

    opened = getattr(api, reader)(data, epochs=epochs, **OPTIONS)
    first, digest, count = None, hashlib.sha256(), 0
    cpu = wall = 0.0
    for batch in opened:
        images = batch["image"] if reader == "batches" else batch[0].numpy()
        if first is None:  # What is loaded, compiled and traced once is not counted.
            first = time.monotonic() - started
            cpu, wall = time.process_time(), time.monotonic()
        digest.update(images.tobytes())
        count += len(images)
    found = {
        "first_s": first,
        "wall_s": time.monotonic() - wall,
        "cpu_s": time.process_time() - cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "images": count,
        "digest": digest.hexdigest(),
    }
    pipe.send(found)


def measure(reader: str, data: str, epochs: int) -> dict[str, Any]:
    """Reads in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_read, args=(theirs, reader, data, epochs))
    process.start()
    found = ours.recv()
    process.join()
    return found


def main() -> None:
    """Ingests the photos, and measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", required=True)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        from image_pipeline import api

        data = str(pathlib.Path(folder) / "data")
        api.ingest(arguments.images, data, label_pattern=None)
        found: dict[str, list[dict[str, Any]]] = {"input_fn": [], "batches": []}
        for _ in range(arguments.repeats):
            for reader, own in found.items():
                own.append(measure(reader, data, arguments.epochs))
    for reader, own in found.items():
        middle = {
            name: statistics.median(each[name] for each in own)
            for name in ("first_s", "wall_s", "cpu_s", "peak_mb")
        }
        images = own[0]["images"]
        print(
            f"{reader:<9} first batch after {middle['first_s']:5.2f} s; {images} images in "
            f"{middle['wall_s']:6.2f} s, {1e3 * middle['cpu_s'] / images:.3f} ms of CPU an image; "
            f"peak {middle['peak_mb']:,.0f} MB"
        )
    ratio = statistics.median(
        arrays["cpu_s"] / tensors["cpu_s"]
        for arrays, tensors in zip(found["batches"], found["input_fn"], strict=True)
    )
    digests = {each["digest"] for own in found.values() for each in own}
    print(f"CPU of batches / input_fn: {ratio:.3f}; different digests: {len(digests)}")


if __name__ == "__main__":
    main()
