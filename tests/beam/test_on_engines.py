"""Runs on an embedded Spark, on Prism and on a real Flink give the bytes of the local runner.

Spark needs Java and jars from Maven Central, which are kept in `build/spark`; Prism needs Go and
Beam's module, and is kept in `build/prism`; Flink needs jars, kept in `build/flink`.
"""

import pathlib
import subprocess

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from benchmarks.engines import ENGINES
from benchmarks.flink.broken_pool import START_TIMEOUT_S, ingest_with_broken_pool
from benchmarks.flink.cluster import start_pool
from benchmarks.flink.drawings import draw_images
from benchmarks.flink.jobs import (
    JOB_TIMEOUT_S,
    RUN_TIMEOUT_S,
    SHARDS,
    read_results,
    run_both,
    run_pipeline,
)
from benchmarks.jars import FLINK, NotAvailable, fetch_job_server
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS

pytestmark = [pytest.mark.e2e, pytest.mark.wide]

BUILD_DIR = pathlib.Path(__file__).parents[2] / "build"


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The images, and what the local runner makes of them."""
    folder = tmp_path_factory.mktemp("local")
    images = draw_images(folder / "images", per_class=30)
    run_both(images, folder / "local", LOCAL_BEAM_ARGS)
    return images, read_results(folder / "local")


@pytest.mark.timeout(4 * JOB_TIMEOUT_S)
@pytest.mark.parametrize("engine", ENGINES)
def test_another_engine_gives_the_bytes_of_the_local_runner(engine, local, tmp_path, request):
    try:
        beam_args = ENGINES[engine](BUILD_DIR)
    except NotAvailable as error:
        reason = f"{engine} was not tested: {error}"
        request.config.pluginmanager.getplugin("terminalreporter").write_line(f"\n{reason}")
        pytest.skip(reason)
    images, expected = local
    run_both(images, tmp_path / engine, beam_args)
    assert {"data/manifest.json", "data/index.parquet", "graph/analysis.json"} < expected.keys()
    assert sum(name.startswith("data/Split-") for name in expected) == 16
    assert read_results(tmp_path / engine) == expected


FLINK_DIR = pathlib.Path(__file__).parents[2] / "build" / "flink"


@pytest.fixture(scope="module")
def flink_args(request):
    try:
        job_server = fetch_job_server(FLINK, FLINK_DIR)
    except NotAvailable as error:
        reason = f"Flink was not tested: {error}"
        request.config.pluginmanager.getplugin("terminalreporter").write_line(f"\n{reason}")
        pytest.skip(reason)
    return [
        "--runner=FlinkRunner",
        f"--flink_version={FLINK.version}",
        "--flink_master=[local]",
        f"--flink_job_server_jar={job_server}",
        "--environment_type=LOOPBACK",
        "--parallelism=2",
    ]


@pytest.mark.timeout(2 * RUN_TIMEOUT_S)
def test_a_whole_run_on_flink_pushes_the_model_of_the_local_runner(flink_args, tmp_path):
    images = draw_images(tmp_path / "images", per_class=30)
    local = run_pipeline(images, tmp_path / "local", LOCAL_BEAM_ARGS)
    # Workers of a pool, not of this process: they import what a job's code names, and nothing else.
    with start_pool(tmp_path / "pool.log") as pool_args:
        beam_args = [*_without_loopback(flink_args), *pool_args]
        flink = run_pipeline(images, tmp_path / "flink", beam_args)
    assert len(flink["components"]) == 8
    assert (flink["blessed"], local["blessed"]) == (True, True)
    for name in ("ingest", "statistics", "classes", "evaluation"):
        assert flink[name] == local[name], name
    expected = _read_artifacts(local)
    kept = {"examples/manifest.json", "examples/index.parquet", "transform_graph/analysis.json"}
    assert kept | {"pushed_model/assets/label"} < expected.keys()
    assert sum(name.startswith("examples/Split-") for name in expected) == 2 * SHARDS
    assert _read_artifacts(flink) == expected
    assert _read_schema(flink) == _read_schema(local)


def _read_artifacts(summary):
    """The bytes that are the same in every run: not, for example, the names of a graph's nodes."""
    kept = ("examples/*", "examples/Split-*/*", "transform_graph/analysis.json")
    kept += ("pushed_model/assets/*", "pushed_model/variables/variables.data-*")
    return {
        f"{name}/{path.relative_to(summary['paths'][name])}": path.read_bytes()
        for name, _, pattern in (each.partition("/") for each in kept)
        for path in pathlib.Path(summary["paths"][name]).glob(pattern)
        if path.is_file()
    }


def _read_schema(summary):
    """What SchemaGen made of StatisticsGen's findings; in which order is a matter of chance."""
    schema = text_format.Parse(
        pathlib.Path(summary["paths"]["schema"], "schema.pbtxt").read_text(), schema_pb2.Schema()
    )
    assert len(schema.feature) > 5
    return sorted(map(str, schema.feature)), sorted(map(str, schema.string_domain))


def _without_loopback(flags):
    return [flag for flag in flags if flag != "--environment_type=LOOPBACK"]


def test_a_pool_without_beam_is_no_hang(flink_args, tmp_path):
    images = draw_images(tmp_path / "images", per_class=5)
    args = _without_loopback(flink_args)
    message = ingest_with_broken_pool(images, tmp_path / "broken", args)
    expected = f"UserError: No worker has started within {START_TIMEOUT_S} s"
    assert expected in message
    python = tmp_path / "broken" / "bin" / "python"  # What the pool would start workers with.
    done = subprocess.run([python, "-c", "import apache_beam"], capture_output=True, text=True)
    assert "No module named 'apache_beam'" in done.stderr
