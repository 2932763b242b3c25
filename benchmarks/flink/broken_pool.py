"""A pool of workers that takes orders, and whose Python cannot start one: it lacks Beam."""

import contextlib
import os
import pathlib
import sys
import time
from collections.abc import Iterator

from benchmarks.flink.cluster import FlinkCluster, find_free_ports, pool_command, running
from benchmarks.flink.jobs import start_job

START_TIMEOUT_S = 30


@contextlib.contextmanager
def start_broken_pool(folder: pathlib.Path) -> Iterator[list[str]]:
    """Runs the pool as long as the block; yields the Beam flags of a job that is to use it."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    bare = os.path.join(sys.base_prefix, "bin", "python3")
    python.write_text(f'#!/bin/sh\nexec {bare} -I -S "$@"\n')  # No packages at all.
    python.chmod(0o755)
    (port,) = find_free_ports(1)
    with running(pool_command(port), folder / "pool.log", str(python.parent)):
        yield [
            "--environment_type=EXTERNAL",
            f"--environment_config=127.0.0.1:{port}",
            f"--start_timeout_s={START_TIMEOUT_S}",
        ]


def ingest_with_broken_pool(
    images: pathlib.Path, folder: pathlib.Path, beam_args: list[str]
) -> str:
    """What an ingest ends with; an empty text if it succeeds.

    Args:
      images: the folder of images.
      folder: an empty one, for all that is written.
      beam_args: of the engine, without those of its workers.
    """
    with start_broken_pool(folder) as pool_args:
        try:
            start_job("ingest", str(images), str(folder / "data"), [*beam_args, *pool_args])
        except RuntimeError as error:
            return str(error)
    return ""


def check_broken_pool(images: pathlib.Path, folder: pathlib.Path, cluster: FlinkCluster) -> bool:
    """Whether such a job ends with an error, and is not left on the cluster; prints both."""
    started = time.monotonic()
    given = [flag for flag in cluster.beam_args(1) if not flag.startswith("--environment_")]
    message = ingest_with_broken_pool(images, folder, given)
    is_refused = f"No worker has started within {START_TIMEOUT_S} s" in message
    state = cluster.last_job()["state"]
    verdict = "ended with an error" if is_refused else f"DIFFERENT: {message}"
    print(f"  a pool without Beam: {verdict} after {time.monotonic() - started:.0f} s; job {state}")
    return is_refused and state in ("CANCELLING", "CANCELED")
