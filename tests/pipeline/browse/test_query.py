import pyarrow as pa
import pydantic
import pytest

from image_pipeline.browse.catalogue import Query, match, sort_keys

pytestmark = pytest.mark.unit

TABLE = pa.table(
    {
        "source": ["cat/A.png", "cat/b.png", "dog/a_b.png", "dog/%.png"],
        "split": ["train", "eval", "train", None],
        "notes": [["icc"], [], ["icc", "cmyk"], ["truncated"]],
        "source_height": pa.array([10, 20, 30, None], pa.int32()),
        "source_width": pa.array([30, 20, 10, None], pa.int32()),
        "source_bytes": pa.array([5, None, 9, 7], pa.int64()),
        "label": ["cat", "cat", "dog", None],
        "state": ["stored", "stored", "stored", "quarantined"],
    }
)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, [0, 1, 2, 3]),
        ({"path": "a"}, [0, 1, 2]),
        ({"path": "/A"}, [0, 2]),
        ({"path": "%"}, [3]),
        ({"path": "a.b"}, []),
        ({"label": "cat"}, [0, 1]),
        ({"label": "ca"}, []),
        ({"split": "train"}, [0, 2]),
        ({"state": "quarantined"}, [3]),
        ({"reason": "icc"}, [0, 2]),
        ({"reason": "truncated"}, [3]),
        ({"least_px": 20}, [1]),
        ({"most_px": 20}, [1]),
        ({"least_px": 0}, [0, 1, 2]),
        ({"most_px": 30}, [0, 1, 2]),
        ({"marked": True}, [1, 3]),
        ({"label": "cat", "reason": "icc", "path": "cat"}, [0]),
    ],
)
def test_a_search_finds_what_meets_all_conditions(query, found):
    marks = {"cat/b.png", "dog/%.png", "not/there.png"}
    assert match(TABLE, Query(**query), "label", query.get("label", ""), marks).tolist() == found


@pytest.mark.parametrize(
    ("order", "keys"),
    [
        ("path", ["cat/A.png", "cat/b.png", "dog/a_b.png", "dog/%.png"]),
        ("smallest", [300, 400, 300, float("inf")]),
        ("largest", [-300, -400, -300, float("inf")]),
        ("bytes", [-5, float("inf"), -9, -7]),
    ],
)
def test_orders_have_keys(order, keys):
    assert sort_keys(TABLE, order).to_pylist() == keys


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"order": "random"}, "'stored', 'path', 'smallest', 'largest' or 'bytes'"),
        ({"least_px": -1}, "greater than or equal to 0"),
        ({"most_px": 2**63}, "less than 2147483648"),
        ({"paht": "x"}, "Extra inputs are not permitted"),
    ],
)
def test_a_search_for_something_else_is_an_error(values, message):
    with pytest.raises(pydantic.ValidationError, match=message):
        Query(**values)
