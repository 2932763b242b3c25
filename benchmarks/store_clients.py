"""CPU time of a request to an object store, by the clients that could be used.

    python -m benchmarks.store_clients [--files 300] [--bytes 110000] [--threads 8] [--repeats 5]

The store is `tests/object_store/server.py`, which answers for `gs://` and `s3://` alike.
`gs` and `s3` are this project's own access: Google's client and urllib3, and obstore; `pyarrow-gs`
and `pyarrow-s3` are `pyarrow.fs`. They take turns; a line gives medians in ms a request (`list`: a
list of all files) and the requests that the store saw.
"""

import argparse
import collections
import dataclasses
import datetime
import os
import pathlib
import statistics
import tempfile
from collections.abc import Callable
from typing import Any

import pyarrow.fs

from benchmarks.object_store import measure
from image_pipeline.components import files
from image_pipeline.components.threads import map_in_order
from tests.object_store.store import Store, run_store, use_store


@dataclasses.dataclass(frozen=True)
class Client:
    """What is measured of one way to a store; each takes a file's name."""

    put: Callable[[str], object]
    read: Callable[[str], object]
    stat: Callable[[str], object]
    list: Callable[[str], object]


def make_own(root: str, data: bytes) -> Client:
    """This project's access, by the URI's scheme."""
    return Client(
        put=lambda name: files.write_file(f"{root}/{name}", data),
        read=lambda name: files.read_file(f"{root}/{name}"),
        stat=lambda name: files.is_file(f"{root}/{name}"),
        list=lambda _: list(files.list_remote_tree(root)),
    )


def make_pyarrow(system: Any, root: str, data: bytes) -> Client:
    """A file system of `pyarrow.fs`."""

    def put(name: str) -> None:
        with system.open_output_stream(f"{root}/{name}") as file:
            file.write(data)

    def read(name: str) -> bytes:
        with system.open_input_stream(f"{root}/{name}") as file:
            return file.read()

    tree = pyarrow.fs.FileSelector(root, recursive=True)
    return Client(
        put=put,
        read=read,
        stat=lambda name: system.get_file_info(f"{root}/{name}"),
        list=lambda _: system.get_file_info(tree),
    )


def make_clients(store: Store, data: bytes) -> dict[str, Client]:
    """All of them, each in a folder of its own."""
    host = store.address.removeprefix("http://")
    google = pyarrow.fs.GcsFileSystem(
        anonymous=True,
        scheme="http",
        endpoint_override=host,
        retry_time_limit=datetime.timedelta(minutes=2),
    )
    amazon = pyarrow.fs.S3FileSystem(endpoint_override=store.address, region="us-east-1")
    return {
        "gs": make_own("gs://bucket/gs", data),
        "s3": make_own("s3://bucket/s3", data),
        "pyarrow-gs": make_pyarrow(google, "bucket/pyarrow-gs", data),
        "pyarrow-s3": make_pyarrow(amazon, "bucket/pyarrow-s3", data),
    }


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--bytes", type=int, default=110_000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    names = [f"{number:05}" for number in range(arguments.files)]
    timings = collections.defaultdict(list)
    with (
        tempfile.TemporaryDirectory() as folder,
        run_store(pathlib.Path(folder)) as store,
        use_store(store),
    ):
        clients = make_clients(store, os.urandom(arguments.bytes))
        for _ in range(arguments.repeats):
            for kind in ("put", "read", "stat", "list"):
                for name, client in clients.items():
                    calls = map_in_order(
                        getattr(client, kind), names if kind != "list" else [""], arguments.threads
                    )
                    run = measure(lambda calls=calls: collections.deque(calls, maxlen=0), store)
                    timings[kind, name].append(run)
    for (kind, name), runs in timings.items():
        count = 1 if kind == "list" else len(names)
        cpu_ms = 1000 * statistics.median(run.cpu_s for run in runs) / count
        print(f"{kind:<6}{name:<12}{cpu_ms:8.3f} CPU ms  {runs[-1].requests}", flush=True)


if __name__ == "__main__":
    main()
