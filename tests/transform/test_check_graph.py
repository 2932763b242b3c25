"""The finished graph is run on a few images before it is handed on."""

import numpy as np
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.transform.check_graph import check_graph, check_statistics
from tests.graphs import shared_graph_dir, write_graph
from tests.transform import bad_functions

pytestmark = pytest.mark.beam

VIEWS = {
    "image": np.arange(192, dtype=np.uint8).reshape(1, 8, 8, 3),
    "label": np.array([b"cat"], object),
}


def test_a_good_graph_passes():
    check_graph(shared_graph_dir(), VIEWS, "pkg.fn")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("batch_mean", r"makes 'image' of an image depend on its neighbours"),
        ("nan_on_black", r"got NaN or infinity in 'image' for a black image"),
        ("two_rows_an_image", r"one row of 'image' for each image, got \[6, 8, 8, 3\] for 3"),
        ("pairs_only", r"fails on a batch of 3: .*it must take batches of any size"),
    ],
)
def test_a_bad_graph_is_refused(tmp_path, function, message):
    folder = write_graph(tmp_path, preprocessing_fn=getattr(bad_functions, function))
    with pytest.raises(UserError, match=message):
        check_graph(folder, VIEWS, "pkg.fn")


def test_a_statistic_that_is_not_finite_is_refused():
    with pytest.raises(UserError, match=r"the statistic std of .* must be finite, got nan"):
        check_statistics({"mean": np.array([1.0]), "std": np.array([1.0, np.nan])}, "pkg.fn")
