"""Which files a pattern has."""

import pytest

from image_pipeline.components.sources.file_names import find_matching

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.tar", ["a-9.tar", "a-10.tar", "b.tar"]),
        ("a-{9..10}.tar", ["a-9.tar", "a-10.tar"]),
        ("{b,a-9}.tar", ["a-9.tar", "b.tar"]),
        ("{a-*,b}.t?r", ["a-9.tar", "a-10.tar", "b.tar"]),
        ("{008..010}.tar", ["008.tar", "009.tar", "010.tar"]),  # Named, though not there.
        ("a-{1..0}.tar", []),
        ("x{SPAN}.tar", ["x{SPAN}.tar"]),
        ("gone.tar", ["gone.tar"]),
        ("*.zip", []),
    ],
)
def test_patterns(tmp_path, pattern, names):
    for name in ("a-9.tar", "a-10.tar", "b.tar"):
        (tmp_path / name).touch()
    (tmp_path / "folder.tar").mkdir()
    assert find_matching(f"{tmp_path}/{pattern}") == sorted(f"{tmp_path}/{name}" for name in names)


def test_a_file_may_be_called_as_a_pattern_is(tmp_path):
    for name in ("c[1].tar", "c1.tar"):
        (tmp_path / name).touch()
    assert find_matching(f"{tmp_path}/c[1].tar") == [f"{tmp_path}/c[1].tar"]
