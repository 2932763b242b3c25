"""Bytes of a file that is open, from wherever a list says that they are."""

import pytest

from image_pipeline.components.archives.file_bytes import FileBytes
from image_pipeline.components.images.bad_image import BadImage

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("start", [-1, 2**63 - 1, 2**63, 2**64, 10])
def test_places_that_cannot_be_have_no_bytes(tmp_path, start):
    (tmp_path / "a").write_bytes(b"0123456789")
    file = FileBytes(str(tmp_path / "a"))
    assert file.read_some(start, 3) == b""
    with pytest.raises(BadImage, match="ends within it"):
        file.read(start, 3)


def test_bytes_may_be_fewer_at_the_end_only_where_that_is_asked_for(tmp_path):
    (tmp_path / "a").write_bytes(b"0123456789")
    file = FileBytes(str(tmp_path / "a"))
    assert file.read_some(8, 5) == b"89" and file.read(8, 2) == b"89"
    with pytest.raises(BadImage, match="ends within it"):
        file.read(8, 3)
