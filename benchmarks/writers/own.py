"""This project's ingest, the hand-written script, and a naive use of tf.Transform."""

import pathlib
import tempfile
from typing import Any

from writers.convert import QUALITY, SIZE_PX, convert, list_photos, name_photo
from writers.pooled import cores, run_pooled


def write_ours(photos: str, target: str) -> None:
    """The shipped ingest: checks, hashes, splits, order, index and manifest, too."""
    from image_pipeline.components.ingest.run import run_ingest
    from image_pipeline.components.meaning.options import IngestOptions

    options = IngestOptions(label_pattern=None, duplicates="keep_all", max_bad_fraction=1)
    run_ingest(photos, f"{target}/records", f"{target}/.work", options, _make_pipeline)


def write_script(photos: str, target: str) -> None:
    """What people write by hand: a process a core, a `TFRecordWriter` each."""
    run_pooled(_write_records, photos, target)


def _write_records(photos: str, target: str, part: int) -> None:
    import tensorflow as tf

    with tf.io.TFRecordWriter(f"{target}/{part}.tfrecord") as writer:
        for path in list_photos(photos)[part :: cores()]:
            writer.write(_make_example(name_photo(path), convert(path)))


def _make_example(name: str, stored: bytes) -> bytes:
    import tensorflow as tf

    features = {
        key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        for key, value in (("image", stored), ("name", name.encode()))
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def write_naive(photos: str, target: str) -> None:
    """As TFX's Transform is often used: examples of the files, then resized in its graph.

    TFX's own bookkeeping (ExampleGen's copy, statistics, schema) is left out, which favours it.
    """
    import apache_beam as beam
    import tensorflow as tf
    import tensorflow_transform.beam as tft_beam
    from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder
    from tfx_bsl.public import tfxio

    raw = f"{target}/.raw.tfrecord"
    with tf.io.TFRecordWriter(raw) as writer:
        for path in list_photos(photos):
            writer.write(_make_example(name_photo(path), pathlib.Path(path).read_bytes()))
    source = tfxio.TFExampleRecord([raw], telemetry_descriptors=["Benchmark"], schema=_schema())
    with (
        tempfile.TemporaryDirectory() as scratch,
        _make_pipeline() as root,
        tft_beam.Context(temp_dir=scratch),
    ):
        records = root | "Read" >> source.BeamSource(batch_size=64)
        analysed = (records, source.TensorAdapterConfig())
        transform = tft_beam.AnalyzeAndTransformDataset(_shrink, output_record_batches=True)
        (transformed, metadata), _ = analysed | transform
        encoder = RecordBatchToExamplesEncoder(metadata.schema)
        _ = (
            transformed
            | "Encode" >> beam.FlatMapTuple(lambda batch, _: encoder.encode(batch))
            | "Write" >> beam.io.WriteToTFRecord(f"{target}/shard.tfrecord", num_shards=cores())
        )
    pathlib.Path(raw).unlink()


def _shrink(inputs: dict[str, Any]) -> dict[str, Any]:
    """The `preprocessing_fn`: image by image, decoded, resized and encoded by TensorFlow."""
    import tensorflow as tf

    def shrink_one(stored: tf.Tensor) -> tf.Tensor:
        image = tf.io.decode_jpeg(stored, channels=3)
        sides = tf.cast(tf.shape(image)[:2], tf.float32)
        scale = tf.minimum(1.0, SIZE_PX / tf.reduce_min(sides))
        size = tf.cast(tf.round(scale * sides), tf.int32)
        resized = tf.cast(tf.image.resize(image, size, "area"), tf.uint8)
        return tf.io.encode_jpeg(resized, quality=QUALITY)

    images = tf.map_fn(shrink_one, inputs["image"], fn_output_signature=tf.string)
    return {"image": images, "name": inputs["name"]}


def _schema() -> Any:
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    one = "presence { min_fraction: 1 } shape {}"
    features = [f'feature {{ name: "{key}" type: BYTES {one} }}' for key in ("image", "name")]
    return text_format.Parse("\n".join(features), schema_pb2.Schema())


def _make_pipeline() -> Any:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS

    return beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS)))


def count_records(target: str) -> int:
    """Records of all TFRecord files."""
    import tensorflow as tf

    paths = [str(path) for path in pathlib.Path(target).rglob("*tfrecord*") if path.is_file()]
    return sum(1 for _ in tf.data.TFRecordDataset(paths))
