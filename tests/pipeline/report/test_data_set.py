import pytest

from image_pipeline.components.dataset.manifest import ListedSplit
from image_pipeline.components.errors import UserError
from image_pipeline.report.data_set import open_data_set

pytestmark = pytest.mark.beam


def test_a_data_set_without_records_or_index_is_refused(source, tmp_path):
    empty = {"train": ListedSplit(records=0, bytes=0, shards=[])}
    with pytest.raises(UserError, match="needs a data set with records and an index"):
        open_data_set(str(tmp_path), source.manifest)
    with pytest.raises(UserError, match="needs a data set with records and an index"):
        open_data_set(source.data_dir, source.manifest.model_copy(update={"splits": empty}))


def test_names_that_are_not_utf_8_are_found(data):
    assert data.find_rows(["cat/smooth.png", "cat/\udcff.png"]).keys() == {"cat/smooth.png"}
