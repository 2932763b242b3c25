import pytest

from tests.drawings import write_folder
from tests.ingest_runs import ingest


@pytest.fixture(scope="session")
def data_set(tmp_path_factory):
    """30 images of 2 classes in a train split of 3 shards and an eval split of 3."""
    root = tmp_path_factory.mktemp("feeding")
    images = write_folder(root / "images", per_class=15)
    ingest(images, root / "data", shards=3)
    return root / "data"


@pytest.fixture(scope="session")
def train_shards(data_set):
    """The paths of the train split's shards, sorted."""
    return sorted(map(str, data_set.glob("Split-train/*")))
