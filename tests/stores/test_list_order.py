"""Lists in one of two orders pass; any other stops."""

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.stores.remote import check_order

pytestmark = pytest.mark.unit

BY_NAME = ["s3://b/a", "s3://b/a-1", "s3://b/a.d/x", "s3://b/a/0", "s3://b/a/z", "s3://b/é"]
BY_FOLDER = ["az://c/a/0", "az://c/a/z", "az://c/a-1/x", "az://c/a.png"]


@pytest.mark.parametrize("names", [BY_NAME, BY_FOLDER, [], ["s3://b/x"]])
def test_both_orders_pass(names):
    listed = [(name, 1, 2.0) for name in names]
    assert list(check_order(iter(listed))) == listed


@pytest.mark.parametrize(
    "names",
    [
        ["s3://b/b", "s3://b/a"],
        ["s3://b/a", "s3://b/a"],  # Twice.
        ["s3://b/a-1", "s3://b/a/0", "s3://b/a-2"],  # By names first, then by folders.
        ["s3://b/a/0", "s3://b/a-1", "s3://b/a/1"],
    ],
)
def test_no_order_stops_before_a_name_is_in_the_wrong_place(names):
    passed = []
    with pytest.raises(UserError, match=f"{names[-1]} is listed behind {names[-2]}: its store"):
        for each in check_order((name, 1, 2.0) for name in names):
            passed.append(each[0])
    assert passed == names[:-1]
