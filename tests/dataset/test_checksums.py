import io

import pytest

from image_pipeline.components.dataset.checksums import (
    HashedWriter,
    ListedFile,
    copy_file,
    describe_file,
)

pytestmark = pytest.mark.unit

ABC = ListedFile(bytes=3, sha256="ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")


def test_a_file_is_described(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    assert describe_file(str(tmp_path / "file")) == ABC


def test_a_copy_is_described_and_appears_whole(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    assert copy_file(str(tmp_path / "file"), str(tmp_path / "new" / "copy")) == ABC
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["copy"]
    assert (tmp_path / "new" / "copy").read_bytes() == b"abc"


def test_what_is_written_is_passed_on():
    file = io.BytesIO()
    written = HashedWriter(file)
    assert (written.write(b"a"), written.write(memoryview(b"bc"))) == (1, 2)
    assert (written.describe(), file.getvalue()) == (ABC, b"abc")
