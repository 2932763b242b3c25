"""A Beam pipeline for third-party code that only uses `with`; it runs as our own jobs do."""

import types

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineRunner

from image_pipeline.components.beam.job import run_job


class JobPipeline(beam.Pipeline):
    """Its `with` is `run_job`: start limit, check of the workers' version, cancellation, errors."""

    def __init__(
        self, runner: PipelineRunner | str | None, options: PipelineOptions, shared_dir: str
    ):
        """Makes an empty pipeline.

        Args:
          runner: the runner; None takes the one that the options name.
          shared_dir: a folder or URI that this machine and all workers see.
        """
        super().__init__(runner=runner, options=options)
        self._job = run_job(self, shared_dir)

    def __enter__(self) -> beam.Pipeline:
        """Begins the job; returns the pipeline, for the block to fill."""
        return self._job.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        """Runs the job to its end, unless the block has failed."""
        self._job.__exit__(kind, error, trace)
