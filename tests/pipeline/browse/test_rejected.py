import hashlib

import pytest

from image_pipeline.browse.rejected import list_rejected
from image_pipeline.components.dataset.manifest import read_manifest
from tests.drawings import write_folder
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam


def test_all_files_without_a_record_are_listed_with_their_reason(browsed):
    data = str(browsed.data)
    bad, copy, text = list_rejected(data, read_manifest(data))
    content = hashlib.sha256(b"no picture").hexdigest()
    assert (bad["state"], bad["source"]) == ("quarantined", "dog/<b>.png")
    assert bad["notes"] == ["not_an_image"]
    assert (bad["source_bytes"], bad["sha256"], bad["label"]) == (10, content, None)
    assert copy == {
        "state": "duplicate",
        "source": "cat/copy.png",
        "path": "cat/copy.png",
        "label": "cat",
        "notes": ["duplicate"],
        "message": "has the bytes of cat/00.png",
        "source_bytes": None,
        "sha256": None,
    }
    assert (text["state"], text["source"], text["notes"]) == ("skipped", "about.txt", ["text"])


def test_a_duplicate_that_was_written_is_a_record(tmp_path):
    images = write_folder(tmp_path / "images", per_class=3)
    (images / "cat" / "copy.png").write_bytes((images / "cat" / "000.png").read_bytes())
    ingest(images, tmp_path / "data", duplicates="keep_all")
    data = str(tmp_path / "data")
    assert list_rejected(data, read_manifest(data)) == []
