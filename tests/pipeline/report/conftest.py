"""A small data set with one of everything, and a run as the pipeline leaves it, without TFX."""

import io
import json
import pathlib
from unittest import mock

import keras
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2
from PIL import Image
from tensorflow_metadata.proto.v0 import anomalies_pb2

from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.evaluation.answers import AnswerTable, describe_class
from image_pipeline.components.evaluation.evaluation import Measured
from image_pipeline.components.evaluation.findings import write_findings
from image_pipeline.components.evaluation.metrics import IN_WORDS, Estimate
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.components.training.history import History, write_history
from image_pipeline.components.training.serving import export_model
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.config import PipelineConfig
from image_pipeline.named_folder import find_whole_run
from image_pipeline.report.data_set import open_data_set
from image_pipeline.report.figures import gather_figures
from image_pipeline.run_config import find_options
from tests.drawings import draw, draw_smooth, encode_png
from tests.ingest_runs import ingest
from tests.transform.analyze import make_pipeline

CONFIG = PipelineConfig.model_validate(
    {
        "view": {"height_px": 8, "width_px": 8},
        "feeding": {"batch_size": 4, "augment": []},
        "training": {"seed": 5, "epochs": 3},
    }
)
ASKED = {"max_bad_fraction": 0.5, "conflicting_labels": "keep"}
HISTORY = {
    "loss": [1.5, 0.5, 0.25],
    "accuracy": [0.25, 0.5, 1.0],
    "val_loss": [1.25, 0.5, 0.75],
    "val_accuracy": [0.5, 0.75, 0.5],
}
TIMES = {
    "seconds_per_epoch": [2.0, 1.0, 1.0],
    "training_seconds_per_epoch": [1.5, 0.5, 0.5],
    "input_wait_seconds_per_epoch": [0.25, 0.0, 0.125],
}


def write_images(folder):
    """12 cats and 8 dogs of 8 × 10 px; a JPEG on its side; copies, look-alikes, and bad files."""
    for code, (name, count) in enumerate({"cat": 12, "dog": 8}.items()):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = encode_png(draw(1000 * code + number))
            (folder / name / f"{number:03d}.png").write_bytes(pixels)
    exif = Image.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    Image.fromarray(draw(7, 12, 20)).save(file, "JPEG", exif=exif)
    (folder / "dog" / "side.jpg").write_bytes(file.getvalue())
    (folder / "cat" / "copy.png").write_bytes((folder / "cat" / "001.png").read_bytes())
    (folder / "dog" / "copy.png").write_bytes((folder / "cat" / "000.png").read_bytes())
    smooth = draw_smooth(3)
    (folder / "cat" / "smooth.png").write_bytes(encode_png(smooth))
    small = np.asarray(Image.fromarray(smooth).resize((96, 72)))
    (folder / "dog" / "smooth.png").write_bytes(encode_png(small))
    (folder / "cat" / "<b>.png").write_bytes(b"text")
    (folder / "dog" / "cut.jpg").write_bytes(file.getvalue()[:-100])


@pytest.fixture(scope="session")
def images_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "images"
    write_images(folder)
    return folder


@pytest.fixture(scope="session")
def data_dir(images_dir):
    folder = images_dir.parent / "data"
    ingest(images_dir, folder, near_duplicates=4, **ASKED)
    return folder


@pytest.fixture(scope="session")
def source(data_dir):
    return find_whole_run(str(data_dir))


@pytest.fixture(scope="session")
def data(source):
    return open_data_set(source.data_dir, source.manifest)


@pytest.fixture(scope="session")
def run_dir(images_dir):
    """What a run leaves, made by the pipeline's own parts."""
    out = images_dir.parent / "run"
    rooms = out / "artifacts"
    examples, graph = rooms / "ImageExampleGen/examples/1", rooms / "ImageTransform/graph/2"
    manifest = ingest(images_dir, examples, **ASKED)
    run_analysis(str(examples), str(graph), CONFIG.view, TransformOptions(), make_pipeline)
    analysis = json.loads((graph / "analysis.json").read_text())
    names = (graph / "transform_fn/assets/label").read_text().split()
    model_dir = rooms / "Trainer/model/5"
    export_model(_make_model(), str(graph), CONFIG.view, names, str(model_dir / "Format-Serving"))
    start = {"started_from": "training.weights=mine.weights.h5", "best_epoch": 1}
    start["random_steps"] = [{"op": "rotate", "degrees": 15.0}, {"op": "cutout"}]
    history = History(metrics=HISTORY, steps_per_epoch=4, **TIMES, **start)
    write_history(str(rooms / "Trainer/model_run/5"), history)
    _write_figures(str(rooms / "Evaluator/evaluation/6"), examples, model_dir / "Format-Serving")
    _write_anomalies(rooms / "ExampleValidator/anomalies/7")
    _write_metadata(out / "metadata.db")
    _write_summary(out / "summary.json", analysis["statistics"])
    assert manifest.books.written == 23
    return out


def _write_summary(path, statistics):
    # As if the run had been moved here: the paths are those of another place.
    paths = {
        "examples": "/elsewhere/artifacts/ImageExampleGen/examples/1",
        "transform_graph": "/elsewhere/artifacts/ImageTransform/graph/2",
        "model": "/elsewhere/artifacts/Trainer/model/5",
        "anomalies": "/elsewhere/artifacts/ExampleValidator/anomalies/7",
        "evaluation": "/elsewhere/artifacts/Evaluator/evaluation/6",
        "pushed_model": None,
    }
    summary = {"statistics": statistics, "blessed": False, "paths": paths}
    path.write_text(json.dumps(summary))


def _write_figures(folder, examples, model_dir):
    """What the Evaluator writes of a model that gives each class one half."""
    index = read_index(sorted(map(str, (examples / "Split-eval").glob("data_tfrecord-*"))))
    table = AnswerTable("classification")
    rows = [
        {
            **{"record_id": id_.tobytes().hex(), "filename": "any"},
            **describe_class(int(label), np.array([0.5, 0.5])),
        }
        for id_, label in zip(index.record_id, index.label, strict=True)
    ]
    part = pathlib.Path(folder) / "answers/part-0.parquet"
    part.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), part)
    right = float((index.label == 0).mean())
    measured = Measured(
        **{"metric": IN_WORDS["accuracy"], "bound": None, "failures": [], "mistakes": {}},
        overall={"accuracy": Estimate(right), "records": Estimate(float(len(rows)))},
        classes={"cat": {"accuracy": Estimate(1.0)}, "dog": {"accuracy": Estimate(0.0)}},
    )
    place = "image_pipeline.components.evaluation.findings.read_measured"
    with mock.patch(place, return_value=measured):
        data_dirs, options = [str(examples)], EvaluationOptions()
        task = "classification"
        write_findings(folder, task, table, str(model_dir), options, data_dirs, False)


def _make_model():
    """Weights of zero: both classes get one half."""
    inputs = keras.Input((8, 8, 3))
    pooled = keras.layers.GlobalAveragePooling2D()(inputs)
    layer = keras.layers.Dense(2, activation="softmax", kernel_initializer="zeros")
    return keras.Model(inputs, layer(pooled))


def _write_anomalies(folder):
    for split in ("train", "eval"):
        (folder / f"Split-{split}").mkdir(parents=True)
        found = anomalies_pb2.Anomalies()
        if split == "eval":
            info = found.anomaly_info["image/class/text"]
            info.short_description = "Unexpected string values"
            info.description = "Examples contain values missing from the schema: emu."
        (folder / f"Split-{split}" / "SchemaDiff.pb").write_bytes(found.SerializeToString())


def _write_metadata(path):
    connection = metadata_store_pb2.ConnectionConfig()
    connection.sqlite.filename_uri = str(path)
    connection.sqlite.connection_mode = 3  # opened or created
    store = metadata_store.MetadataStore(connection)
    trainer = metadata_store_pb2.ExecutionType(name="tfx.components.trainer.component.Trainer")
    execution = metadata_store_pb2.Execution(type_id=store.put_execution_type(trainer))
    groups = CONFIG.model_dump(mode="json", include={"view", "feeding", "training"})
    passed = {**groups, "code_version": "0123456789abcdef"}  # As the pipeline passes it.
    execution.custom_properties["custom_config"].string_value = json.dumps(passed)
    execution.last_known_state = metadata_store_pb2.Execution.COMPLETE
    contexts = []
    for kind, name in (("pipeline_run", "1"), ("node", "photos.Trainer")):
        type_id = store.put_context_type(metadata_store_pb2.ContextType(name=kind))
        contexts.append(metadata_store_pb2.Context(type_id=type_id, name=name))
    store.put_execution(execution, [], contexts)


@pytest.fixture(scope="session")
def run(run_dir):
    return find_whole_run(str(run_dir))


@pytest.fixture(scope="session")
def run_data(run):
    return open_data_set(run.data_dir, run.manifest)


@pytest.fixture(scope="session")
def figures(run, run_data):
    return gather_figures(run, run_data, find_options(run))
