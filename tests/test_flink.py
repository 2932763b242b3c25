"""Ingest and the analysis on a real Flink, embedded in Beam's job server, give the same bytes.

Needs Java and jars from Maven Central, which are kept in `build/flink`. Two task managers and a
killed one are `make flink`'s.
"""

import pathlib

import pytest

from benchmarks.flink.broken_pool import START_TIMEOUT_S, ingest_with_broken_pool
from benchmarks.flink.drawings import draw_images
from benchmarks.flink.jars import FLINK_VERSION, NotAvailable, fetch_flink
from benchmarks.flink.jobs import read_results, run_both
from components.beam_args import LOCAL_BEAM_ARGS

pytestmark = pytest.mark.e2e

BUILD_DIR = pathlib.Path(__file__).parents[1] / "build" / "flink"


@pytest.fixture(scope="module")
def flink_args(request):
    try:
        job_server = fetch_flink(BUILD_DIR)
    except NotAvailable as error:
        reason = f"Flink was not tested: {error}"
        request.config.pluginmanager.getplugin("terminalreporter").write_line(f"\n{reason}")
        pytest.skip(reason)
    return [
        "--runner=FlinkRunner",
        f"--flink_version={FLINK_VERSION}",
        "--flink_master=[local]",
        f"--flink_job_server_jar={job_server}",
        "--environment_type=LOOPBACK",
        "--parallelism=2",
    ]


def test_flink_gives_the_bytes_of_the_local_runner(flink_args, tmp_path):
    images = draw_images(tmp_path / "images", per_class=60)
    run_both(images, tmp_path / "local", LOCAL_BEAM_ARGS)
    run_both(images, tmp_path / "flink", flink_args)
    expected = read_results(tmp_path / "local")
    assert {"data/manifest.json", "data/index.parquet", "graph/analysis.json"} < expected.keys()
    assert sum(name.startswith("data/Split-") for name in expected) == 16
    assert read_results(tmp_path / "flink") == expected


def test_a_pool_without_beam_is_no_hang(flink_args, tmp_path):
    images = draw_images(tmp_path / "images", per_class=5)
    args = [flag for flag in flink_args if flag != "--environment_type=LOOPBACK"]
    message = ingest_with_broken_pool(images, tmp_path / "broken", args)
    expected = f"UserError: No worker has begun the job within {START_TIMEOUT_S} s"
    assert expected in message
    assert "No module named 'apache_beam'" in (tmp_path / "broken" / "pool.log").read_text()
