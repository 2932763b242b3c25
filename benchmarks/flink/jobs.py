"""Ingest and the analysis as jobs, and a whole run, in processes of their own, on any runner."""

import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from benchmarks.flink.cluster import FlinkCluster, running, wait_until

SHARDS = 8
JOB_TIMEOUT_S = 600
RUN_TIMEOUT_S = 2400  # Six jobs of a pipeline, and its training.
# The stage whose task manager is killed, in each job's own graph.
KILLED_STAGE = {"ingest": "Prepare", "analysis": "ReadViews"}


@dataclasses.dataclass(frozen=True)
class Timing:
    """What one job took.

    Attributes:
      total_s: from the first call to the result, without Python's imports.
      flink_s: of which the job was with Flink; None on the local runner.
      restarts: how often Flink began again after a loss.
    """

    total_s: float
    flink_s: float | None = None
    restarts: int = 0


def run_job(job: str, source: str, output: str, beam_args: Sequence[str]) -> None:
    """Runs one of the two jobs in this process and prints its seconds."""
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from image_pipeline.components.ingest.run import run_ingest
    from image_pipeline.components.meaning.options import IngestOptions
    from image_pipeline.components.transform.options import TransformOptions
    from image_pipeline.components.transform.run import run_analysis
    from image_pipeline.components.views.options import ViewOptions

    def make_pipeline() -> beam.Pipeline:
        return beam.Pipeline(options=PipelineOptions(list(beam_args)))

    started = time.monotonic()
    if job == "ingest":
        flat = any(path.is_file() for path in pathlib.Path(source).iterdir())
        given = {"shards": SHARDS, "max_bad_fraction": 1} | (
            {"label_pattern": None} if flat else {}
        )
        ingest = IngestOptions.model_validate(given)
        run_ingest(source, output, f"{output}/.work", ingest, make_pipeline)
    else:
        run_analysis(source, output, ViewOptions(), TransformOptions(), make_pipeline)
    print(f"seconds={time.monotonic() - started:.1f}")


def start_job(job: str, source: str, output: str, beam_args: Sequence[str]) -> float:
    """Runs a job in a process of its own; returns its seconds.

    Raises:
      RuntimeError: with the end of its messages, if it fails or takes longer than `JOB_TIMEOUT_S`.
    """
    given = (job, source, output, list(beam_args))
    call = f"from benchmarks.flink.jobs import run_job; run_job{given}"
    log_path = pathlib.Path(f"{output}.log")
    with running([sys.executable, "-c", call], log_path) as process:
        try:
            failed = process.wait(JOB_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"The job {job} did not end within {JOB_TIMEOUT_S} s.") from error
    said = log_path.read_text(errors="replace")
    found = re.search(r"^seconds=([\d.]+)$", said, re.MULTILINE)
    if failed or not found:
        raise RuntimeError(f"The job {job} failed:\n{said[-4000:]}")
    return float(found[1])


def call_cli(arguments: Sequence[str], output: pathlib.Path, timeout_s: float) -> None:
    """Runs `image-pipeline` in a process of its own, whose messages go to `<output>.log`.

    Raises:
      RuntimeError: with the end of its messages, if it fails or takes longer.
    """
    call = [sys.executable, "-c", "from image_pipeline.cli import main; main()", *arguments]
    log_path = pathlib.Path(f"{output}.log")
    with running(call, log_path) as process:
        try:
            failed = process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"The {arguments[0]} did not end within {timeout_s} s.") from error
    if failed:
        said = log_path.read_text(errors="replace")[-4000:]
        raise RuntimeError(f"The {arguments[0]} failed:\n{said}")


def run_pipeline(images: pathlib.Path, output: pathlib.Path, beam_args: Sequence[str]) -> dict:
    """Runs `image-pipeline run`, from the images to a pushed model; returns its summary.

    Raises:
      RuntimeError: with the end of its messages, if it fails or takes longer than `RUN_TIMEOUT_S`.
    """
    options = {
        "ingest.shards": SHARDS,
        "ingest.splits": "{train: 0.8, eval: 0.2}",
        "view.height_px": 32,
        "view.width_px": 32,
        "training.epochs": 1,
        "evaluation.min_accuracy": 0,
    }
    given = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    paths = ["--images", str(images), "--output", str(output)]
    call_cli(["run", *given, *paths, "--", *beam_args], output, RUN_TIMEOUT_S)
    return json.loads((output / "summary.json").read_text())


def run_both(
    images: pathlib.Path,
    output: pathlib.Path,
    beam_args: Sequence[str],
    cluster: FlinkCluster | None = None,
    kill: bool = False,
) -> dict[str, Timing]:
    """Ingests and analyses.

    Args:
      images: the folder of images.
      output: gets the folders `data` and `graph`.
      beam_args: they name the runner.
      cluster: where they run, if it is ours.
      kill: whether one of its task managers is killed during each job, and replaced afterwards.

    Returns:
      What each of the two took.
    """
    data, graph = str(output / "data"), str(output / "graph")
    timings = {}
    for job, source, target in (("ingest", str(images), data), ("analysis", data, graph)):
        if cluster is None:
            timings[job] = Timing(start_job(job, source, target, beam_args))
            continue
        cluster.fill()
        earlier = cluster.last_job().get("jid", "")
        killer = threading.Thread(target=kill_in_mid_run, args=(cluster, job, target, earlier))
        if kill:
            killer.start()
        total_s = start_job(job, source, target, beam_args)
        last = cluster.last_job()
        timings[job] = Timing(total_s, last["duration"] / 1000, count_restarts(cluster, last))
        if kill and not timings[job].restarts:
            raise RuntimeError(f"The job {job} ended before a task manager was killed.")
    return timings


def kill_in_mid_run(cluster: FlinkCluster, job: str, output: str, earlier: str) -> None:
    """Kills the task manager that does the main work of the job after `earlier`, once it began."""

    def find_busy() -> set[str]:
        if job == "ingest" and not list(pathlib.Path(output, ".work/prepared").glob("*")):
            return set()
        last = cluster.last_job()
        if last.get("jid", earlier) == earlier:
            return set()
        return cluster.find_task_managers(last["jid"], KILLED_STAGE[job])

    if busy := wait_until(find_busy, timeout_s=JOB_TIMEOUT_S):
        cluster.kill(min(busy))


def count_restarts(cluster: FlinkCluster, job: dict) -> int:
    """How often a job failed and began again."""
    history = cluster.ask(f"/jobs/{job['jid']}/exceptions")["exceptionHistory"]
    return len(history["entries"])


def read_results(output: pathlib.Path) -> dict[str, bytes]:
    """The bytes that every runner must give: the data set, the statistics, the vocabularies.

    The graph's own file is not among them: TensorFlow numbers its functions by chance.
    """
    found = [path for path in (output / "data").rglob("*") if path.is_file()]
    found += [output / "graph" / "analysis.json"]
    found += (output / "graph").glob("transform_fn/assets/*")
    return {str(path.relative_to(output)): path.read_bytes() for path in found}
