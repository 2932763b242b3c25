import copy
import json

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.kubeflow.step import (
    find_copy,
    map_artifacts,
    name_stores,
    restore_uris,
    run_step,
)

pytestmark = pytest.mark.unit

MESSAGE = {
    "inputs": {
        "parameterValues": {"images_dir": "s3://photos/all"},
        "artifacts": {
            "model": {"artifacts": [{"uri": "s3://b/root/model", "metadata": {"version": 1}}]},
            "examples": {"artifacts": [{"uri": "minio://b/root/examples"}]},
        },
    },
    "outputs": {
        "artifacts": {"pushed_model": {"artifacts": [{"uri": "s3://b/root/pushed"}]}},
        "outputFile": "/tmp/kfp_outputs/output_metadata.json",
    },
}


@pytest.mark.parametrize(
    ("uri", "copy"),
    [
        ("s3://bucket/a/b", "/s3/bucket/a/b"),
        ("minio://mlpipeline/v2/x", "/minio/mlpipeline/v2/x"),
        ("gs://bucket/a", "gs://bucket/a"),  # TensorFlow and Beam open it themselves.
        ("/local/folder", "/local/folder"),
        ("s3://", "s3://"),
    ],
)
def test_copies_lie_where_the_launcher_puts_them(uri, copy):
    assert find_copy(uri) == copy


def test_artifacts_are_where_they_were_copied_to(tmp_path):
    (tmp_path / "s3/b/root/model").mkdir(parents=True)
    message = copy.deepcopy(MESSAGE)
    uris = map_artifacts(message, str(tmp_path))
    (model,) = message["inputs"]["artifacts"]["model"]["artifacts"]
    (examples,) = message["inputs"]["artifacts"]["examples"]["artifacts"]
    (pushed,) = message["outputs"]["artifacts"]["pushed_model"]["artifacts"]
    assert model == {"uri": f"{tmp_path}/s3/b/root/model", "metadata": {"version": 1}}
    assert examples["uri"] == "minio://b/root/examples"  # It was not copied.
    assert pushed["uri"] == f"{tmp_path}/s3/b/root/pushed"  # It is copied when the step has ended.
    assert message["inputs"]["parameterValues"] == MESSAGE["inputs"]["parameterValues"]
    assert uris == {model["uri"]: "s3://b/root/model", pushed["uri"]: "s3://b/root/pushed"}


def test_a_message_without_stores_stays_as_it_is():
    message = {"outputs": {"artifacts": {"a": {"artifacts": [{"uri": "gs://b/a"}]}}}}
    assert map_artifacts(message) == {}
    assert message["outputs"]["artifacts"]["a"]["artifacts"] == [{"uri": "gs://b/a"}]


def test_what_a_step_says_names_the_store():
    uris = {"/s3/b/model": "s3://b/model"}
    said = {
        "artifacts": {"m": {"artifacts": [{"uri": "/s3/b/model", "metadata": {"n": 3}}]}},
        "more": ["/s3/b/model/saved", "/s3/b/model2", "in /s3/b/model"],
    }
    assert restore_uris(said, uris) == {
        "artifacts": {"m": {"artifacts": [{"uri": "s3://b/model", "metadata": {"n": 3}}]}},
        "more": ["s3://b/model/saved", "/s3/b/model2", "in /s3/b/model"],
    }


def test_a_minio_server_is_named_as_its_clients_name_it(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio:9000")
    push = '{"filesystem": {"base_directory": "minio://b/models"}}'
    values = {"work_root": "minio://b/root/working", "push_destination": push, "n": 3.0}
    message = {"inputs": {"parameterValues": values | {"images_dir": "s3://photos"}}}
    name_stores(message)
    assert message["inputs"]["parameterValues"] == {
        "work_root": "s3://b/root/working",
        "push_destination": push.replace("minio", "s3"),
        "n": 3.0,
        "images_dir": "s3://photos",
    }


def test_a_minio_server_of_unknown_address_is_an_error(monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    name_stores({"inputs": {"parameterValues": {"images_dir": "s3://photos"}}})
    with pytest.raises(
        UserError, match=r"work_root of this step.*must be in AWS_ENDPOINT_URL, for"
    ):
        name_stores({"inputs": {"parameterValues": {"work_root": "minio://b/working"}}})


def test_a_data_set_that_is_gone_is_told_before_the_step_begins(tmp_path):
    pointer = {"uri": f"{tmp_path}/data", "manifest_sha256": "0", "records": 1, "bytes": 1}
    copied = tmp_path / "s3/b/root/examples/data_set.json"
    copied.parent.mkdir(parents=True)
    copied.write_text(json.dumps(pointer))
    examples = {"uri": "s3://b/root/examples", "type": {"schemaTitle": "tfx.Examples"}}
    message = {"inputs": {"artifacts": {"examples": {"artifacts": [examples]}}}}
    said = f"--json_serialized_invocation_args={json.dumps(message)}"
    with pytest.raises(UserError, match=f"The data set '{tmp_path}/data' was deleted"):
        run_step(["--executor_class_path=none.Such", said], str(tmp_path))
