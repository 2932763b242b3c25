"""How much runs for one JPEG and for one batch: hardly more than was found when this was written.

A few more are allowed, since other machines' threads may take another way. Who adds a stop on the
way raises a limit here, and says in the commit what it is for.
"""

import pytest

from benchmarks import calls
from image_pipeline import api

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("calls")


@pytest.fixture(scope="module")
def ingested(folder):
    return calls.count_ingest(str(folder))


@pytest.fixture(scope="module")
def jpeg(ingested):
    return ingested[1]


def _measure(counted):
    return len(counted), len({file for file, _ in counted})


def test_one_jpeg_takes_so_many_functions_and_files(jpeg):
    functions, files = _measure(jpeg)
    assert functions <= 88 and files <= 30, f"{jpeg}\n{jpeg.list()}"
    # What every image takes is among them, and what is done once for all is not.
    assert ("images/decode.py", "decode_image") in jpeg
    assert ("dataset/record.py", "encode_example") in jpeg
    assert not [name for _, name in jpeg if name in ("ingest", "plan_shards", "write_manifest")]


def test_a_whole_ingest_takes_so_many_functions_and_files(ingested):
    whole = ingested[0]
    functions, files = _measure(whole)
    assert functions <= 497 and files <= 104, f"{whole}\n{whole.list()}"
    assert ("ingest/partition.py", "plan_shards") in whole


def test_one_batch_takes_so_many_functions_and_files(folder, jpeg):
    data, graph = str(folder / "data"), str(folder / "graph")
    api.analyze(data, graph)
    first, batch = calls.count_batch(data, graph)
    functions, files = _measure(batch)
    assert functions <= 68 and files <= 22, f"{batch}\n{batch.list()}"
    functions, files = _measure(first)
    assert functions <= 318 and files <= 68, f"{first}\n{first.list()}"
    assert {key for key in batch if "decode" in key[1]} == {
        ("views/fast_decode.py", "decode_window"),
        ("views/fast_decode.py", "_decode_jpeg"),
        ("views/fast_decode.py", "_decode_tiles"),
    }


def test_what_is_called_once_more_is_what_one_more_takes():
    few, more = calls.Calls(), calls.Calls()
    few.update({("a.py", "open"): 1, ("a.py", "read"): 3})
    more.update({("a.py", "open"): 1, ("a.py", "read"): 4, ("b.py", "close"): 1})
    found = more.more_than(few)
    assert found == {("a.py", "read"): 4, ("b.py", "close"): 1}
    assert str(found) == "2 functions in 2 files"
    assert found.list() == "  a.py: read\n  b.py: close"
