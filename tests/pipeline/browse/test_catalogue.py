import collections

import pytest

from image_pipeline.browse.catalogue import Catalogue
from image_pipeline.browse.query import Query
from image_pipeline.components.dataset.manifest import read_manifest

pytestmark = pytest.mark.beam


@pytest.fixture
def catalogue(browsed):
    return Catalogue(str(browsed.data), read_manifest(str(browsed.data)))


def find(catalogue, marks=frozenset(), **query):
    """The paths of what is found, in its order."""
    numbers = [int(number) for number in catalogue.find(Query(**query), marks)]
    return [each["path"] for each in catalogue.read_page(numbers)]


def test_all_is_numbered_records_first(catalogue):
    assert len(catalogue) == 27 and catalogue.find(Query()) == range(27)
    states = [catalogue.read(number)["state"] for number in range(27)]
    assert states == ["stored"] * 24 + ["quarantined", "duplicate", "skipped"]
    assert [each["number"] for each in catalogue.read_page([26, 3])] == [26, 3]
    for number in (-1, 27):
        with pytest.raises(IndexError, match=f"from 0 to 26, got {number}"):
            catalogue.read(number)


def test_a_page_has_what_is_known(catalogue):
    (number,) = catalogue.find(Query(path="cat/04"))
    assert catalogue.read_page([int(number)]) == [
        {
            "number": number,
            "path": "cat/04.png",
            "label": "cat",
            "split": catalogue.read(int(number))["split"],
            "state": "stored",
            "reason": "",
            "height": 12,
            "width": 10,
            "bytes": catalogue.read(int(number))["source_bytes"],
        }
    ]
    (bad, _, _) = catalogue.read_page([24, 25, 26])
    assert (bad["split"], bad["reason"], bad["height"]) == (None, "not_an_image", None)


def test_records_and_rejected_files_are_searched_together(catalogue):
    names = [f"cat/{n:02d}.png" for n in range(0, 24, 2)]
    assert set(find(catalogue, label="cat")) == {*names, "cat/copy.png"}
    assert set(find(catalogue, label="cat", state="stored")) == set(names)
    assert find(catalogue, label="cat", state="duplicate") == ["cat/copy.png"]
    assert find(catalogue, reason="text") == ["about.txt"]
    assert find(catalogue, path="<B>") == ["dog/<b>.png"]
    assert find(catalogue, split="train", state="skipped") == []
    marks = frozenset({"about.txt", "cat/02.png"})
    assert find(catalogue, marks, marked=True) == ["cat/02.png", "about.txt"]
    assert find(catalogue, frozenset({"cat/02.png"}), marked=True) == ["cat/02.png"]


def test_the_orders(catalogue):
    assert find(catalogue, order="path") == sorted(find(catalogue))
    # Image n is 8 + n pixels high; of rejected files no size is known.
    smallest = find(catalogue, order="smallest")
    assert [path[4:6] for path in smallest[:24]] == [f"{n:02d}" for n in range(24)]
    largest = find(catalogue, order="largest", state="stored")
    assert largest == smallest[:24][::-1]
    by_bytes = catalogue.read_page([int(n) for n in catalogue.find(Query(order="bytes"))])
    sizes = [each["bytes"] for each in by_bytes]
    assert sizes[-1] is None and sizes[:-1] == sorted(sizes[:-1], reverse=True)


def test_the_choices_are_counted(browsed, catalogue):
    manifest = read_manifest(str(browsed.data))
    choices = catalogue.choices
    assert choices["labels"] == [("cat", 0), ("dog", 0)]
    assert dict(choices["splits"]) == {name: own.records for name, own in manifest.splits.items()}
    assert choices["states"] == [
        ("stored", 24),
        ("quarantined", 1),
        ("duplicate", 1),
        ("skipped", 1),
    ]
    assert choices["reasons"] == [("duplicate", 1), ("not_an_image", 1), ("text", 1)]


def test_a_search_is_made_once(catalogue, monkeypatch):
    scans = collections.Counter()
    scan = catalogue.rows.scan
    monkeypatch.setattr(catalogue.rows, "scan", lambda names: scans.update("s") or scan(names))
    for _ in range(3):
        find(catalogue, label="dog")
    assert scans == {"s": 1}
    for number in range(8):
        find(catalogue, path=str(number))
    find(catalogue, label="dog")
    assert scans == {"s": 10}
