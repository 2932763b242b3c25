"""The Beam wiring of the analysis: shards → pixel batches → tf.Transform → a graph."""

import dataclasses
from collections.abc import Sequence

import apache_beam as beam
import pyarrow as pa
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.beam import analysis_graph_builder

from image_pipeline.components.beam.counters import count
from image_pipeline.components.dataset.record import Column
from image_pipeline.components.transform import span_cache
from image_pipeline.components.transform.analysed_sets import Span
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.record_batches import (
    adapter_config,
    input_specs,
    read_view_batches,
)
from image_pipeline.components.transform.traced_function import PreprocessingFn
from image_pipeline.components.views.options import ViewOptions


@dataclasses.dataclass
class AnalyzeImages(beam.PTransform):
    """Runs a `preprocessing_fn`'s analyzers over the deterministic views of records.

    Attributes:
      spans: the data sets.
      columns: the further columns that the `preprocessing_fn` reads.
      view: the model's input.
      preprocessing_fn: in tf.Transform's convention, over `contract`'s inputs.
      output_dir: where the transform graph is written.
      cache_dir: what analyzers found in earlier spans, read and added to; None for no cache.
    """

    spans: Sequence[Span]
    columns: Sequence[Column]
    view: ViewOptions
    preprocessing_fn: PreprocessingFn
    options: TransformOptions
    output_dir: str
    cache_dir: str | None = None

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """Builds the pipeline. Each shard is a task; pixels never cross a stage."""
        if self.cache_dir is None:
            batches = self._read(
                root, "All", [shard for span in self.spans for shard in span.shards]
            )
            transform_fn = (batches, self._adapter_config()) | "Analyze" >> tft_beam.AnalyzeDataset(
                self.preprocessing_fn
            )
        else:
            transform_fn = self._analyze_with_cache(root, self.cache_dir)
        return transform_fn | "WriteGraph" >> tft_beam.WriteTransformFn(self.output_dir)

    def _analyze_with_cache(self, root: beam.Pipeline, cache_dir: str) -> beam.PCollection:
        """Reads the spans that the cache does not cover; what it covers is merged in."""
        spans = {tft_beam.analyzer_cache.DatasetKey(span.key): span for span in self.spans}
        span_cache.drop_unfinished(cache_dir, self.spans)
        cache = root | "ReadCache" >> tft_beam.analyzer_cache.ReadAnalysisCacheFromFS(
            cache_dir, list(spans)
        )
        specs = input_specs(self.view, self.columns)
        uncovered = analysis_graph_builder.get_analysis_dataset_keys(
            self.preprocessing_fn, specs, set(spans), cache, force_tf_compat_v1=False
        )
        span_cache.unmark(cache_dir, [spans[key] for key in uncovered])
        data = {
            key: self._read(root, span.key, span.shards) if key in uncovered else None
            for key, span in spans.items()
        }
        transform_fn, found = (
            data,
            cache,
            self._adapter_config(),
        ) | "Analyze" >> tft_beam.AnalyzeDatasetWithCache(
            self.preprocessing_fn, pipeline=root.pipeline
        )
        if found:
            _ = found | "WriteCache" >> tft_beam.analyzer_cache.WriteAnalysisCacheToFS(
                root.pipeline, cache_dir
            )
        return transform_fn

    def _read(self, root: beam.Pipeline, name: str, shards: Sequence[str]) -> beam.PCollection:
        return (
            root
            | f"Shards[{name}]" >> beam.Create(list(shards))
            | f"SpreadShards[{name}]" >> beam.Reshuffle()
            | f"ReadViews[{name}]"
            >> beam.FlatMap(  # RecordBatch
                read_view_batches,
                self.view,
                self.options.batch_size,
                self.columns,
                self.options.analyze_fraction,
            )
            | f"Count[{name}]" >> beam.Map(_count_batch)  # RecordBatch
        )

    def _adapter_config(self):
        return adapter_config(self.view, self.columns)


def _count_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    count(done=batch.num_rows)
    return batch
