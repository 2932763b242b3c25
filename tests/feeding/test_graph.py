import pytest

from image_pipeline.components.feeding.graph import read_class_names

pytestmark = pytest.mark.unit


def test_a_name_may_hold_what_ends_a_line_elsewhere(tmp_path):
    assets = tmp_path / "transform_fn" / "assets"
    assets.mkdir(parents=True)
    names = ["one\u2028line", "two\x85", "three\x0b"]
    (assets / "label").write_bytes("".join(f"{name}\n" for name in names).encode())
    assert read_class_names(str(tmp_path)) == names
    (assets / "label").write_bytes(b"")
    assert read_class_names(str(tmp_path)) == []
