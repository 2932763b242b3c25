"""Folders of records behind URIs: told from data sets, and read with their splits."""

import pytest

from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import read_whole_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.open_source import open_complete
from image_pipeline.components.meaning.options import IngestOptions
from tests.data_set_files import write_tfrecord
from tests.drawings import draw, encode_png

pytestmark = pytest.mark.beam

IMAGES = [encode_png(draw(number)) for number in range(5)]


@pytest.mark.parametrize("scheme", ["gs", "s3"])
def test_a_folder_of_splits_is_as_a_local_one(store, tmp_path, scheme):
    for split, numbers in (("train", range(3)), ("eval", range(3, 5))):
        path = tmp_path / "data_tfrecord-00000-of-00001.gz"
        write_tfrecord(path, [{"image": IMAGES[n], "label": n} for n in numbers])
        with files.write_atomically(f"{store.uri}/examples/Split-{split}/{path.name}") as file:
            file.write(path.read_bytes())
    folder = f"{scheme}://bucket/examples"
    with pytest.raises(UserError, match=f"in Split-eval, Split-train, .* tfrecord:{folder} --out"):
        read_whole_manifest(folder)
    source, _ = open_complete(f"tfrecord:{folder}", IngestOptions())
    refs = list(source.list())
    assert [ref.annotations.split for ref in refs] == ["eval"] * 2 + ["train"] * 3
    assert [source.read(ref, 10**6) for ref in refs] == [*IMAGES[3:], *IMAGES[:3]]
