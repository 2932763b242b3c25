"""Files that stay open: threads that open one at the same time do not close each other's."""

import pytest

from image_pipeline.components.archives import byte_ranges
from image_pipeline.components.sources.held import Place
from image_pipeline.components.sources.references import ImageRef

pytestmark = pytest.mark.unit


def test_a_file_that_no_cache_holds_stays_open_while_it_is_read(tmp_path, monkeypatch):
    """As that of the slower of two threads."""
    (tmp_path / "a.bin").write_bytes(b"0123456789")
    monkeypatch.setattr(byte_ranges, "_open", byte_ranges._open.__wrapped__)
    place = Place(str(tmp_path / "a.bin"), "bytes", 2, 5)
    assert byte_ranges.read_plain(ImageRef("x", 5, 0, place=place), 5) == b"23456"
