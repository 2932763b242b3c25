import contextlib
import io

import pytest

from image_pipeline.components import files
from image_pipeline.components.training import pusher

pytestmark = pytest.mark.unit


def test_a_model_is_whole_when_it_can_be_found(tmp_path, monkeypatch):
    written = {}

    @contextlib.contextmanager
    def write(uri):
        yield (file := io.BytesIO())
        written[uri] = file.getvalue()

    monkeypatch.setattr(files, "write_atomically", write)
    for name in ("variables/a", "saved_model.pb", "zz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    pusher.copy_model(tmp_path, "s3://models/7")
    assert list(written) == [
        "s3://models/7/variables/a",
        "s3://models/7/zz",
        "s3://models/7/saved_model.pb",
    ]
    assert written["s3://models/7/variables/a"] == b"variables/a"
