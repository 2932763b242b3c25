"""Runs one writer against the clock, and counts what it wrote: a line of JSON.

python -m writers.run NAME PHOTOS TARGET
"""

import dataclasses
import importlib
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable

from rivals.usage import cpu_s
from writers import frameworks, own, pooled


@dataclasses.dataclass(frozen=True)
class Writer:
    """A way to write photos.

    Attributes:
      write: does it: `write(photos, target)`.
      count: how many images the target has, by the format's own reader.
      imports: imported before the clock starts.
      environment: its key in `rivals.registry.ENVIRONMENTS`; None for this project's own.
    """

    write: Callable[[str, str], None]
    count: Callable[[str], int]
    imports: tuple[str, ...]
    environment: str | None = None


_INGEST = ("apache_beam", "image_pipeline.components.ingest.run")
_TRANSFORM = ("tensorflow", "tensorflow_transform.beam", "tfx_bsl.public.tfxio")
WRITERS = {
    "ours": Writer(own.write_ours, own.count_records, _INGEST),
    "script": Writer(own.write_script, own.count_records, ("tensorflow",)),
    "tf.Transform": Writer(own.write_naive, own.count_records, _TRANSFORM),
    "tfds": Writer(
        frameworks.write_tfds, frameworks.count_tfds, ("tensorflow_datasets", "tensorflow"), "tfds"
    ),
    "ffcv": Writer(frameworks.write_ffcv, frameworks.count_ffcv, ("ffcv",), "ffcv"),
    "streaming": Writer(pooled.write_streaming, pooled.count_streaming, ("streaming",), "torch"),
    "litdata": Writer(frameworks.write_litdata, frameworks.count_litdata, ("litdata",), "torch"),
    "webdataset": Writer(pooled.write_webdataset, pooled.count_tar, ("webdataset",), "torch"),
    "array_record": Writer(
        pooled.write_array_record,
        pooled.count_array_record,
        ("array_record.python.array_record_module",),
        "grain",
    ),
    "img2dataset": Writer(
        frameworks.write_img2dataset, pooled.count_tar, ("img2dataset",), "img2dataset"
    ),
    "daft": Writer(frameworks.write_daft, frameworks.count_parquet, ("daft",), "daft"),
    "ray": Writer(frameworks.write_ray, frameworks.count_parquet, ("ray.data",), "ray"),
}


def main() -> None:
    """Writes, counts, and says what it took."""
    name, photos, target = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print goes to standard error.
    writer = WRITERS[name]
    for module in writer.imports:
        importlib.import_module(module)
    before, started = cpu_s(), time.perf_counter()
    writer.write(photos, target)
    wall_s, used_s = time.perf_counter() - started, cpu_s() - before
    written = sum(path.stat().st_size for path in pathlib.Path(target).rglob("*") if path.is_file())
    answer = {"images": writer.count(target), "wall_s": wall_s, "cpu_s": used_s, "bytes": written}
    print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
