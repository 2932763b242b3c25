"""The Beam wiring of the analysis: shards → pixel batches → tf.Transform → a graph."""

import dataclasses
from collections.abc import Sequence

import apache_beam as beam
import pyarrow as pa
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.beam import analysis_graph_builder

from image_pipeline.components import files
from image_pipeline.components.beam.counters import count
from image_pipeline.components.transform import span_cache
from image_pipeline.components.transform.analysed_sets import Span
from image_pipeline.components.transform.finish import GraphTask, finish_graph
from image_pipeline.components.transform.record_batches import (
    adapter_config,
    input_specs,
    read_view_batches,
)
from image_pipeline.components.transform.sums_analyzer import GivesSums
from image_pipeline.components.transform.traced_function import PreprocessingFn


@dataclasses.dataclass
class AnalyzeImages(beam.PTransform):
    """Runs a `preprocessing_fn`'s analyzers over the deterministic views of records.

    Attributes:
      preprocessing_fn: in tf.Transform's convention, over `contract`'s inputs.
    """

    task: GraphTask
    preprocessing_fn: PreprocessingFn

    def expand(self, spans: beam.PCollection) -> beam.PCollection:
        """Takes one element, the data sets ([Span]); its result has one element, None.

        Each shard is a task; pixels never cross a stage.
        """
        shards = spans | "Shards[All]" >> beam.FlatMap(_list_shards)
        batches = shards | "All" >> _ReadBatches(self.task)
        config = adapter_config(self.task.view, self.task.wanted)
        transform_fn = (batches, config) | "Analyze" >> tft_beam.AnalyzeDataset(
            self.preprocessing_fn
        )
        return _write_graph(transform_fn, spans, self.task)


@dataclasses.dataclass
class AnalyzeNewImages(beam.PTransform):
    """`AnalyzeImages` of those data sets that are not in a cache, which it reads and adds to.

    Attributes:
      spans: the data sets; tf.Transform has to know them while the job is described.
      preprocessing_fn: in tf.Transform's convention, over `contract`'s inputs.
      cache_dir: what analyzers found in earlier data sets.
    """

    spans: Sequence[Span]
    task: GraphTask
    preprocessing_fn: PreprocessingFn
    cache_dir: str

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """Builds the pipeline; its result has one element, None."""
        transform_fn = self._analyze(root)
        spans = root | "Spans" >> beam.Create([list(self.spans)])
        return _write_graph(transform_fn, spans, self.task)

    def _analyze(self, root: beam.Pipeline) -> tuple:
        """Reads the spans that the cache does not cover; what it covers is merged in."""
        spans = {tft_beam.analyzer_cache.DatasetKey(span.key): span for span in self.spans}
        span_cache.drop_unfinished(self.cache_dir, self.spans)
        cache = root | "ReadCache" >> tft_beam.analyzer_cache.ReadAnalysisCacheFromFS(
            self.cache_dir, list(spans)
        )
        specs = input_specs(self.task.view, self.task.wanted.columns)
        uncovered = analysis_graph_builder.get_analysis_dataset_keys(
            self.preprocessing_fn, specs, set(spans), cache, force_tf_compat_v1=False
        )
        span_cache.unmark(self.cache_dir, [spans[key] for key in uncovered])
        data = {
            key: self._read(root, span) if key in uncovered else None for key, span in spans.items()
        }
        transform_fn, found = (
            data,
            cache,
            adapter_config(self.task.view, self.task.wanted),
        ) | "Analyze" >> tft_beam.AnalyzeDatasetWithCache(
            self.preprocessing_fn, pipeline=root.pipeline
        )
        if found:
            _ = found | "WriteCache" >> tft_beam.analyzer_cache.WriteAnalysisCacheToFS(
                root.pipeline, self.cache_dir
            )
        return transform_fn

    def _read(self, root: beam.Pipeline, span: Span) -> beam.PCollection:
        shards = root | f"Shards[{span.key}]" >> beam.Create(list(span.shards))
        return shards | span.key >> _ReadBatches(self.task)


@dataclasses.dataclass
class _ReadBatches(GivesSums):
    task: GraphTask

    def expand(self, shards: beam.PCollection) -> beam.PCollection:
        """Takes paths of shards; returns RecordBatches of views."""
        task = self.task
        return (
            shards
            | "SpreadShards" >> beam.Reshuffle()
            | "ReadViews"
            >> beam.FlatMap(  # RecordBatch
                read_view_batches,
                task.view,
                task.options.batch_size,
                task.wanted,
                task.options.analyze_fraction,
            )
            | "Count" >> beam.Map(_count_batch)  # RecordBatch
        )


def _write_graph(transform_fn: tuple, spans: beam.PCollection, task: GraphTask) -> beam.PCollection:
    """Writes tf.Transform's result and what is said of it; returns one element, None.

    `tft_beam.WriteTransformFn` would replace an earlier graph before anybody has seen the new one,
    and by moving files, which cannot be repeated.
    """
    saved_model, metadata = transform_fn
    scratch = files.join(tft_beam.Context.create_base_temp_dir(), "metadata")
    schema = metadata | "WriteMetadata" >> tft_beam.WriteMetadata(
        scratch, saved_model.pipeline, write_to_unique_subdirectory=True
    )
    return (
        saved_model
        | "Settle" >> beam.Reshuffle()
        | "Finish"
        >> beam.Map(
            finish_graph, beam.pvalue.AsSingleton(schema), beam.pvalue.AsSingleton(spans), task
        )
    )


def _list_shards(spans: Sequence[Span]) -> list[str]:
    return [shard for span in spans for shard in span.shards]


def _count_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    count(done=batch.num_rows)
    return batch
