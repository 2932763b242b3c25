"""An ingest that fails goes on in another run, on another machine, from the store."""

from collections.abc import Sequence

import pytest
from tfx.types import standard_artifacts

from image_pipeline.components import files
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.dataset.manifest import read_whole_manifest
from image_pipeline.components.dataset.pointer import follow_pointer
from image_pipeline.components.ingest import prepare_chunk, run, shards
from image_pipeline.components.ingest.component import ImageExampleGen, ImageExampleGenExecutor
from image_pipeline.components.meaning.options import IngestOptions
from tests.object_store.runs import read_tree

pytestmark = pytest.mark.e2e


# Beam's portable runner of this process: its workers are told nothing but the job.
PORTABLE = (
    *("--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"),
    "--sdk_container_image=none",
)


def execute(
    root: str, run: int, output: str = "", flags: Sequence[str] = LOCAL_BEAM_ARGS, **roots: str
) -> str:
    """The ingest step of a run: its output's folder."""
    examples = standard_artifacts.Examples()
    examples.uri = output or f"{root}/{run}/examples"
    options = IngestOptions(max_bad_fraction=0.5)
    roots = {"work_root": f"{root}/working"} | roots
    gen = ImageExampleGen("s3://bucket/images", options, "today", **roots)
    context = ImageExampleGenExecutor.Context(beam_pipeline_args=[*flags])
    ImageExampleGenExecutor(context).Do({}, {"examples": [examples]}, gen.exec_properties)
    return examples.uri


def test_images_are_prepared_once(store, places, monkeypatch):
    root = f"{store.uri}/attempts"
    chunks, write = [], prepare_chunk.write_rows
    monkeypatch.setattr(
        prepare_chunk, "write_rows", lambda *given: chunks.append(given[1]) or write(*given)
    )
    with monkeypatch.context() as failing:
        failing.setattr(run, "write_manifest", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            execute(root, 1)
    (chunk,) = chunks
    assert any(name.endswith(f"{chunk}.payload") for name in read_tree(f"{root}/working"))

    output = execute(root, 2)
    assert chunks == [chunk]
    assert read_whole_manifest(output).books.written == 29  # A copy has another class.
    assert not files.exists(f"{root}/working")


def test_a_data_set_beside_the_outputs_is_finished_where_it_was_begun(store, places, monkeypatch):
    root = f"{store.uri}/pointed"
    written, write = [], shards._write_records
    monkeypatch.setattr(
        shards, "_write_records", lambda *given: written.append(given[0].path) or write(*given)
    )
    with monkeypatch.context() as failing:
        failing.setattr(run, "write_manifest", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            execute(root, 1, data_root=f"{root}/data")
    begun = sorted(written)
    first = follow_pointer(execute(root, 2, data_root=f"{root}/data"))
    assert sorted(written) == begun and begun == sorted(
        name for name in read_tree(first.uri) if name.startswith("Split-")
    )
    assert first.records == 29 and read_tree(f"{root}/2/examples").keys() == {"data_set.json"}
    # A third run points to it, and writes what is missing where it is damaged.
    whole = read_tree(first.uri)
    assert follow_pointer(execute(root, 3, data_root=f"{root}/data")) == first
    assert sorted(written) == begun
    files.delete(f"{first.uri}/{begun[0]}")
    assert follow_pointer(execute(root, 4, data_root=f"{root}/data")) == first
    assert len(written) > len(begun) and read_tree(first.uri) == whole


def test_workers_elsewhere_share_nothing_with_the_step_but_the_store(places, tmp_path, monkeypatch):
    monkeypatch.setenv("no_grpc_proxy", "127.0.0.1,localhost")  # The proxy is for TensorFlow.
    root = "s3://bucket/workers"
    output = execute(root, 1, f"{tmp_path}/pod/examples", PORTABLE, data_root=f"{root}/data")
    assert read_tree(f"{tmp_path}/pod").keys() == {"examples/data_set.json"}
    assert follow_pointer(output).records == 29
    assert {name.split("/")[0] for name in read_tree(root)} == {"data"}
