"""The Beam wiring of ingest: list → prepare chunks → plan → write shards → manifest.

What crosses Beam's stages are references to files and counts, never images: one element for
hundreds of images. No runner ever shuffles or holds pixels.
"""

import dataclasses

import apache_beam as beam

from components.ingest.manifest import start_output, write_manifest
from components.ingest.options import IngestOptions
from components.ingest.partition import plan_shards
from components.ingest.prepare import prepare_chunk
from components.ingest.shards import write_shard
from components.ingest.sources import list_images, make_chunks


@dataclasses.dataclass
class IngestImages(beam.PTransform):
    """Ingests a folder of images into an output folder.

    Attributes:
      images_dir: the folder of images, or its URI.
      output_dir: where shards, index, books and, last, the manifest are written.
      work_dir: the working folder; kept after a failure, it lets the next run go on.
      options: of ingest.
    """

    images_dir: str
    output_dir: str
    work_dir: str
    options: IngestOptions

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """Builds the pipeline; its result is one element, the manifest (a dict)."""
        return (
            root
            | "Start" >> beam.Create([self.images_dir])
            | "List" >> beam.FlatMap(lambda folder: make_chunks(list_images(folder)))  # Chunk
            | "SpreadChunks" >> beam.Reshuffle()
            | "Prepare"
            >> beam.Map(
                prepare_chunk, self.images_dir, self.work_dir, self.options
            )  # PreparedChunk
            | "CollectChunks" >> beam.combiners.ToList()  # [PreparedChunk]
            | "Plan" >> beam.Map(plan_shards, self.work_dir, self.options)  # [ShardTask]
            | "StartOutput" >> beam.FlatMap(start_output, self.output_dir)  # ShardTask
            | "SpreadShards" >> beam.Reshuffle()
            | "Write" >> beam.Map(write_shard, self.work_dir, self.output_dir)  # WrittenShard
            | "CollectShards" >> beam.combiners.ToList()  # [WrittenShard]
            | "WriteManifest"
            >> beam.Map(write_manifest, self.work_dir, self.output_dir, self.options)  # dict
        )
