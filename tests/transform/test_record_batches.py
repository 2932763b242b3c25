import pytest

from image_pipeline.components.transform import record_batches
from image_pipeline.components.transform.view_reader import Wanted
from image_pipeline.components.views.options import ViewOptions
from tests import shards

pytestmark = pytest.mark.unit

VIEW = ViewOptions(height_px=8, width_px=10)


@pytest.mark.parametrize(
    ("pixels", "sizes"), [(True, [3, 3, 1]), (False, [7])], ids=["pixels", "sums"]
)
def test_batches_have_no_more_pixels_than_arrow_counts(tmp_path, monkeypatch, pixels, sizes):
    monkeypatch.setattr(record_batches, "_MOST_VALUES", 3 * 8 * 10 * 3 + 5)
    pattern = shards.write_shards(tmp_path, shards.make_examples(7))
    shard = pattern.replace("*", "00000-of-00001")
    wanted = Wanted(pixels=pixels, sums=True)
    batches = record_batches.read_view_batches(shard, VIEW, 64, wanted, 1)
    assert [batch.num_rows for batch in batches] == sizes
