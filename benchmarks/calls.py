"""How much of our code runs for one JPEG that is ingested, and for one batch that is fed.

    python -m benchmarks.calls

Counted are our functions that Python calls (comprehensions are part of theirs), and the files that
they stand in. What one JPEG or one batch takes is what is called more often for a folder with one
image more, or for an epoch with one batch more: so nothing counts that a run does once, nor a frame
of Beam's or TensorFlow's. Printed are also what an epoch takes, from the call of `input_fn` on, and
what a whole ingest takes; then the functions of one JPEG and of one batch, file by file.
"""

import collections
import contextlib
import os
import sys
import tempfile
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
import tensorflow as tf

from image_pipeline import api, config
from image_pipeline import components as rooms

_FOLDERS = tuple(os.path.dirname(module.__file__ or "") + os.sep for module in (rooms, config))
_PARTS = ("<module>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_IMAGES, _BATCH_SIZE, _SIDES_PX = 30, 4, (300, 400)
_AUGMENT = ["random_resized_crop", "flip_horizontal"]


class Calls(collections.Counter[tuple[str, str]]):
    """How often each of our functions was called: by its file, below our folders, and its name."""

    def __str__(self) -> str:
        """The two counts."""
        return f"{len(self)} functions in {len({file for file, _ in self})} files"

    def list(self) -> str:
        """A line a file, with its functions."""
        names = collections.defaultdict(list)
        for file, name in sorted(self):
            names[file].append(name)
        return "\n".join(f"  {file}: {', '.join(found)}" for file, found in names.items())

    def more_than(self, other: "Calls") -> "Calls":
        """What is called here more often than there."""
        return Calls({key: count for key, count in self.items() if count > other[key]})


def count_calls(run: Callable[[], object]) -> Calls:
    """Counts the calls of a function, in all threads that it starts and that call it back."""
    called: list[types.CodeType] = []  # Its `append` is one step for all threads.

    def note(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_FOLDERS):
            called.append(frame.f_code)

    with _profiled_callbacks(note):
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            run()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    keys = [
        (next(c.co_filename[len(f) :] for f in _FOLDERS if c.co_filename.startswith(f)), c)
        for c in called
        if c.co_name not in _PARTS
    ]
    return Calls((file, code.co_qualname) for file, code in keys)


@contextlib.contextmanager
def _profiled_callbacks(note: Callable[..., None]) -> Iterator[None]:
    """Notes what TensorFlow calls in threads of its own, which Python does not start."""
    original = tf.numpy_function

    def numpy_function(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        def noted(*arrays: Any) -> Any:
            before = sys.getprofile()
            sys.setprofile(note)
            try:
                return function(*arrays)
            finally:
                sys.setprofile(before)

        return original(noted, *arguments, **options)

    tf.numpy_function = numpy_function
    try:
        yield
    finally:
        tf.numpy_function = original


def write_images(folder: str, count: int) -> str:
    """Writes photo-like JPEGs, no two alike, of two classes; returns the folder."""
    for number in range(count):
        os.makedirs(path := os.path.join(folder, ("cat", "dog")[number % 2]), exist_ok=True)
        coarse = np.random.default_rng(number).integers(0, 256, (6, 8, 3), np.uint8)
        pixels = cv2.resize(coarse, _SIDES_PX[::-1], interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(os.path.join(path, f"{number}.jpg"), pixels)
    return folder


def count_ingest(folder: str) -> tuple[Calls, Calls]:
    """Counts an ingest.

    Args:
      folder: where images and data sets are written; one data set is `data` in it.

    Returns:
      What a whole ingest calls, and what one JPEG more does.
    """
    few = write_images(os.path.join(folder, "few"), _IMAGES)
    more = write_images(os.path.join(folder, "more"), _IMAGES + 1)
    for number, images in enumerate((few, more)):  # imports, and what is remembered of a folder
        api.ingest(images, os.path.join(folder, f"warm-{number}"), shards=1)
    data, larger = os.path.join(folder, "data"), os.path.join(folder, "larger")
    whole = count_calls(lambda: api.ingest(few, data, shards=1))
    return whole, count_calls(lambda: api.ingest(more, larger, shards=1)).more_than(whole)


def count_batch(data_dir: str, graph_dir: str | None) -> tuple[Calls, Calls]:
    """Counts the batches of training: a random crop, a flip, the graph if there is one.

    Returns:
      What is called for an epoch, from `input_fn` on, and what for one batch more.
    """
    options = {"batch_size": _BATCH_SIZE, "remainder": "drop", "augment": _AUGMENT}
    # By paths, not held in memory: so does a data set of any size.
    options |= {"hold_decoded": False}

    def read(**further: Any) -> Iterator[Any]:
        return iter(api.input_fn(data_dir, "train", graph_dir, epochs=1, **options | further))

    # To the end: how far a reader is ahead when another stops asking depends on its threads.
    def read_from(first_step: int, **further: Any) -> Calls:
        return count_calls(
            lambda: collections.deque(read(first_step=first_step, **further), maxlen=0)
        )

    read_from(0, compiled=False)  # imports and caches; what is compiled below is not yet
    return read_from(0), read_from(1).more_than(read_from(2))


def main() -> None:
    """Counts in a folder that is removed afterwards, and prints."""
    with tempfile.TemporaryDirectory() as folder:
        whole, jpeg = count_ingest(folder)
        data, graph = os.path.join(folder, "data"), os.path.join(folder, "graph")
        api.analyze(data, graph)
        epoch, batch = count_batch(data, graph)
    print(f"A whole ingest: {whole}.\nAn epoch, with `input_fn`: {epoch}.")
    for what, calls in (("One JPEG", jpeg), ("One batch more", batch)):
        print(f"{what}: {calls}\n{calls.list()}")


if __name__ == "__main__":
    main()
