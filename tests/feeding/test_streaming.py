import gzip
import pathlib

import pytest

from components.errors import UserError
from components.feeding import streaming
from tests import shards

pytestmark = pytest.mark.unit

RECORDS = 20


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    """Twenty records in four shards."""
    folder = tmp_path_factory.mktemp("data") / "Split-train"
    return shards.write_shards(folder, shards.make_examples(RECORDS), 4)


def test_count_records_counts_all_shards(pattern):
    assert streaming.count_records([pattern]) == RECORDS


def test_files_are_sorted_and_listed_once(pattern):
    paths = streaming.match_files([pattern, pattern.replace("*", "00003*")])
    assert [path[-14:-9] for path in paths] == ["00000", "00001", "00002", "00003"]


def test_a_pattern_without_files_is_an_error(pattern):
    with pytest.raises(UserError, match=r"no file matches \['/nowhere/\*'\]; check the path"):
        streaming.match_files([pattern, "/nowhere/*"])
    with pytest.raises(UserError, match="no file matches none"):
        streaming.match_files([])


def test_gzipped_shards_are_counted_by_their_ending(pattern, tmp_path):
    for path in sorted(pathlib.Path(pattern).parent.iterdir()):
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert streaming.count_records([str(tmp_path / "*.gz")]) == RECORDS
