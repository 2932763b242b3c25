"""TFX's own Beam components run their jobs as ours do, and are otherwise TFX's."""

import apache_beam as beam
import pytest
from tfx import v1 as tfx
from tfx.components.evaluator import executor as evaluator
from tfx.components.statistics_gen import executor as statistics_gen
from tfx.dsl.components.base import base_beam_executor
from tfx.types import standard_artifacts

from image_pipeline.components.beam import tfx_components
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.beam.job import JobPipeline

pytestmark = pytest.mark.beam

PORTABLE = (
    *("--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"),
    "--sdk_container_image=none",
)


@pytest.mark.parametrize("flags", [PORTABLE, LOCAL_BEAM_ARGS], ids=["portable", "local"])
@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        (tfx_components.StatisticsGenExecutor, statistics_gen.Executor),
        (tfx_components.EvaluatorExecutor, evaluator.Executor),
    ],
)
def test_the_executor_s_job_is_ours(own, theirs, flags, tmp_path, monkeypatch):
    signs = []

    def do(self, input_dict, output_dict, exec_properties):
        with self._make_beam_pipeline() as root:
            assert isinstance(root, JobPipeline)
            _ = root | beam.Create([1])
        signs.extend(path.parent.name for path in (tmp_path / "out").rglob("begun-*"))

    monkeypatch.setattr(theirs, "Do", do)
    output = standard_artifacts.ExampleStatistics()
    output.uri = str(tmp_path / "out" / "7")
    context = base_beam_executor.BaseBeamExecutor.Context(beam_pipeline_args=[*flags])
    own(context).Do({"examples": []}, {"first": [output], "second": [output]}, {})
    assert signs == ([".begun-7"] if flags == PORTABLE else [])
    assert list(tmp_path.glob("out/*")) == []


def test_they_read_the_stores_that_beam_does_not_open(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(statistics_gen.Executor, "Do", lambda self, *taken: given.append(taken))
    examples, output = standard_artifacts.Examples(), standard_artifacts.ExampleStatistics()
    examples.uri, output.uri = "s3://bucket/data/abc-1", str(tmp_path / "out")
    examples.split_names = '["train"]'
    tfx_components.StatisticsGenExecutor().Do({"examples": [examples]}, {"any": [output]}, {})
    ((input_dict, _, _),) = given
    (read,) = input_dict["examples"]
    assert read.uri == "stored+s3://bucket/data/abc-1" and read.split_names == '["train"]'
    assert examples.uri == "s3://bucket/data/abc-1"


def test_they_keep_tfx_s_names():
    for own, theirs in (
        (tfx_components.StatisticsGen, tfx.components.StatisticsGen),
        (tfx_components.Evaluator, tfx.components.Evaluator),
    ):
        assert (own.__name__, own.SPEC_CLASS) == (theirs.__name__, theirs.SPEC_CLASS)
