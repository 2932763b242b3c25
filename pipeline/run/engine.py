"""Chooses the engine for the Beam jobs, and checks that it is there before sending it anything."""

import json
import os
import shutil
import socket
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS, complete_beam_args
from image_pipeline.components.errors import UserError
from image_pipeline.engine_options import DataflowOptions

CONNECT_TIMEOUT_S = 5
DATAFLOW = "--runner=DataflowRunner"
# Runners whose jobs go through a server in Java, the flag that names its jar, and what makes one.
_JOB_SERVERS = {
    "FlinkRunner": ("flink_job_server_jar", "make flink", "build/flink/job-server.jar"),
    "SparkRunner": ("spark_job_server_jar", "make spark", "build/spark/job-server.jar"),
}


def choose_engine(
    beam_flags: Sequence[str],
    dataflow: DataflowOptions = DataflowOptions(),  # noqa: B008  (frozen)
) -> list[str]:
    """Completes the user's Beam flags, and checks what they name.

    Args:
      beam_flags: flags as the user wrote them.
      dataflow: of the configuration; the flags go before these.

    Raises:
      UserError: for flags that are wrong or refused, and for an engine that is not there.
    """
    beam_args = complete_beam_args(beam_flags)
    if DATAFLOW in beam_args:
        from image_pipeline.run.dataflow import add_dataflow_options

        beam_args = add_dataflow_options(beam_args, dataflow)
    check_engine(beam_args)
    return beam_args


def make_paths_absolute(beam_args: Sequence[str], *paths: str) -> list[str]:
    """Makes paths valid for workers elsewhere, whose current folder is a different one.

    Args:
      beam_args: completed Beam flags. For the local runner, paths stay as they were given.
      paths: paths, which become absolute, and URIs and names of code.
    """
    if LOCAL_BEAM_ARGS[0] in beam_args:
        return list(paths)
    return list(map(files.make_absolute, paths))


def check_engine(beam_args: Sequence[str]) -> None:
    """Checks that what the runner needs is there; otherwise the job would wait, perhaps forever.

    Raises:
      UserError: if a job server's jar, Java or Prism is missing; if a Flink or Spark cluster, a job
        server or a worker pool does not answer within `CONNECT_TIMEOUT_S` or has too few slots; or
        if a flag, the credentials or a folder of a Dataflow job are missing.
    """
    # Names and values, without the leading dashes; a switch's value is empty.
    given = dict(flag.removeprefix("--").partition("=")[::2] for flag in beam_args)
    if LOCAL_BEAM_ARGS[0] in beam_args and tuple(beam_args) != LOCAL_BEAM_ARGS:
        from image_pipeline.components.beam.flags import find_given

        find_given(beam_args)  # A job server may know flags that Beam's Python does not.
    runner = given.get("runner")
    if runner in _JOB_SERVERS:
        _check_job_server(runner, given)
    if runner == "FlinkRunner":
        _check_flink(given)
    if runner == "SparkRunner":
        _check_spark(given)
    if runner == "PrismRunner":
        _check_prism(given)
    if DATAFLOW in beam_args:
        from image_pipeline.run.dataflow import check_dataflow

        check_dataflow(beam_args)
    endpoint = given.get("job_endpoint", "embed")
    if endpoint != "embed":
        _check_listens("--job_endpoint", endpoint)
    if given.get("environment_type") == "EXTERNAL" and not _is_beside_far_workers(given):
        _check_listens("--environment_config", given.get("environment_config", ""))


def _check_job_server(runner: str, given: Mapping[str, str]) -> None:
    flag, command, made = _JOB_SERVERS[runner]
    jar = given.get(flag, "")
    if not jar:
        raise UserError(
            f"{runner} needs --{flag}=PATH, or Beam would download one without a time limit; "
            f"`{command}` makes {made}."
        )
    if "://" not in jar and not os.path.isfile(jar):
        raise UserError(f"--{flag}={jar}: there is no such file; run `{command}`.")
    if shutil.which("java") is None:
        raise UserError(f"{runner} starts Beam's job server with java, which is not on the PATH.")


def _check_flink(given: Mapping[str, str]) -> None:
    """Asks Flink's job manager how many slots there are."""
    master = given.get("flink_master", "[auto]")
    if master in ("[local]", "[auto]"):
        return
    url = master if "://" in master else f"http://{master}"
    try:
        with urllib.request.urlopen(f"{url}/overview", timeout=CONNECT_TIMEOUT_S) as answer:
            overview: dict[str, Any] = json.load(answer)
        slots = overview["slots-total"]
    except (OSError, ValueError, KeyError) as error:
        raise UserError(
            f"--flink_master={master}: no Flink job manager answers there within "
            f"{CONNECT_TIMEOUT_S} s ({error}); give the host and port of its REST interface."
        ) from error
    parallelism = given.get("parallelism", "1")
    needed = int(parallelism) if parallelism.isdigit() else 1  # -1: Flink chooses.
    if slots < needed:
        raise UserError(
            f"--flink_master={master}: the job needs {needed} slots, but its "
            f"{overview['taskmanagers']} task managers have {slots}; start more, or lower "
            "--parallelism."
        )


def _check_spark(given: Mapping[str, str]) -> None:
    """Asks whether a Spark master listens; `local[2]` is none, and Spark itself finds YARN's."""
    master = given.get("spark_master_url", "")
    if master.startswith("spark://") and "," not in master:  # Several: one of them is enough.
        _check_listens("--spark_master_url", master)


def _check_prism(given: Mapping[str, str]) -> None:
    program = given.get("prism_location", "")
    if not (os.path.isfile(program) and os.access(program, os.X_OK)):
        named = f"--prism_location={program} is not a program"
        raise UserError(
            f"{named if program else 'PrismRunner needs --prism_location=PATH'}; `make prism` "
            "builds build/prism/prism, which Beam would download without a time limit."
        )


def _is_beside_far_workers(given: Mapping[str, str]) -> bool:
    """Whether the pool's address is on other machines' loopback: a pool beside each worker.

    It cannot be reached from here; if there is none, `beam_job.await_start` ends the job.
    """
    names = ("flink_master", "spark_master_url", "job_endpoint")
    engine = next((given[name] for name in names if name in given), "")
    return (
        ":" in engine.rpartition("//")[2]
        and not _is_loopback(engine)
        and _is_loopback(given.get("environment_config", ""))
    )


def _is_loopback(address: str) -> bool:
    host = address.rpartition("//")[2].rpartition(":")[0]
    return host in ("localhost", "[::1]") or host.startswith("127.")


def _check_listens(flag: str, address: str) -> None:
    host, _, port = address.rpartition("//")[2].rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        raise UserError(
            f"{flag}={address}: nothing answers there within {CONNECT_TIMEOUT_S} s ({error}); give "
            "HOST:PORT of a running one."
        ) from error
