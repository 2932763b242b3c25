"""An ingest that fails goes on in another run, on another machine, from the store."""

import pytest
from tfx.types import standard_artifacts

from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import read_whole_manifest
from image_pipeline.components.dataset.pointer import follow_pointer
from image_pipeline.components.ingest import prepare, shards, transforms
from image_pipeline.components.ingest.component import ImageExampleGen, ImageExampleGenExecutor
from image_pipeline.components.ingest.options import IngestOptions
from tests.object_store.runs import read_tree

pytestmark = pytest.mark.e2e


def execute(root: str, images_dir: str, run: int, points: bool = False) -> str:
    """The ingest step of a run: its output's folder."""
    examples = standard_artifacts.Examples()
    examples.uri = f"{root}/{run}/examples"
    options = IngestOptions(max_bad_fraction=0.5)
    roots = {"work_root": f"{root}/working", "data_root": f"{root}/data" if points else ""}
    gen = ImageExampleGen(images_dir, options, "today", **roots)
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


def test_a_data_set_beside_the_outputs_is_finished_where_it_was_begun(store, places, monkeypatch):
    images_dir, root = f"{store.uri}/images", f"{store.uri}/pointed"
    written, write = [], shards._write_shard_and_index
    monkeypatch.setattr(
        shards, "_write_shard_and_index", lambda *given: written.append(given[3]) or write(*given)
    )
    with monkeypatch.context() as failing:
        failing.setattr(transforms, "write_manifest", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            execute(root, images_dir, 1, points=True)
    begun = sorted(written)
    first = follow_pointer(execute(root, images_dir, 2, points=True))
    assert sorted(written) == begun and all(path.startswith(f"{first.uri}/") for path in begun)
    assert first.records == 29 and read_tree(f"{root}/2/examples").keys() == {"data_set.json"}
    # A third run that is not to reuse it writes another one: somebody may be reading the first.
    whole = read_tree(first.uri)
    other = follow_pointer(execute(root, images_dir, 3, points=True))
    assert other.uri != first.uri and other.manifest_sha256 == first.manifest_sha256
    assert read_tree(first.uri) == read_tree(other.uri) == whole
