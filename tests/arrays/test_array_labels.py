"""Arrays of labels: classes, one-hot rows and tags; what names no class is refused."""

import numpy as np
import pytest

from image_pipeline.components.arrays.array_tables import read_array_rows
from image_pipeline.components.errors import UserError
from tests.array_files import IMAGES, write_npz
from tests.arrays.test_array_tables import list_refs

pytestmark = pytest.mark.unit

_TAGS = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1], [1, 1, 0]] * 10)


def test_rows_that_are_not_one_hot_are_bad(tmp_path):
    labels = np.eye(4)[np.arange(6000) % 4]
    labels[5000] = 0
    path = write_npz(tmp_path / "a.npz", {"x": np.zeros((6000, 1, 2), np.uint8), "y": labels})
    refs = list_refs(path)
    assert [ref.annotations.label for ref in refs[4998:5002]] == ["2", "3", None, "1"]
    assert refs[5000].problem == "bad_row"
    assert refs[5000].message == (
        "a.npz:5000: 'y' is one-hot, but here it has no 1, or several, or else"
    )


def test_labels_of_another_length_are_refused_unless_none_are_wanted(tmp_path):
    path = write_npz(tmp_path / "a.npz", {"x": IMAGES, "y": np.arange(len(IMAGES) - 1)})
    said = rf"the labels 'y' have {len(IMAGES) - 1} rows, but the images 'x' have {len(IMAGES)}"
    with pytest.raises(UserError, match=said):
        list(read_array_rows(str(path), {}))
    assert len(list(read_array_rows(str(path), {"label": None}))) == len(IMAGES)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (_TAGS, r"'y' are int64 \[50, 3\], which name no class .*{label: y} takes them as tags, {"),
        (_TAGS / 4, r"'y' are float64 \[50, 3\], which name no class .*ingest.columns: {label: …}"),
        (np.arange(50) * 1j, r"'y' are complex128 \[50\], which name no class"),
        (np.arange(50).astype("M8[D]"), r"'y' are datetime64 \[50\], which name no class"),
    ],
)
def test_labels_that_name_no_class_are_refused_unless_none_are_wanted(tmp_path, labels, message):
    path = write_npz(tmp_path / "a.npz", {"x": IMAGES, "y": labels})
    with pytest.raises(UserError, match=message):
        list_refs(path)
    assert len(list_refs(path, columns={"label": None})) == len(IMAGES)


def test_rows_of_0_and_1_are_tags_if_named_so(tmp_path):
    tags = np.tile(_TAGS.astype(np.float32), (100, 1))
    tags[4500] = 2
    path = write_npz(tmp_path / "a.npz", {"x": np.zeros((5000, 1, 2), np.uint8), "y": tags})
    refs = list_refs(path, columns={"label": "y"})
    assert [ref.annotations.further for ref in refs[:3]] == [(["1", "2"],), (["0"],), ([],)]
    assert refs[4500].message == (
        "a.npz:4500: 'y' has rows of 0 and 1, but here it has something else"
    )
    path = write_npz(tmp_path / "a.npz", {"x": IMAGES, "y": _TAGS / 4})
    with pytest.raises(UserError, match=r"as label, but in .* it is float64 \[50, 3\]: rows of"):
        list_refs(path, columns={"label": "y"})
