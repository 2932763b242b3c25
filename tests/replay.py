"""Runs a Dataflow job's description here."""

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.transforms.environments import EmbeddedPythonEnvironment
from apache_beam.utils import shared

from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS


def replay(staged: bytes) -> str:
    """Runs a staged `pipeline.pb`; only the workers' container becomes this very process.

    Returns:
      The state in which the job ends.
    """
    shared._shared_map = shared._SharedMap()  # A job's workers are new: nothing is left of another.
    job = beam_runner_api_pb2.Pipeline.FromString(staged)
    here = EmbeddedPythonEnvironment.default().to_runner_api(None)
    for environment in job.components.environments.values():
        environment.CopyFrom(here)
    options = PipelineOptions(list(LOCAL_BEAM_ARGS))
    return fn_runner.FnApiRunner().run_via_runner_api(job, options).wait_until_finish()
