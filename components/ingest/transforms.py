"""The Beam wiring of ingest: list → prepare chunks → plan → write shards → manifest.

Only references to files and counts cross Beam's stages, never images: one element for hundreds of
images. No runner ever shuffles or holds pixels.
"""

import collections
import concurrent.futures
import dataclasses
import functools
from collections.abc import Iterator

import apache_beam as beam
from apache_beam.pvalue import AsSingleton
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from image_pipeline.components import files
from image_pipeline.components.beam.counters import count
from image_pipeline.components.beam.flags import JobOptions
from image_pipeline.components.ingest.counts import check_prepared, check_unpacked
from image_pipeline.components.ingest.find_depth import add_up, count_chunk, find_depth
from image_pipeline.components.ingest.listed import ListedChunk, list_chunks
from image_pipeline.components.ingest.output import start_output, write_manifest
from image_pipeline.components.ingest.partition import ShardTask, plan_shards
from image_pipeline.components.ingest.plan import memory_to_plan
from image_pipeline.components.ingest.prepare import prepare
from image_pipeline.components.ingest.prepared_rows import PreparedChunk
from image_pipeline.components.ingest.retry import Retry, write_marker
from image_pipeline.components.ingest.shards import WrittenShard, write_shard
from image_pipeline.components.ingest.unpack import list_rows, list_shards, unpack_shard
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.threads import start


@dataclasses.dataclass
class IngestImages(beam.PTransform):
    """Ingests a folder of images into an output folder.

    Attributes:
      images_dir: the folder of images, or its URI.
      output_dir: where shards, index, books and, last, the manifest are written.
      work_dir: the working folder; kept after a failure, it lets the next run go on.
      run: the name of the run, see `fence`; "" for a template, of many runs.
    """

    images_dir: str
    output_dir: str
    work_dir: str
    options: IngestOptions
    run: str = ""

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """Builds the pipeline; its result has one element, the manifest."""
        folders = (self.images_dir, self.work_dir)
        chunks = (
            root
            | "Start" >> beam.Create([self.images_dir])
            | "List"
            >> beam.FlatMap(list_chunks, self.work_dir, self.options, self.run)  # ListedChunk
            | "CountListed" >> beam.Map(_count_listed)  # ListedChunk
            | "SpreadChunks" >> beam.Reshuffle()
        )
        complete: IngestOptions | AsSingleton = self.options
        if self.options.prepare.depth.must_be_found:
            complete = AsSingleton(
                chunks
                | "CountLevels" >> beam.Map(count_chunk, *folders, self.options)  # Counted
                | "AddUp" >> beam.CombineGlobally(add_up)  # Counted
                | "FindDepth" >> beam.Map(find_depth, self.work_dir, self.options)  # IngestOptions
            )
        return (
            chunks
            | "Prepare" >> beam.Map(prepare, *folders, complete)  # PreparedChunk
            | "CountPrepared" >> beam.Map(_count_prepared)  # PreparedChunk
            | "CollectChunks" >> beam.combiners.ToList()  # [PreparedChunk]
            | "CountFiles" >> beam.Map(check_prepared, self.work_dir)  # [PreparedChunk]
            | "WriteDataSet"
            >> WriteDataSet(self.output_dir, self.work_dir, self.options, complete)  # Manifest
        )


@dataclasses.dataclass
class UnpackDataSet(beam.PTransform):
    """Restores a data set's rows and payloads, and adds those of the retried files.

    Attributes:
      retried: the chunks of the retried files.
      retry: what became of them.
      images_dir: the folder of images, or its URI.
      output_dir: the data set's folder.
      work_dir: the working folder.
      run: the name of the run, see `fence`.
    """

    retried: list[PreparedChunk]
    retry: Retry
    images_dir: str
    output_dir: str
    work_dir: str
    options: IngestOptions
    run: str = ""

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """Builds the pipeline; its result is the marker in the working folder."""
        folders = (self.images_dir, self.output_dir, self.work_dir)
        options, run = self.options, self.run
        return (
            root
            | "Start" >> beam.Create([self.output_dir])
            | "ListShards" >> beam.FlatMap(list_shards)  # (split, number, path)
            | "SpreadShards" >> beam.Reshuffle()
            | "Unpack"
            >> beam.Map(unpack_shard, self.output_dir, self.work_dir, options, run)  # name
            | "Collect" >> beam.combiners.ToList()  # [name]
            | "CountShards" >> beam.Map(check_unpacked, self.output_dir)  # [name]
            | "ListRows"
            >> beam.Map(list_rows, self.retried, *folders, options, run)  # [PreparedChunk]
            | "Mark" >> beam.Map(write_marker, self.retry, self.work_dir, options, run)
        )


class WriteShards(beam.DoFn):
    """Writes shards; on an object store, two at a time, each in its own thread."""

    def __init__(self, work_dir: str, output_dir: str):
        """Takes the folders of `write_shard`."""
        self._folders = (work_dir, output_dir)
        self._at_once = 1 if all(map(files.is_local, self._folders)) else 2
        self._begun: collections.deque[concurrent.futures.Future[WrittenShard]]

    def start_bundle(self) -> None:
        """Starts without a shard in progress."""
        self._begun = collections.deque()

    def process(self, task: ShardTask) -> Iterator[WrittenShard]:
        """Starts a shard; yields a finished one once enough are in progress."""
        self._begun.append(start(functools.partial(write_shard, task, *self._folders)))
        if len(self._begun) == self._at_once:
            yield self._take()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Yields the remaining shards."""
        while self._begun:
            yield GlobalWindows.windowed_value(self._take())

    def _take(self) -> WrittenShard:
        """The shard that was started first. If it failed, the others are stopped, too."""
        try:
            return self._begun.popleft().result()
        except BaseException:
            concurrent.futures.wait(self._begun)
            raise


@dataclasses.dataclass
class WriteDataSet(beam.PTransform):
    """Plans and writes a data set from prepared chunks.

    Attributes:
      output_dir: where shards, index, books and, last, the manifest are written.
      work_dir: the working folder, with the chunks' rows and payloads.
      complete: the options with what was found in the images, for the manifest; None if they are.
    """

    output_dir: str
    work_dir: str
    options: IngestOptions
    complete: IngestOptions | AsSingleton | None = None

    def expand(self, prepared: beam.PCollection) -> beam.PCollection:
        """Takes one element, [PreparedChunk]; returns one element, the manifest."""
        return (
            prepared
            | "Plan"
            >> self._ask_memory(
                prepared.pipeline, beam.Map(plan_shards, self.work_dir, self.options)
            )  # [ShardTask]
            | "StartOutput"
            >> beam.FlatMap(start_output, self.work_dir, self.output_dir)  # ShardTask
            | "SpreadShards" >> beam.Reshuffle()
            | "Write" >> beam.ParDo(WriteShards(self.work_dir, self.output_dir))  # WrittenShard
            | "CollectShards" >> beam.combiners.ToList()  # [WrittenShard]
            | "WriteManifest"
            >> beam.Map(
                write_manifest, self.work_dir, self.output_dir, self.complete or self.options
            )  # Manifest
        )

    def _ask_memory(self, pipeline: beam.Pipeline, plan: beam.PTransform) -> beam.PTransform:
        """Hints how much memory one process needs, if `--expected_images` says for how many."""
        expected = pipeline.options.view_as(JobOptions).expected_images
        if expected is None:
            return plan
        return plan.with_resource_hints(min_ram=f"{memory_to_plan(expected, self.options)}B")


def _count_listed(chunk: ListedChunk) -> ListedChunk:
    count(listed=chunk.images)
    return chunk


def _count_prepared(chunk: PreparedChunk) -> PreparedChunk:
    count(done=chunk.found, bad=chunk.bad, skipped=chunk.skipped)
    return chunk
