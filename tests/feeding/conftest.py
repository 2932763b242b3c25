import shutil

import pytest

from image_pipeline.components.dataset.index import read_index
from tests.drawings import write_folder
from tests.ingest_runs import ingest
from tests.shards import flip_bit


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


@pytest.fixture
def copied(data_set, tmp_path):
    """The paths of a copy of the train split, to be damaged."""
    shutil.copytree(data_set, tmp_path / "data")
    return sorted(map(str, (tmp_path / "data").glob("Split-train/*")))


@pytest.fixture
def damaged(copied):
    """The train shards of a copy whose record 2 has a flipped bit."""
    flip_bit(copied[0], int(read_index(copied).offset[2]) + 30)
    return copied
