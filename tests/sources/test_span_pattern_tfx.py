"""The patterns mean what they mean to TFX's own ExampleGens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tfx.components.example_gen import utils
from tfx.proto import example_gen_pb2

from image_pipeline.components.sources.span_pattern import choose_span
from tests.tiers import few

pytestmark = pytest.mark.beam

PATTERNS = ("s-{SPAN}", "{SPAN:3}/v-{VERSION}", "{YYYY}-{MM}-{DD}", "{YYYY}/{MM}{DD}/{VERSION:2}")


def _ask_tfx(root, pattern):
    """The latest span and its version, by the function in which TFX's driver finds them."""
    splits = [example_gen_pb2.Input.Split(name="all", pattern=f"{pattern}/*")]
    _, span, version = utils.calculate_splits_fingerprint_span_and_version(str(root), splits)
    return span, version


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=few())
@given(numbers=st.lists(st.tuples(st.integers(0, 999), st.integers(0, 99)), min_size=1))
def test_the_latest_span_is_tfxs(tmp_path_factory, pattern, numbers):
    root = tmp_path_factory.mktemp("spans")
    for span, version in numbers:
        path = utils.get_pattern_for_span_version(
            pattern, "SPAN" in pattern, "YYYY" in pattern, "VERSION" in pattern, span, version
        )
        (root / path).mkdir(parents=True, exist_ok=True)
        (root / path / "a.jpg").write_bytes(b"")
    found = choose_span(f"{root}/{pattern}")
    assert (found.span, found.version) == _ask_tfx(root, pattern)
