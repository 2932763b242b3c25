"""Runs a `preprocessing_fn` over batches given by a test."""

import tempfile

import apache_beam as beam
import numpy as np
import tensorflow_transform.beam as tft_beam
from apache_beam.options.pipeline_options import PipelineOptions

from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.transform.record_batches import (
    ViewBatch,
    adapter_config,
    make_record_batch,
)
from image_pipeline.components.views.options import ViewOptions

VIEW = ViewOptions(height_px=6, width_px=5)


def make_pipeline():
    """A local Beam pipeline."""
    return beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS)))


def analyze(folder, batches, preprocessing_fn, view=VIEW):
    """Writes the transform graph of `[(images, labels), …]` to a folder."""
    record_batches = [
        make_record_batch(ViewBatch(np.array(labels, object), {}, images))
        for images, labels in batches
    ]
    with (
        tempfile.TemporaryDirectory() as scratch,
        make_pipeline() as root,
        tft_beam.Context(temp_dir=scratch),
    ):
        data = root | beam.Create(record_batches, reshuffle=False)
        transform_fn = (data, adapter_config(view)) | tft_beam.AnalyzeDataset(preprocessing_fn)
        _ = transform_fn | tft_beam.WriteTransformFn(str(folder))
