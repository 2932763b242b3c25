"""Steps read a data set where it is; those that need it on their disk have it there."""

import copy

import pytest

from image_pipeline.components import files
from image_pipeline.components.dataset.paths import MANIFEST
from image_pipeline.components.dataset.pointer import make_pointer, write_pointer
from image_pipeline.components.errors import UserError
from image_pipeline.kubeflow import step
from image_pipeline.kubeflow.step import DOWNLOADING, follow_pointers
from tests.dataset.listed import write_listed
from tests.object_store.runs import read_tree

pytestmark = pytest.mark.unit

BEAM_STEP = "image_pipeline.components.transform.component.ImageTransformExecutor"
EXAMPLES = {"instanceSchema": "title: tfx.Examples\ntype: object\n"}


@pytest.fixture
def message(tmp_path):
    """A step's message: an input with a pointer to a data set."""
    manifest = write_listed(f"{tmp_path}/data", {"train": [b"abc"], "eval": [b"de"]})
    write_pointer(f"{tmp_path}/s3/examples", make_pointer(f"{tmp_path}/data", manifest))
    examples = {"uri": f"{tmp_path}/s3/examples", "type": EXAMPLES}
    model = {"uri": f"{tmp_path}/s3/model", "type": {"schemaTitle": "tfx.Model"}}
    inputs = {"examples": {"artifacts": [examples]}, "model": {"artifacts": [model]}}
    return {"inputs": {"artifacts": inputs}}


@pytest.fixture
def elsewhere(monkeypatch):
    """The data set is in a store that TensorFlow does not know."""
    monkeypatch.setattr(files, "is_known_to_tensorflow", lambda uri: False)


def _uri(message) -> str:
    (examples,) = message["inputs"]["artifacts"]["examples"]["artifacts"]
    return examples["uri"]


@pytest.mark.parametrize("kind", [EXAMPLES, {"schemaTitle": "tfx.Examples"}], ids=str)
def test_a_step_is_given_the_data_set_where_it_is(message, elsewhere, tmp_path, kind):
    message["inputs"]["artifacts"]["examples"]["artifacts"][0]["type"] = kind
    assert follow_pointers(message, BEAM_STEP) == {}
    assert _uri(message) == f"{tmp_path}/data"
    assert list(read_tree(f"{tmp_path}/s3")) == ["examples/data_set.json"]


def test_a_step_that_needs_it_has_it_on_its_disk_once(message, elsewhere, tmp_path, monkeypatch):
    again = copy.deepcopy(message)
    assert follow_pointers(message, DOWNLOADING[0]) == {
        f"{tmp_path}/s3/examples/data": f"{tmp_path}/data"
    }
    assert _uri(message) == f"{tmp_path}/s3/examples/data"
    assert read_tree(_uri(message)) == read_tree(f"{tmp_path}/data")
    monkeypatch.setattr("image_pipeline.components.dataset.complete.copy_file", None)
    follow_pointers(again, DOWNLOADING[0])
    assert _uri(again) == _uri(message)


def test_what_tensorflow_reads_itself_is_not_downloaded(message, tmp_path):
    assert follow_pointers(message, DOWNLOADING[0]) == {}
    assert _uri(message) == f"{tmp_path}/data"


def test_a_data_set_without_a_pointer_stays_where_it_is(message, tmp_path):
    write_listed(f"{tmp_path}/s3/examples", {"train": [b"abc"]})
    (tmp_path / "s3/examples/data_set.json").unlink()
    before = copy.deepcopy(message)
    assert follow_pointers(message, DOWNLOADING[0]) == {}
    assert message == before


def test_only_data_sets_are_looked_for(message, monkeypatch):
    asked = []
    monkeypatch.setattr(step, "follow_pointer", asked.append)
    follow_pointers(message, BEAM_STEP)
    assert asked == [_uri(message)]
    assert follow_pointers({"outputs": {}}, BEAM_STEP) == {}  # A step without inputs.


def test_a_cached_artifact_of_a_data_set_that_is_gone_is_an_error(message, tmp_path):
    (tmp_path / "data" / MANIFEST).unlink()
    with pytest.raises(UserError, match=f"The data set '{tmp_path}/data' was deleted"):
        follow_pointers(message, BEAM_STEP)
