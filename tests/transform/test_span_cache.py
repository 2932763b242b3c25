"""A cache is used only where a finished run has marked it."""

import collections

import pytest

from image_pipeline.components.transform.analysed_sets import Span
from image_pipeline.components.transform.span_cache import drop_unfinished, mark, unmark

pytestmark = pytest.mark.unit


def _span(key):
    return Span("", key, "", (), {}, collections.Counter())


def _names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_what_no_finished_run_has_marked_is_dropped(tmp_path):
    spans = [_span("whole"), _span("dying"), _span("dead")]
    for span in spans:
        (tmp_path / span.key).mkdir()
        (tmp_path / span.key / "0").write_text("found")
    mark(str(tmp_path), spans[:2])
    unmark(str(tmp_path), spans[1:])
    drop_unfinished(str(tmp_path), spans)
    assert _names(tmp_path) == ["whole", "whole/0", "whole/COMPLETE"]
