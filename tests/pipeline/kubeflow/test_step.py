import copy

import pytest

from image_pipeline.kubeflow.step import find_copy, map_artifacts, restore_uris

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
