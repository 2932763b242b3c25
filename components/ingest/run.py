"""Ingest as a Beam job without TFX.

Only references to files and counts cross Beam's stages, never images: one element for hundreds of
images. No runner ever shuffles or holds pixels.
"""

import collections
import concurrent.futures
import dataclasses
import functools
from collections.abc import Callable, Iterator

import apache_beam as beam
from apache_beam.pvalue import AsSingleton
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from image_pipeline.components import files, progress
from image_pipeline.components.beam.counters import count
from image_pipeline.components.beam.job import run_job
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.ingest.earlier import Earlier, fingerprint_sources
from image_pipeline.components.ingest.find_depth import add_up, count_chunk, find_depth
from image_pipeline.components.ingest.output import start_output, write_manifest
from image_pipeline.components.ingest.partition import ShardTask, plan_shards
from image_pipeline.components.ingest.prepare_chunk import prepare_chunk
from image_pipeline.components.ingest.shards import WrittenShard, write_shard
from image_pipeline.components.ingest.work_folder import (
    ListedChunk,
    PreparedChunk,
    WorkFolder,
)
from image_pipeline.components.meaning.listing import Listing, list_images
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.threads import start


def run_ingest(
    images_dir: str,
    output_dir: str,
    work_dir: str,
    options: IngestOptions,
    make_pipeline: Callable[[], beam.Pipeline],
    listing: Listing | None = None,
    earlier: Earlier | None = None,
) -> Manifest:
    """Ingests a folder of images.

    Args:
      images_dir: the folder of images, or its URI.
      output_dir: the data set's folder; `docs/format.md` lists what it will hold.
      work_dir: the working folder; deleted in the end, kept after a failure.
      make_pipeline: makes the Beam pipeline to run on.
      listing: of these images, with these options, if it was made already.
      earlier: the data set from which images are taken that have not changed; it stays as it is.

    Returns:
      The manifest, which is the same with and without an earlier data set.

    Raises:
      UserError: if the person who called can put it right.
      RuntimeError: if a stage lost what entered it; the message names the stage.
    """
    earlier_dir = "" if earlier is None else earlier.data_dir
    with WorkFolder(work_dir, earlier=earlier_dir).hold() as work:
        listing = listing or list_images(images_dir, options)
        work.keep_listing(listing, fingerprint_sources(listing))
        ingest = IngestImages(images_dir, output_dir, work, listing.options, earlier)
        with run_job(make_pipeline(), work_dir) as root:
            root | "Ingest" >> ingest
        manifest = work.read_finished()
        files.delete_tree(work_dir)
    return manifest


@dataclasses.dataclass
class IngestImages(beam.PTransform):
    """Ingests a folder of images into an output folder.

    Attributes:
      images_dir: the folder of images, or its URI.
      output_dir: where shards, index, books and, last, the manifest are written.
      work: the working folder; kept after a failure, it lets the next run go on.
      options: of ingest.
      earlier: the data set from which unchanged images are taken.
    """

    images_dir: str
    output_dir: str
    work: WorkFolder
    options: IngestOptions
    earlier: Earlier | None = None

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """Builds the pipeline; its result has one element, the manifest."""
        folders = (self.images_dir, self.work)
        # One element for hundreds of references; the runner spreads them over its workers.
        chunks = (
            root
            | "Start" >> beam.Create([self.images_dir])
            | "List" >> beam.FlatMap(list_chunks, self.work, self.options)  # ListedChunk
            | "SpreadChunks" >> beam.Reshuffle()
        )
        # Levels in percent need all images before the first one is stored.
        complete: IngestOptions | AsSingleton = self.options
        if self.options.prepare.depth.must_be_found:
            complete = AsSingleton(
                chunks
                | "CountLevels" >> beam.Map(count_chunk, *folders, self.options)  # Counted
                | "AddUp" >> beam.CombineGlobally(add_up)  # Counted
                | "FindDepth" >> beam.Map(find_depth, self.work, self.options)  # IngestOptions
            )
        # The plan needs all chunks, so that an element that the runner lost is noticed before it.
        return (
            chunks
            | "Prepare"
            >> beam.Map(prepare_listed, *folders, complete, self.earlier)  # PreparedChunk
            | "CollectChunks" >> beam.combiners.ToList()  # [PreparedChunk]
            | "CountFiles" >> beam.Map(self.work.check_prepared)  # [PreparedChunk]
            | "WriteDataSet"
            >> WriteDataSet(self.output_dir, self.work, self.options, complete)  # Manifest
        )


@dataclasses.dataclass
class WriteDataSet(beam.PTransform):
    """Plans and writes a data set from prepared chunks.

    Attributes:
      output_dir: where shards, index, books and, last, the manifest are written.
      work: the working folder, with the chunks' rows and payloads.
      options: of ingest.
      complete: the options with what was found in the images, for the manifest; None if they are.
    """

    output_dir: str
    work: WorkFolder
    options: IngestOptions
    complete: IngestOptions | AsSingleton | None = None

    def expand(self, prepared: beam.PCollection) -> beam.PCollection:
        """Takes one element, [PreparedChunk]; returns one element, the manifest."""
        folders = (self.work, self.output_dir)
        return (
            prepared
            | "Plan" >> beam.Map(plan_shards, self.work, self.options)  # [ShardTask]
            | "StartOutput" >> beam.FlatMap(start_output, *folders)  # ShardTask
            | "SpreadShards" >> beam.Reshuffle()
            | "Write" >> beam.ParDo(WriteShards(*folders))  # WrittenShard
            | "CollectShards" >> beam.combiners.ToList()  # [WrittenShard]
            | "WriteManifest"
            >> beam.Map(write_manifest, *folders, self.complete or self.options)  # Manifest
        )


def list_chunks(images_dir: str, work: WorkFolder, options: IngestOptions) -> Iterator[ListedChunk]:
    """The chunks that `keep_listing` has written for the run; a template lists them now."""
    work.check()
    kept = work.read_listed() if work.run else None
    if kept is not None and kept[0] == work.run:
        chunks = kept[1]
    else:
        chunks = work.keep_listing(list_images(images_dir, options))
    for chunk in chunks:
        count(listed=chunk.images)
        yield chunk
    progress.begin("images", sum(chunk.images for chunk in chunks))


def prepare_listed(
    listed: ListedChunk,
    images_dir: str,
    work: WorkFolder,
    options: IngestOptions,
    earlier: Earlier | None = None,
) -> PreparedChunk:
    """Prepares a chunk of the listing, see `prepare_chunk`."""
    chunk = prepare_chunk(work.read_chunk(listed), images_dir, work, options, earlier)
    count(done=chunk.found, bad=chunk.bad, skipped=chunk.skipped)
    return chunk


class WriteShards(beam.DoFn):
    """Writes shards; on an object store, two at a time, each in its own thread."""

    def __init__(self, work: WorkFolder, output_dir: str):
        """Takes the folders of `write_shard`."""
        self._folders = (work, output_dir)
        self._at_once = 1 if work.is_local and files.is_local(output_dir) else 2
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
