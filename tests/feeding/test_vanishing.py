"""A data set that is deleted, cut or overwritten while it is read: an error that names it."""

import glob
import os
import re
import shutil

import pytest

from image_pipeline import input_fn
from image_pipeline.components.errors import find_user_error
from tests.drawings import write_folder
from tests.ingest_runs import ingest

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vanishing")
    ingest(write_folder(folder / "images", per_class=40), folder / "data", shards=3)
    return folder / "data"


def _cut(path):
    os.truncate(path, 50)


def _overwrite(path):
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.write(bytes(size))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_cut, "record [0-9]+ of .* is damaged: the shard ends before it"),
        (_overwrite, "record [0-9]+ of .* is damaged: its length field"),
    ],
)
def test_what_changes_while_it_is_read_is_named(made, tmp_path, change, says):
    data = tmp_path / "data"
    shutil.copytree(made, data)
    view = {"height_px": 8, "width_px": 8}
    options = {"batch_size": 4, "epochs": None, "hold_decoded": False}
    batches = iter(input_fn(str(data), "train", view=view, **options))
    next(batches)
    for path in glob.glob(f"{data}/*/*tfrecord-*") + glob.glob(f"{data}/*tfrecord-*"):
        change(path)
    # The error's traceback would keep the iterator until a collection, which may come in a thread
    # that the iterator's end waits for.
    try:
        for _ in range(5000):
            next(batches)
    except Exception as error:
        said = str(find_user_error(error))
    assert re.search(says, said)
