import os
import re

import pytest

from image_pipeline.components.dataset.manifest import ListedShard
from image_pipeline.components.dataset.shard_sizes import check_shard_sizes
from image_pipeline.components.errors import UserError

pytestmark = pytest.mark.unit

SHARDS = [ListedShard(file=f"{name}", records=1, bytes=3, sha256="0" * 64) for name in "abc"]


@pytest.fixture
def folder(tmp_path):
    for name in "abc":
        (tmp_path / name).write_bytes(b"123")
    return tmp_path


def cut(path):
    path.write_bytes(b"")


def make_pipe(path):
    path.unlink()
    os.mkfifo(path)


def test_shards_of_the_right_size_pass(folder):
    check_shard_sizes(str(folder), SHARDS)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.unlink(), "missing"),
        (cut, "0 bytes long, but its manifest says 3"),
        (make_pipe, "0 bytes long, but its manifest says 3"),
        (lambda path: path.write_bytes(b"1234"), "4 bytes long, but its manifest says 3"),
    ],
    ids=["missing", "cut", "pipe", "longer"],
)
def test_the_first_other_shard_is_named(folder, damage, said):
    damage(folder / "b")
    (folder / "c").unlink()
    with pytest.raises(UserError, match=re.escape(f"{folder / 'b'} is {said}; restore it")):
        check_shard_sizes(str(folder), SHARDS)
