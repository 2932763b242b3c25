"""A blessed model goes to any store, so that nobody serves half of it."""

import pytest
from google.protobuf import json_format
from tfx import v1 as tfx
from tfx.types import standard_artifacts

from image_pipeline.components.stores import remote
from image_pipeline.components.training.pusher import PusherExecutor
from tests.noting_store import NotingStore

pytestmark = pytest.mark.e2e


def test_a_model_is_pushed_to_a_store_that_tensorflow_does_not_know(tmp_path, monkeypatch):
    store = NotingStore("s3://models/digits")
    monkeypatch.setattr(remote, "_find_store", lambda uri: store)
    for name in ("variables/a", "saved_model.pb"):
        path = tmp_path / "model" / "Format-Serving" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    model, pushed = standard_artifacts.Model(), standard_artifacts.PushedModel()
    model.uri, pushed.uri = str(tmp_path / "model"), str(tmp_path / "pushed")
    destination = tfx.proto.PushDestination(
        filesystem=tfx.proto.PushDestination.Filesystem(base_directory=store.folder)
    )
    asked = json_format.MessageToJson(destination, preserving_proto_field_name=True)
    PusherExecutor().Do({"model": [model]}, {"pushed_model": [pushed]}, {"push_destination": asked})
    uri = pushed.get_string_custom_property("pushed_destination")
    version = uri.removeprefix(f"{store.folder}/")
    assert version.isdigit()
    assert store.done == [("put", f"{version}/variables/a"), ("put", f"{version}/saved_model.pb")]
