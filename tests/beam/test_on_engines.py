"""Ingest and analysis on an embedded Spark, and on Prism, give the bytes of the local runner.

Spark needs Java and jars from Maven Central, which are kept in `build/spark`; Prism needs Go and
Beam's module, and is kept in `build/prism`.
"""

import pathlib

import pytest

from benchmarks.engines import ENGINES
from benchmarks.flink.drawings import draw_images
from benchmarks.flink.jobs import JOB_TIMEOUT_S, read_results, run_both
from benchmarks.jars import NotAvailable
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
