"""The exported model held against TensorFlow Serving, and what docs/serving.md sends."""

import base64
import json
import pathlib
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from image_pipeline.components.training.serving import WARM_UP_FILE
from tests.drawings import draw, encode_png
from tests.inference.exported_models import export
from tests.inference.near import assert_near
from tests.inference.stand_in import StandIn, serve

pytestmark = [pytest.mark.beam, pytest.mark.wide]

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "serving.md"
FILES = [encode_png(draw(seed, 8, 8)) for seed in range(3)]
B64 = [{"b64": base64.b64encode(file).decode()} for file in FILES]


@pytest.fixture(scope="module", params=["classification", "segmentation", "detection"])
def stand_in(request):
    return StandIn(export(request.param))


def ask(stand_in, files, signature="serving_default", name="image_bytes"):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "photos", signature
    request.inputs[name].CopyFrom(tf.make_tensor_proto(files))
    sent = predict_pb2.PredictRequest.FromString(request.SerializeToString())
    response = stand_in.predict(sent)
    return {name: tf.make_ndarray(proto) for name, proto in response.outputs.items()}


def test_requests_may_be_batched_and_cut_apart_again(stand_in):
    """As a server does that was started with --enable_batching."""
    together = ask(stand_in, FILES)
    apart = [ask(stand_in, [file]) for file in FILES]
    for name, value in together.items():
        assert_near(value, np.concatenate([each[name] for each in apart]))


def test_pixels_get_the_same_answer_by_their_own_signature(stand_in):
    of_pixels = ask(
        stand_in, np.stack([draw(seed, 8, 8) for seed in range(3)]), "serving_pixels", "pixels"
    )
    of_files = ask(stand_in, FILES)
    assert of_files.keys() - of_pixels.keys() == {"valid", "error"}
    for name, value in of_pixels.items():
        np.testing.assert_array_equal(value, of_files[name])


def test_rows_and_columns_of_json_hold_the_same(stand_in):
    damaged = {"b64": base64.b64encode(FILES[0][:50]).decode()}
    rows = json.loads(stand_in.post(json.dumps({"instances": [*B64, damaged]})))["predictions"]
    named = {"instances": [{"image_bytes": each} for each in [*B64, damaged]]}
    assert json.loads(stand_in.post(json.dumps(named)))["predictions"] == rows
    columns = json.loads(stand_in.post(json.dumps({"inputs": [*B64, damaged]})))["outputs"]
    for name, values in columns.items():
        assert values == [row[name] for row in rows]
    assert [row["valid"] for row in rows] == [True] * 3 + [False]
    assert [row["error"] for row in rows] == [""] * 3 + ["corrupt"]


def test_of_strings_only_what_is_no_text_is_called_bytes():
    """REST encodes outputs by base64 whose names end so; the others must be UTF-8."""
    stand_in = StandIn(export("segmentation"))
    (row,) = json.loads(stand_in.post(json.dumps({"instances": B64[:1]})))["predictions"]
    png = base64.b64decode(row["mask_bytes"]["b64"])
    assert tf.io.decode_png(png)[..., 0].numpy().tolist() == row["mask"]
    assert row["classes"] == ["cat", "dog"]


@pytest.mark.parametrize("task", ["classification", "segmentation", "detection"])
def test_a_server_warms_up_by_requests_that_the_model_answers(task):
    path = pathlib.Path(export(task), *WARM_UP_FILE)
    assert path.relative_to(export(task)) == pathlib.Path("assets.extra/tf_serving_warmup_requests")
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    logs = [prediction_log_pb2.PredictionLog.FromString(record) for record in records]
    requests = [log.predict_log.request for log in logs]
    names = [request.model_spec.signature_name for request in requests]
    assert names == ["serving_default", "serving_pixels"]
    of_file, of_pixels = (StandIn(export(task)).predict(request) for request in requests)
    assert tf.make_ndarray(of_file.outputs["valid"]).tolist() == [True]
    assert {len(tf.make_ndarray(each)) for each in of_pixels.outputs.values()} == {1}


def read_block(language, part):
    """The block of the page that has a part."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    (found,) = [block for block in blocks if part in block]
    return found


@pytest.fixture
def ports(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jpg").write_bytes(FILES[0])
    stand_in = StandIn(export("classification"))
    # As a server does before it takes requests: the first run of a signature takes seconds.
    for record in tf.data.TFRecordDataset(
        str(pathlib.Path(export("classification"), *WARM_UP_FILE))
    ):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        stand_in.predict(log.predict_log.request)
    with serve(stand_in) as found:
        yield found


def test_what_the_page_sends_by_curl_is_answered(ports, tmp_path):
    block = read_block("bash", "localhost:8501").replace(":8501", f":{ports[0]}")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block], capture_output=True, text=True, check=True
    )
    answers = [json.loads(each) for each in done.stdout.replace("}{", "}\n{").splitlines()]
    rows, columns = answers
    assert rows["predictions"][0]["label"] in ("cat", "dog")
    assert columns["outputs"]["label"] == [rows["predictions"][0]["label"]]


def test_what_the_page_sends_by_grpc_is_answered(ports):
    block = read_block("python", "localhost:8500").replace(":8500", f":{ports[1]}")
    assert "timeout=10\n" in block
    block = block.replace("timeout=10\n", "timeout=200\n")  # A busy machine may be slower.
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True)
    assert done.returncode == 0, shlex.join(done.args) + done.stderr
    (expected,) = ask(StandIn(export("classification")), FILES[:1])["label"]
    assert expected.decode() in done.stdout
