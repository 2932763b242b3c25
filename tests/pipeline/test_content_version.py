import pytest

from image_pipeline.pipeline import content_version

pytestmark = pytest.mark.unit


def test_it_changes_with_what_files_hold_and_are_called(tmp_path):
    folder = tmp_path / "model"
    assert content_version(str(folder)) == "0" * 16
    folder.mkdir()
    seen = set()
    for name, content in (("a", b"1"), ("a", b"2"), ("b", b"2")):
        (folder / name).write_bytes(content)
        seen |= {content_version(str(folder)), content_version(str(folder / name))}
    assert len(seen) == 6 - 1  # The file a of 2 and b of 2 hold the same.
