"""What a model was fed from a data set in a store, whose certificate may be there, too."""

import pytest

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.named_model import find_certificate
from tests.training.logged import LOGGED, Interrupt, check_all, make_namer, train

pytestmark = pytest.mark.beam


@pytest.mark.parametrize(
    "feeding",
    [
        {"balance": {"cat": 2, "dog": 1}},
        {"shuffle": "shards", "shards_at_once": 2, "many_views": {"mirror": True}},
    ],
)
def test_each_batch_that_was_logged_is_named(places, graphs, tmp_path, feeding):
    data, graph = f"{places['store']}/data", f"{places['local']}/graph"
    name_images = make_namer([data], graph)
    feeding = {"cache_bytes": 10**8, "cache_dir": str(tmp_path / "cache"), **feeding}
    kept = f"{places['store']}/kept"
    options = {"feeding": feeding, "checkpoint_dir": kept, "checkpoint_steps": 1}
    with pytest.raises(Interrupt):
        train([data], graph, tmp_path / "model", stop_after=2, **options)
    logged = [*map(name_images, LOGGED)]
    logged += map(name_images, train([data], graph, tmp_path / "model", **options))
    (*_, last) = files.list_files(kept, "*/*/fed.json")
    for folder in (tmp_path / "model", last.rpartition("/")[0]):
        check_all([data], folder, logged)
    files.delete_tree(kept)


def test_a_checkpoint_without_a_certificate_says_so(store):
    files.write_file(f"{store.uri}/bare/000001-000000000/position.json", b"{}")
    with pytest.raises(UserError, match=r"/bare/000001-000000000' has no fed.json: it was trained"):
        find_certificate(f"{store.uri}/bare/000001-000000000")
