"""Where a row comes in an epoch: the inverse of what each order draws."""

import collections
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.errors import UserError
from image_pipeline.components.order.batches import batch_positions, steps_per_epoch
from image_pipeline.components.order.order import (
    BalancedOrder,
    SequentialOrder,
    ShardsOrder,
    ShuffledOrder,
    ViewsOrder,
)
from image_pipeline.components.order.permutation import invert, permute
from image_pipeline.components.order.subset import match_rows

pytestmark = pytest.mark.unit

ROWS = st.one_of(
    st.lists(st.integers(0, 10**9), min_size=1, max_size=500, unique=True).map(np.array),
    st.builds(range, st.integers(0, 50), st.integers(51, 500), st.integers(1, 5)),
)


def epoch_of(drawing, epoch=0):
    return drawing.draw(epoch, np.arange(drawing.length))


@given(ROWS)
def test_sequential_is_the_rows_as_they_stand(rows):
    drawing = SequentialOrder(rows)
    for epoch in (0, 3):
        draws = epoch_of(drawing, epoch)
        assert draws.rows.tolist() == list(rows)
        assert not draws.views.any()
        assert not draws.copies.any()


@given(ROWS, st.integers(0, 2**62), st.integers(0, 10**6))
def test_shuffled_draws_every_row_once_an_epoch(rows, seed, epoch):
    draws = epoch_of(ShuffledOrder(rows, seed), epoch)
    assert draws.rows.dtype == draws.views.dtype == draws.copies.dtype == np.int64
    assert sorted(draws.rows) == sorted(rows)
    assert not draws.copies.any()


@given(st.integers(0, 2**62), st.integers(0, 10**6))
def test_shuffled_hangs_on_seed_and_epoch(seed, epoch):
    def rows(*key):
        return epoch_of(ShuffledOrder(range(1000), key[0]), key[1]).rows.tolist()

    assert rows(seed, epoch) == rows(seed, epoch)
    assert rows(seed, epoch) != rows(seed, epoch + 1)
    assert rows(seed, epoch) != rows(seed + 1, epoch)


@given(ROWS, st.integers(1, 70))
def test_batches_taken_in_any_order_are_parts_of_the_epoch(rows, batch_size):
    drawing = ShuffledOrder(rows, 1)
    steps = steps_per_epoch(drawing.length, batch_size, "keep")
    batches = {
        step: drawing.draw(2, batch_positions(step, batch_size, drawing.length)).rows
        for step in reversed(range(steps))
    }
    whole = np.concatenate([batches[step] for step in range(steps)])
    assert whole.tolist() == epoch_of(drawing, 2).rows.tolist()


def test_a_range_is_the_same_as_its_rows():
    rows = range(10, 200, 3)
    as_array = epoch_of(ShuffledOrder(np.array(rows), 5)).rows
    assert epoch_of(ShuffledOrder(rows, 5)).rows.tolist() == as_array.tolist()


def test_a_range_of_any_length_takes_no_memory():
    draws = ShuffledOrder(range(10**12), 0).draw(0, np.arange(10**12 - 3, 10**12))
    assert len(set(draws.rows.tolist())) == 3


@pytest.mark.whole
@pytest.mark.parametrize("drawing", [SequentialOrder(range(5)), ShuffledOrder(range(5), 0)])
@pytest.mark.parametrize("position", [-1, 5])
def test_positions_outside_the_epoch_are_refused(drawing, position):
    with pytest.raises(ValueError, match=r"positions must be in \[0, 5\)"):
        drawing.draw(0, np.array([position]))


@pytest.mark.parametrize("rows", [range(0), np.zeros(0, np.int64)])
def test_no_rows_are_refused(rows):
    for make in (SequentialOrder, lambda rows: ShuffledOrder(rows, 0)):
        with pytest.raises(ValueError, match="rows must not be empty"):
            make(rows)


@pytest.mark.e2e
def test_the_arithmetic_needs_no_tensorflow():
    code = "import sys; from image_pipeline.components.order import order, subset"
    code += "; from image_pipeline.components.order import quality"
    code += "; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


SEED = st.integers(0, 2**62)
FOUND_ROWS = st.one_of(
    st.lists(st.integers(0, 2000), min_size=1, max_size=400, unique=True).map(np.array),
    st.builds(range, st.integers(0, 50), st.integers(51, 600), st.integers(1, 3)),
)


def balanced(rows, seed, classes, weights):
    labels = np.arange(len(rows)) % min(classes, len(rows))
    chosen = {number: weights[number] for number in np.unique(labels).tolist()}
    return BalancedOrder(labels, rows, chosen, seed, max_oversampling=np.inf)


def sharded(rows, seed, ends, batch_size, shards_at_once, views):
    """Of shards that end at these rows, some of them empty or not read."""
    starts = np.array([0, *sorted(ends), 2001])
    return ShardsOrder(np.sort(rows), starts, seed, batch_size, shards_at_once, views)


ORDERS = st.one_of(
    st.builds(SequentialOrder, FOUND_ROWS),
    st.builds(ShuffledOrder, FOUND_ROWS, SEED),
    st.builds(ViewsOrder, FOUND_ROWS, SEED, st.integers(1, 4)),
    st.builds(
        sharded,
        FOUND_ROWS,
        SEED,
        st.lists(st.integers(0, 2001), max_size=30),
        st.integers(1, 90),
        st.integers(1, 20),
        st.integers(1, 3),
    ),
    st.builds(
        balanced,
        FOUND_ROWS,
        SEED,
        st.integers(1, 5),
        st.lists(st.floats(0.1, 9), min_size=5, max_size=5),
    ),
)


@given(ORDERS, st.integers(0, 10**6))
def test_a_row_is_found_where_it_is_drawn(order, epoch):
    positions = collections.defaultdict(list)
    for position, row in enumerate(order.draw(epoch, np.arange(order.length)).rows.tolist()):
        positions[row].append(position)
    for row in {*positions, 2001}:
        found = order.find(epoch, row)
        assert found.dtype == np.int64
        assert found.tolist() == positions.get(row, [])


@given(st.integers(1, 2**62), SEED, st.data())
def test_a_permutation_of_any_length_is_inverted(length, seed, data):
    positions = data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=9))
    places = permute(np.array(positions), length, (seed, 1))
    assert invert(places, length, (seed, 1)).tolist() == positions


@pytest.mark.parametrize("length", [1, 2, 256, 257, 1000])
def test_every_place_of_an_epoch_has_its_position(length):
    places = permute(np.arange(length), length, (3, 4))
    np.testing.assert_array_equal(invert(places, length, (3, 4)), np.arange(length))


KINDS_OF_ROWS = [
    {"label": "cat", "height": 100, "width": 300, "group": "a", "notes": ["icc", "alpha"]},
    {"label": "dog", "height": 200, "width": 200, "group": None, "notes": []},
    {"label": "cow's", "height": 300, "width": 100, "group": "", "notes": ["16bit"]},
    {"label": "Füchse", "height": 400, "width": 5, "group": "b", "notes": None},
]
SCHEMA = pa.schema(
    [
        ("label", pa.string()),
        ("height", pa.int32()),
        ("width", pa.int32()),
        ("group", pa.string()),
        ("notes", pa.list_(pa.string())),
    ]
)
TABLE = pa.concat_tables([pa.Table.from_pylist([row], SCHEMA) for row in KINDS_OF_ROWS])


def matches(where, table=TABLE):
    matched = match_rows(table, where)
    assert matched.dtype == bool
    assert matched.shape == (len(table),)
    return np.flatnonzero(matched).tolist()


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ('label == "cat"', [0]),
        ('label != "cat"', [1, 2, 3]),
        ('label in ("cat", "dog")', [0, 1]),
        ('label not in ["cat", "dog"]', [2, 3]),
        ('label in ("cow\'s", "Füchse")', [2, 3]),
        ("label in ()", []),
        ("height > 200", [2, 3]),
        ("height >= 200", [1, 2, 3]),
        ("height < 100.5", [0]),
        ("height <= 99", []),
        ("200 == height", [1]),
        ("100 < height <= 300", [1, 2]),
        ("height in {100, 400.0}", [0, 3]),
        ("height > width", [2, 3]),
        ("height > -1", [0, 1, 2, 3]),
        ('label in ("cat", "dog") and height > 128 and not (width < 10)', [1]),
        ('label == "cat" or width < 10 or height == 200', [0, 1, 3]),
        ('label == "cat" or height > 250 and width < 50', [0, 3]),
        ("not not height == 100", [0]),
        ('"icc" in notes', [0]),
        ('"icc" not in notes', [1, 2, 3]),
        ('group == ""', [1, 2]),
        ('group != "a"', [1, 2, 3]),
        ('group not in ("a",)', [1, 2, 3]),
        ('label > "cow"', [1, 2]),
        ('1 < 2 and "a" == "a"', [0, 1, 2, 3]),
        ("1 in (2, 3)", []),
        ("\n  height ==\\\n 100 ", [0]),
    ],
)
def test_conditions(where, expected):
    assert matches(where) == expected


@given(st.integers(0, 500), st.integers(0, 500), st.sampled_from(["and", "or"]), st.booleans())
def test_python_agrees(least, most, join, negated):
    where = f"height >= {least} {join} {'not ' * negated}width <= {most}"
    assert matches(where) == [
        number
        for number, row in enumerate(KINDS_OF_ROWS)
        if eval(where, {}, {"height": row["height"], "width": row["width"]})
    ]


def test_a_dictionary_column_is_text():
    table = pa.table({"label": pa.array(["cat", "dog", None]).dictionary_encode()})
    assert matches('label in ("cat", "owl")', table) == [0]
    assert matches('label < "cz"', table) == [0, 2]


def test_an_empty_index_is_fine():
    assert matches('height > 3 and "icc" in notes', TABLE.slice(0, 0)) == []


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("heigth > 3", r"'heigth' in 'heigth > 3' is not a column; did you mean height\? known:"),
        ("xyz > 3", r"'xyz' in .* known: label, height, width, group, notes\.$"),
        ("height", "'height' in 'height' is not a condition; allowed are names"),
        ("height > 3 and width", "'width' in .* is not a condition"),
        ("True", "'True' in 'True' is not a condition"),
        ("height == True", "'True' in .* is neither text nor a number"),
        ("height == None", "'None' in .* is neither"),
        ("height is 3", "'height is 3' in .* uses 'is'"),
        ("height > 'tall'", "compares a number with a text"),
        ("label > 3", "compares a text with a number"),
        ("label in (3, 'cat')", "mixes number and text"),
        ("height in ('cat',)", "mixes number and text"),
        ("'cat' in label", r"needs values in brackets after \"in\""),
        ("label in width", "'label' in 'label in width' is neither"),
        ("notes == 'icc'", "compares a list with a text"),
        ("notes in ('icc',)", "mixes list and text"),
        ("height + width > 3", r"'height \+ width' in .* is neither"),
        ("label in (label, 'cat')", "is neither text nor a number"),
        ("height > 9223372036854775808", "at most 63 bits"),
        ("height > 1e999", "at most 63 bits"),
        ("label == -'cat'", "is neither"),
        ("label == b'cat'", "is neither"),
        ("__import__('os').system('true')", r"is not a condition"),
        ("(lambda: 1)() == 1", "is neither"),
        ("label.upper() == 'CAT'", "is neither"),
        ("[x for x in label]", "is not a condition"),
        ("(height := 3) > 2", "is neither"),
        ("f'{label}' == 'cat'", "is neither"),
        (
            "height >",
            r"'height >' is not a condition \(invalid syntax\); write one such as label in",
        ),
        ("height > 3; width > 4", "is not a condition"),
        ("", "is not a condition"),
        ("\0", "is not a condition"),
        ("(" * 5000 + "height > 3" + ")" * 5000, "is not a condition"),
        ("not " * 20_000 + "height > 3", "is not a condition"),
    ],
)
def test_anything_else_is_refused(where, message):
    with pytest.raises(UserError, match=message):
        match_rows(TABLE, where)
