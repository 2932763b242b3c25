import pytest

from image_pipeline.components.sources.understood import collect, noticed, understood

pytestmark = pytest.mark.unit


def test_sentences_are_collected_in_order_each_once():
    understood("nobody listens")
    with collect() as said:
        understood("val/ is taken as the split eval")
        understood("the label is the column 'emotion'")
        understood("val/ is taken as the split eval")
        with collect() as inner:
            understood("of another source")
            noticed("d.jpg is named by no row")
    understood("nobody listens any more")
    assert said.understood == [
        "val/ is taken as the split eval",
        "the label is the column 'emotion'",
    ]
    assert inner.understood == ["of another source"]
    assert said.noticed == inner.noticed == ["d.jpg is named by no row"]
