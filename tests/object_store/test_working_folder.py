"""An ingest that fails goes on in another run, on another machine, from the store."""

import pytest
from tfx.types import standard_artifacts

from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import read_whole_manifest
from image_pipeline.components.ingest import prepare, transforms
from image_pipeline.components.ingest.component import ImageExampleGen, ImageExampleGenExecutor
from image_pipeline.components.ingest.options import IngestOptions
from tests.object_store.runs import read_tree

pytestmark = pytest.mark.e2e


def execute(root: str, images_dir: str, run: int) -> str:
    """The ingest step of a run: its output's folder."""
    examples = standard_artifacts.Examples()
    examples.uri = f"{root}/{run}/examples"
    options = IngestOptions(max_bad_fraction=0.5)
    gen = ImageExampleGen(images_dir, options, "today", work_root=f"{root}/working")
    ImageExampleGenExecutor().Do({}, {"examples": [examples]}, gen.exec_properties)
    return examples.uri


def test_images_are_prepared_once(store, places, monkeypatch):
    images_dir, root = f"{store.uri}/images", f"{store.uri}/attempts"
    chunks, write = [], prepare.write_rows
    monkeypatch.setattr(
        prepare, "write_rows", lambda *given: chunks.append(given[1]) or write(*given)
    )
    with monkeypatch.context() as failing:
        failing.setattr(transforms, "write_manifest", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            execute(root, images_dir, 1)
    (chunk,) = chunks
    assert any(name.endswith(f"{chunk}.payload") for name in read_tree(f"{root}/working"))

    output = execute(root, images_dir, 2)
    assert chunks == [chunk]
    assert read_whole_manifest(output).books.written == 29  # A copy has another class.
    assert not files.exists(f"{root}/working")
