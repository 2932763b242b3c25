"""The whole pipeline through TFX's LocalDagRunner, by the command line, on a small folder."""

import json
import pathlib
import re

import numpy as np
import pytest
from click.testing import CliRunner

from image_pipeline.cli import cli
from image_pipeline.components.dataset.manifest import read_manifest
from tests import warm
from tests.drawings import encode_png
from tests.pipeline.test_cli import call

pytestmark = pytest.mark.e2e

CLASSES = {"blue": 2, "green": 1, "red": 0}
CONFIG = """
ingest: {prepare: {encoding: png}, splits: {train: 0.7, eval: 0.3}, shards: 2,
  max_bad_fraction: 0.1}
view: {height_px: 16, width_px: 16}
feeding: {batch_size: 8, augment: [flip_horizontal]}
training: {epochs: 12, learning_rate: 0.01}
evaluation: {min_accuracy: 0.6}
"""


def _write_images(folder):
    """Noise with one bright channel, which names the class; and one file that is not an image."""
    generator = np.random.default_rng(0)
    for name, channel in CLASSES.items():
        (folder / name).mkdir(parents=True)
        for number in range(30):
            pixels = generator.integers(0, 100, (16, 16, 3), np.uint8)
            pixels[..., channel] += 120
            (folder / name / f"{number:02d}.png").write_bytes(encode_png(pixels))
    (folder / "red" / "notes.png").write_text("not an image")


def _command(folder, *arguments):
    places = ("--images", folder / "images", "--output", folder / "out")
    return ("run", *places, "--config", folder / "config.yaml", "--profile", 2, *arguments)


def _run_here(folder, *arguments):
    """Runs it in this process, which has imported TFX; the summary."""
    command = [str(argument) for argument in _command(folder, "--json", *arguments)]
    result = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.output.splitlines()[-1])  # After what Keras says of each epoch.


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("end_to_end")
    _write_images(folder / "images")
    (folder / "config.yaml").write_text(CONFIG)
    return folder


@pytest.fixture(scope="module")
def finished(folder):
    """What the command said in a process of its own, and its summary."""
    done = call(*_command(folder))
    assert done.returncode == 0, done.stderr + done.stdout
    return done, json.loads((folder / "out" / "summary.json").read_text())


def test_every_component_ran(finished):
    _, summary = finished
    assert {each["name"] for each in summary["components"]} == {
        *("ImageExampleGen", "StatisticsGen", "SchemaGen", "ExampleValidator"),
        *("ImageTransform", "Trainer", "Evaluator", "Pusher"),
    }
    assert not any(each["reused"] for each in summary["components"])


def test_nothing_is_lost_or_silent(finished):
    _, summary = finished
    ingest = summary["ingest"]
    assert (ingest["found"], ingest["written"], ingest["quarantined"]) == (91, 90, 1)
    assert ingest["quarantine_reasons"] == {"not_an_image": 1}
    assert sum(ingest["splits"].values()) == 90


def test_the_terminal_shows_the_summary_and_no_log_noise(finished):
    done, summary = finished
    for words in ("images found", "91", "rejected", "not_an_image", "mean", "steps", "blessed"):
        assert words in done.stdout
    for path in summary["paths"].values():
        assert path in done.stdout and pathlib.Path(path).exists()
    assert done.stderr == ""
    assert "WARNING" not in done.stdout and "I0000" not in done.stdout


def test_training_tells_how_long_it_waited_and_where_its_profile_is(finished):
    done, summary = finished
    assert 0 <= summary["training"]["input_wait"]["share"] <= 1
    assert "waited for input" in done.stdout
    profile = summary["profile"]
    assert profile["steps"] == 2 and profile["slowest"]
    (trace,) = pathlib.Path(profile["folder"]).glob("plugins/profile/*/*.xplane.pb")
    assert trace.stat().st_size == profile["size_bytes"]
    assert f"is in {profile['folder']}: tensorboard" in done.stdout


def test_statistics_are_numpys_over_the_train_split(finished):
    import cv2
    import pyarrow.parquet as pq

    _, summary = finished
    examples = pathlib.Path(summary["paths"]["examples"])
    pixels = []
    for row in pq.read_table(examples / "index.parquet").to_pylist():
        if row["split"] == "train":
            shard = examples / f"Split-train/data_tfrecord-{row['shard']:05d}-of-00002"
            payload = shard.read_bytes()[row["payload_offset"] :][: row["payload_length"]]
            pixels.append(cv2.imdecode(np.frombuffer(payload, np.uint8), cv2.IMREAD_COLOR_RGB))
    exact = np.stack(pixels).astype(np.float64)
    assert set(summary["statistics"]) == {"mean", "std"}
    np.testing.assert_allclose(summary["statistics"]["mean"], exact.mean((0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(summary["statistics"]["std"], exact.std((0, 1, 2)), rtol=1e-12)


def test_the_summary_names_the_classes_and_inspect_shows_the_graph_of_this_run(finished, folder):
    done, summary = finished
    counts = {row["name"]: row["records"] for row in summary["classes"]}
    assert counts.keys() == CLASSES.keys()
    assert sum(counts.values()) == summary["ingest"]["splits"]["train"]
    assert "3, most " in done.stdout and summary["constant_channels"] == []
    shown = json.loads(call("inspect", folder / "out", "--json").stdout)
    assert shown["path"] == summary["paths"]["transform_graph"]
    assert shown["statistics"] == summary["statistics"]


def test_the_schema_knows_the_columns_but_no_image_bytes(finished):
    _, summary = finished
    schema = pathlib.Path(summary["paths"]["schema"], "schema.pbtxt").read_text()
    assert '"image/class/text"' in schema and '"image/height"' in schema
    assert '"image/encoded"' not in schema


def test_the_pushed_model_answers_for_raw_bytes_as_for_records(finished, folder):
    """`tests/training/test_serving.py` shows that TensorFlow alone can load such models."""
    import tensorflow as tf

    _, summary = finished
    model = tf.saved_model.load(summary["paths"]["pushed_model"])
    images = [(folder / "images" / name / "00.png").read_bytes() for name in CLASSES]
    served = model.signatures["serving_default"](image_bytes=tf.constant(images))
    probabilities, by_records = served["probabilities"].numpy(), _probabilities_of_records(summary)
    assert probabilities.shape == (3, 3)
    for name, found in zip(CLASSES, probabilities, strict=True):
        np.testing.assert_allclose(found, by_records[f"{name}/00.png"], atol=1e-5)


def _probabilities_of_records(summary):
    """What the model says of the stored records: the way that evaluation goes.

    (`tests/training/test_serving.py` holds both ways against the batches of training.)
    """
    import tensorflow as tf

    from image_pipeline.components.dataset import record

    examples = pathlib.Path(summary["paths"]["examples"])
    files = sorted(str(path) for path in examples.glob("Split-*/*"))
    data = list(tf.data.TFRecordDataset(files).as_numpy_iterator())
    model = tf.saved_model.load(summary["paths"]["pushed_model"])
    outputs = model.signatures["serving_examples"](examples=tf.constant(data))
    features = [tf.train.Example.FromString(each).features.feature for each in data]
    names = [each[record.FILENAME].bytes_list.value[0].decode() for each in features]
    return dict(zip(names, outputs["probabilities"].numpy(), strict=True))


@pytest.mark.wide
def test_tfx_s_own_bulk_inferrer_reads_the_artifacts(finished, tmp_path):
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2
    from tfx import v1 as tfx

    from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
    from image_pipeline.components.tasks.signatures import EXAMPLES, PROBABILITIES, SERVE_EXAMPLES

    _, summary = finished
    kinds = tfx.types.standard_artifacts
    splits = {"split_names": '["train", "eval"]'}
    examples = tfx.dsl.Importer(summary["paths"]["examples"], kinds.Examples, properties=splits)
    model = tfx.dsl.Importer(summary["paths"]["model"], kinds.Model)
    inferrer = tfx.components.BulkInferrer(
        examples=examples.with_id("examples").outputs["result"],
        model=model.with_id("model").outputs["result"],
        data_spec=tfx.proto.DataSpec(example_splits=["eval"]),
        model_spec=tfx.proto.ModelSpec(model_signature_name=[SERVE_EXAMPLES]),
    )
    database = tfx.orchestration.metadata.sqlite_metadata_connection_config(f"{tmp_path}/m.db")
    components, beam_args = [examples, model, inferrer], list(LOCAL_BEAM_ARGS)
    tfx.orchestration.LocalDagRunner().run(
        tfx.dsl.Pipeline(
            "bulk",
            str(tmp_path),
            components=components,
            metadata_connection_config=database,
            beam_pipeline_args=beam_args,
        )
    )
    files = list(map(str, tmp_path.glob("BulkInferrer/**/prediction_logs-*")))
    logs = tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator()
    calls = [prediction_log_pb2.PredictionLog.FromString(log).predict_log for log in logs]
    expected = _probabilities_of_records(summary)
    assert len(calls) == summary["ingest"]["splits"]["eval"]
    for each in calls:
        (data,) = each.request.inputs[EXAMPLES].string_val
        name = tf.train.Example.FromString(data).features.feature["image/filename"]
        answer = tf.make_ndarray(each.response.outputs[PROBABILITIES])[0]
        np.testing.assert_allclose(answer, expected[name.bytes_list.value[0].decode()], atol=1e-5)


def test_a_second_run_reuses_everything_and_one_more_image_runs_ingest_again(finished, folder):
    again = _run_here(folder)
    assert len(again["components"]) == 8
    assert all(each["reused"] for each in again["components"])
    new = folder / "images" / "red" / "new.png"
    new.write_bytes(encode_png(np.full((16, 16, 3), (200, 50, 50), np.uint8)))
    changed = _run_here(folder, "--to", "ImageExampleGen")
    assert not changed["components"][0]["reused"]
    assert changed["ingest"]["written"] == 91
    new.unlink()


def test_ingest_alone_writes_the_same_bytes(finished, folder, tmp_path):
    _, summary = finished
    arguments = ("--images", folder / "images", "--output", tmp_path / "out")
    done = call("ingest", *arguments, "--config", folder / "config.yaml", python=warm.python())
    assert done.returncode == 0, done.stderr
    examples = pathlib.Path(summary["paths"]["examples"])
    assert read_manifest(str(examples)) == read_manifest(str(tmp_path / "out"))
    for path in examples.glob("Split-*/*"):
        assert path.read_bytes() == (tmp_path / "out" / path.relative_to(examples)).read_bytes()


def test_a_model_below_the_threshold_is_not_pushed(finished, folder):
    pushed = sorted((folder / "out" / "pushed_model").iterdir())
    # What comes before the trainer is reused.
    overrides = ("training.epochs=1", "training.learning_rate=1e-9", "evaluation.min_accuracy=1.0")
    given = (part for each in overrides for part in ("--set", each))
    done = call(*_command(folder, *given), python=warm.python())
    assert done.returncode == 3, done.stderr + done.stdout
    assert "not blessed, so not pushed" in done.stdout
    last, ways_out = done.stdout.splitlines()[-2:]
    assert ways_out.startswith("Next: more images or epochs (training.epochs), or other weights")
    asked = (
        r"is 0\.\d+, but evaluation\.min_accuracy asks for at least 1\. The model is in /.*/model/"
    )
    assert re.match(rf"The model was not pushed: its accuracy {asked}\d+\.$", last), last
    assert sorted((folder / "out" / "pushed_model").iterdir()) == pushed
