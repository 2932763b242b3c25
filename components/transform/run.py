"""The analysis as one Beam job, without TFX: shards → views → tf.Transform → a graph in its place.

`run_analysis` and `AnalyzeImages.expand` are the whole way.
"""

import dataclasses
import logging
import re
from collections.abc import Callable, Sequence

import apache_beam as beam
import pyarrow as pa
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.beam import analysis_graph_builder

from image_pipeline.components import contract, files, progress
from image_pipeline.components.beam.counters import count
from image_pipeline.components.beam.job import make_scratch, run_job, runs_here
from image_pipeline.components.dataset.record import Column, choose_columns, label_column
from image_pipeline.components.dotted import load_named
from image_pipeline.components.errors import UserError, find_user_error, walk_causes
from image_pipeline.components.feeding.analysis import read_content
from image_pipeline.components.function_version import source_version
from image_pipeline.components.transform.analysed_sets import GraphTask, Span, read_spans
from image_pipeline.components.transform.check_function import check_function
from image_pipeline.components.transform.finish import check_unknown_classes, finish_graph
from image_pipeline.components.transform.kept_sums import KeptSums, read_sums
from image_pipeline.components.transform.moments import GivesSums, take_rows
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.record_batches import (
    adapter_config,
    input_specs,
    read_view_batches,
)
from image_pipeline.components.transform.traced_function import (
    PreprocessingFn,
    find_wanted,
    guard,
    reach_inputs,
)
from image_pipeline.components.views.options import ViewOptions

_LOG = logging.getLogger(__name__)
_MARKER = "COMPLETE"
_FOR_OTHERS = "a transform graph that other machines write"
# How tf.Transform 1.21 wraps what TensorFlow says (`beam/impl.py`, `_RunMetaGraphDoFn`). Runners
# may carry it as the text of a traceback only, so the text is searched.
_APPLYING = re.compile(
    r'An error occurred while trying to apply the transformation: "(.*?)"\.\s*Batch instances:',
    re.DOTALL,
)
# TensorFlow's message ends where it names the operation of the graph.
_OPERATION = re.compile(r"^(.*)\n\s*\[\[\{\{node (\S+?)\}\}", re.MULTILINE)


def run_analysis(
    examples_dirs: str | Sequence[str],
    output_dir: str,
    view: ViewOptions,
    options: TransformOptions,
    make_pipeline: Callable[[], beam.Pipeline],
    cache_dir: str | None = None,
    earlier: str | None = None,
) -> dict:
    """Analyses one or several data sets written by ingest.

    Args:
      examples_dirs: the data set's folder, with its manifest; or several such folders.
      output_dir: where the transform graph and `analysis.json` are written.
      view: the model's input.
      make_pipeline: makes the Beam pipeline to run on.
      cache_dir: where the findings for each data set are kept: data sets that were analysed before
        by the same function are not read again. None reads all, and keeps nothing.
      earlier: folder of a graph that was made before: images whose sums it has are not decoded, if
        no analyzer looks at pixels themselves. None looks into `output_dir`.

    Returns:
      What `analysis.json` holds: the splits and records analysed, the view, the classes, and the
      statistics that the `preprocessing_fn` named; beside it as `earlier`, where there is something
      to say of it, a sentence about that graph.

    Raises:
      UserError: if the person who called can put it right, or a stage lost records, which is named.
    """
    root = make_pipeline()
    # What Beam and TensorFlow write by themselves; they know fewer stores than we.
    if cache_dir is not None:
        files.check_known_to_tensorflow(cache_dir, "the analysis's cache")
    if not runs_here(root):
        files.check_known_to_tensorflow(output_dir, _FOR_OTHERS)
    # All that manifests and indexes tell, before anything is read or traced.
    folders = [examples_dirs] if isinstance(examples_dirs, str) else list(examples_dirs)
    spans = read_spans(folders, view, options)
    check_unknown_classes(spans, options)
    progress.begin("images", sum(span.records for span in spans))
    try:
        # The function is traced, and its mistakes are reported, before the job begins.
        further, first = _find_further(spans, options), _find_first(spans)
        folder = output_dir if earlier is None else earlier
        function, task = plan_graph(output_dir, view, options, further, first, folder)
        kept = read_sums(folder, view)
        with (
            make_scratch(root, output_dir) as scratch,
            run_job(root, scratch),
            tft_beam.Context(temp_dir=scratch),
        ):
            given = root | "Spans" >> beam.Create([spans])
            given | "AnalyzeImages" >> AnalyzeImages(task, function, spans, cache_dir)
    except UserError:
        raise
    except Exception as error:  # On a worker it may have been any, given as text.
        known = find_function_error(error, options.preprocessing_fn) or find_user_error(error)
        if known:
            raise known from error
        raise
    if cache_dir is not None:
        for span in spans:  # tf.Transform lists a span's entries before it computes them.
            files.write_file(_marker(cache_dir, span), b"")
    if said := _describe_earlier(kept, task, is_named=earlier is not None):
        _LOG.info("%s.", said)
    return read_content(output_dir) | ({"earlier": said} if said else {})


def analyze_later(
    data_dirs: beam.PCollection,
    output_dir: str,
    scratch_dir: str,
    view: ViewOptions,
    options: TransformOptions,
    further: Sequence[Column],
    first: Sequence[str] = (),
) -> beam.PCollection:
    """Adds the analysis to a job that may run at any time, more than once, and on its own.

    Args:
      data_dirs: one element, the folder of a data set that is there when it arrives.
      output_dir: where the transform graph and `analysis.json` are written.
      scratch_dir: a folder that all workers see; the job deletes it in the end.
      view: the model's input.
      further: the further columns of the data set.
      first: the classes that are numbered first, as `ingest.classes` has them.

    Returns:
      One element, None.

    Raises:
      UserError: if the `preprocessing_fn` cannot be used, or TensorFlow cannot write to the folder.
    """
    files.check_known_to_tensorflow(output_dir, _FOR_OTHERS)
    function, task = plan_graph(output_dir, view, options, further, first)
    # What the data set holds when the job runs: other shards than today's, perhaps.
    spans = data_dirs | "ReadIndex" >> beam.Map(lambda folder: _find_spans([folder], task))
    with tft_beam.Context(temp_dir=scratch_dir):
        finished = spans | "AnalyzeImages" >> AnalyzeImages(task, function)
    return finished | "DeleteScratch" >> beam.Map(lambda _: files.delete_tree(scratch_dir))


def plan_graph(
    output_dir: str,
    view: ViewOptions,
    options: TransformOptions,
    further: Sequence[Column],
    first: Sequence[str] = (),
    earlier: str = "",
) -> tuple[PreprocessingFn, GraphTask]:
    """What a job needs to make a graph: the function to analyse, and what workers must know of it.

    Args:
      output_dir: where the transform graph is written.
      view: the model's input.
      further: the further columns of the data sets.
      first: the classes that are numbered first, as `ingest.classes` has them.
      earlier: folder of a graph that was made before; "" for none.

    Raises:
      UserError: if there is no such function, or a trace shows that it cannot be used.
    """
    name = options.preprocessing_fn
    function = load_named("transform.preprocessing_fn", name)
    if not callable(function):
        raise UserError(
            f"transform.preprocessing_fn must name a function, but {name!r} is of type "
            f"{type(function).__name__}; name the function."
        )
    columns = _choose_inputs(options, further)
    traced = check_function(function, name, input_specs(view, columns))
    return guard(function, name, first), GraphTask(
        output_dir=output_dir,
        view=view,
        options=options,
        wanted=find_wanted(traced, columns),
        function_version=source_version(name),
        is_named_by_label=reach_inputs(traced, contract.LABEL_OUTPUT) <= {contract.LABEL_INPUT},
        first=tuple(first),
        earlier=earlier,
    )


def load_preprocessing_fn(
    view: ViewOptions, options: TransformOptions, further: Sequence[Column] = ()
) -> PreprocessingFn:
    """The function of `plan_graph`, to be checked before any data is read."""
    return plan_graph("", view, options, further)[0]


@dataclasses.dataclass
class AnalyzeImages(beam.PTransform):
    """Runs a `preprocessing_fn`'s analyzers over the deterministic views of records.

    Attributes:
      preprocessing_fn: in tf.Transform's convention, over `contract`'s inputs.
      spans: the data sets, if there is a cache: tf.Transform has to know them while the job is
        described.
      cache_dir: what analyzers found in earlier data sets, which are not read again; added to.
    """

    task: GraphTask
    preprocessing_fn: PreprocessingFn
    spans: Sequence[Span] = ()
    cache_dir: str | None = None

    def expand(self, spans: beam.PCollection) -> beam.PCollection:
        """Takes one element, the data sets ([Span]); its result has one element, None."""
        config = adapter_config(self.task.view, self.task.wanted)
        if self.cache_dir is not None:
            transform_fn, read = self._analyze_new(spans.pipeline, config)
        else:
            # Each shard is a task; pixels never cross a stage.
            shards = spans | "Shards[All]" >> beam.FlatMap(_list_shards)
            batches = shards | "All" >> _ReadBatches(self.task)
            read = [batches]
            analyze = tft_beam.AnalyzeDataset(self.preprocessing_fn)
            transform_fn = (batches, config) | "Analyze" >> analyze
        saved_model, metadata = transform_fn
        # `tft_beam.WriteTransformFn` would replace an earlier graph before anybody has seen the new
        # one, and by moving files, which cannot be repeated.
        scratch = files.join(tft_beam.Context.create_base_temp_dir(), "metadata")
        schema = metadata | "WriteMetadata" >> tft_beam.WriteMetadata(
            scratch, saved_model.pipeline, write_to_unique_subdirectory=True
        )
        rows = [
            batches | f"TakeRows[{number}]" >> beam.Map(take_rows)  # int64 [B, …]
            for number, batches in enumerate(read)
            if self.task.wanted.sums
        ]
        if self.task.wanted.sums and self.cache_dir is not None:  # What it spares reading stays.
            tasks = spans.pipeline | "Task" >> beam.Create([self.task])
            rows.append(tasks | "KeepRows" >> beam.Map(lambda t: read_sums(t.earlier, t.view).rows))
        sums = rows | "AllRows" >> beam.Flatten(pipeline=spans.pipeline)
        as_one, as_many = beam.pvalue.AsSingleton, beam.pvalue.AsIter
        found = (as_one(schema), as_one(spans), as_many(sums))
        return (
            saved_model
            | "Settle" >> beam.Reshuffle()  # so that a failure repeats the last stage alone
            | "Finish" >> beam.Map(finish_graph, *found, self.task)
        )

    def _analyze_new(self, root: beam.Pipeline, config: object) -> tuple:
        """Reads the spans that the cache does not cover; what it covers is merged in."""
        cache_dir = self.cache_dir or ""
        spans = {tft_beam.analyzer_cache.DatasetKey(span.key): span for span in self.spans}
        for span in self.spans:  # A run that died has left a list of entries that are missing.
            if not files.exists(_marker(cache_dir, span)):
                files.delete_tree(files.join(cache_dir, span.key))
        cache = root | "ReadCache" >> tft_beam.analyzer_cache.ReadAnalysisCacheFromFS(
            cache_dir, list(spans)
        )
        specs = input_specs(self.task.view, self.task.wanted.columns)
        uncovered = analysis_graph_builder.get_analysis_dataset_keys(
            self.preprocessing_fn, specs, set(spans), cache, force_tf_compat_v1=False
        )
        data: dict = dict.fromkeys(spans)
        for key in uncovered:
            files.delete(_marker(cache_dir, spans[key]))  # Its entries are being written.
            shards = root | f"Shards[{spans[key].key}]" >> beam.Create(list(spans[key].shards))
            data[key] = shards | spans[key].key >> _ReadBatches(self.task)
        analyze = tft_beam.AnalyzeDatasetWithCache(self.preprocessing_fn, pipeline=root)
        transform_fn, found = (data, cache, config) | "Analyze" >> analyze
        if found:
            _ = found | "WriteCache" >> tft_beam.analyzer_cache.WriteAnalysisCacheToFS(
                root, cache_dir
            )
        return transform_fn, [data[key] for key in uncovered]


@dataclasses.dataclass
class _ReadBatches(GivesSums):
    task: GraphTask

    def expand(self, shards: beam.PCollection) -> beam.PCollection:
        """Takes paths of shards; returns RecordBatches of views."""
        task = self.task
        options = (task.options.batch_size, task.wanted, task.options.analyze_fraction)
        return (
            shards
            | "SpreadShards" >> beam.Reshuffle()
            | "ReadViews" >> beam.FlatMap(read_view_batches, task.view, *options, task.earlier)
            | "Count" >> beam.Map(_count_batch)  # RecordBatch
        )


def _describe_earlier(kept: KeptSums, task: GraphTask, is_named: bool) -> str:
    """What an earlier graph was good for; "" where nobody named it and it was good for nothing."""
    if task.wanted.pixels or not task.wanted.sums:
        said = "has nothing to give: the preprocessing_fn analyses single pixels, or no image"
        return f"{task.earlier} {said}" if is_named else ""
    if kept.problem:
        return f"{task.earlier} {kept.problem}, so all images were decoded"
    shared = kept.count_shared(read_sums(task.output_dir, task.view))
    known = f"{task.earlier} had the sums of {shared:,} images, which were not decoded again"
    return known if shared or is_named else ""


def _list_shards(spans: Sequence[Span]) -> list[str]:
    return [shard for span in spans for shard in span.shards]


def _count_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    count(done=batch.num_rows)
    return batch


def _marker(cache_dir: str, span: Span) -> str:
    """The file that says that a span's entries in the cache are complete."""
    return files.join(cache_dir, span.key, _MARKER)


def _find_spans(examples_dirs: Sequence[str], task: GraphTask) -> list[Span]:
    """Reads what the data sets of a job hold that was described before.

    Raises:
      UserError: if they cannot be analysed together, or have other columns than the job has.
    """
    spans = read_spans(examples_dirs, task.view, task.options)
    columns = _choose_inputs(task.options, _find_further(spans, task.options))
    planned = task.wanted.columns
    if columns != planned:
        raise UserError(
            f"the job analyses the columns {planned}, but the data sets {list(examples_dirs)} "
            f"have {columns}; compile the template again."
        )
    if (first := _find_first(spans)) != task.first:
        raise UserError(
            f"the job numbers classes in the order of ingest.classes={list(task.first)}, but the "
            f"data sets {list(examples_dirs)} have {list(first)}; compile the template again."
        )
    check_unknown_classes(spans, task.options)
    return spans


def _find_further(spans: Sequence[Span], options: TransformOptions) -> tuple[Column, ...]:
    """The further columns; those that are read must be alike in all data sets."""
    chosen = {span.examples_dir: _choose_inputs(options, span.further) for span in spans}
    if len(set(chosen.values())) > 1:
        raise UserError(
            f"data sets that are analysed together must have transform.columns of the same types, "
            f"got {chosen}; give ingest.column_types, and ingest again."
        )
    return spans[0].further


def _find_first(spans: Sequence[Span]) -> tuple[str, ...]:
    """The classes whose order somebody gave; of several lists, what the earlier ones lack."""
    return tuple(dict.fromkeys(name for span in spans for name in span.given_classes))


def _choose_inputs(options: TransformOptions, further: Sequence[Column]) -> tuple[Column, ...]:
    """What a `preprocessing_fn` reads beside image and class: tags or values, chosen columns."""
    label = label_column(further)
    chosen = choose_columns("transform.columns", options.columns, further)
    return chosen if label is None else (*chosen, label)


def find_function_error(error: BaseException, name: str) -> UserError | None:
    """Finds, in what a runner reports, the error that the traced function met in the data.

    Args:
      error: what the runner raised.
      name: the preprocessing_fn's dotted path, for the message.

    Returns:
      The error in words, or None if the function was not running.
    """
    found = next(filter(None, (_APPLYING.search(str(each)) for each in walk_causes(error))), None)
    if found is None:
        return None
    # TensorFlow's sentence and the operation, without its notes on where that was defined.
    message = found[1].strip()
    short = message.splitlines()[-1].strip() if message else "no message"
    if operation := _OPERATION.search(found[1]):
        short = f"{operation[1].strip()} (operation {operation[2]})"
    return UserError(
        f"preprocessing_fn {name} fails on the data: {short}; it must take every image, label and "
        "column of the data set."
    )
