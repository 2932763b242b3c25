"""Through TFX's runner: of two data sets, only the one that changed is read, and of its images only
the new ones are decoded.
"""

import json
import pathlib

import pytest
from tfx import v1 as tfx
from tfx.types import channel

from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.ingest.component import ImageExampleGen
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.transform.component import ImageTransform
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import draw, encode_png, write_folder
from tests.transform.analyze import make_pipeline

pytestmark = [pytest.mark.e2e, pytest.mark.wide]

VIEW = ViewOptions(height_px=8, width_px=10)
INGEST = IngestOptions.model_validate(
    {"prepare": {"encoding": "png"}, "splits": {"train": 0.6, "eval": 0.4}, "shards": 2}
)
DAYS = ("monday", "tuesday")


def _run(folder, changes):
    """Runs two ingests and one analysis of both; a change is another fingerprint."""
    gens = [
        ImageExampleGen(str(folder / day), INGEST, f"{day}-{changes[day]}").with_id(day)
        for day in DAYS
    ]
    transform = ImageTransform(
        channel.union([gen.outputs["examples"] for gen in gens]),
        VIEW,
        TransformOptions(),
        str(folder / "cache"),
    )
    pipeline = tfx.dsl.Pipeline(
        pipeline_name="days",
        pipeline_root=str(folder / "root"),
        components=[*gens, transform],
        enable_cache=True,
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(folder / "metadata.db")
        ),
        beam_pipeline_args=list(LOCAL_BEAM_ARGS),
    )
    tfx.orchestration.LocalDagRunner().run(pipeline)
    return _newest(folder / "root" / "ImageTransform" / "transform_graph")


def _newest(folder: pathlib.Path) -> pathlib.Path:
    return max(folder.iterdir(), key=lambda path: int(path.name))


def _read_analysis(graph):
    return json.loads((graph / "analysis.json").read_text())


def test_only_a_changed_data_set_is_read_and_nothing_at_all_when_none_changed(
    tmp_path, read_shards, decoded
):
    for number, day in enumerate(DAYS):
        write_folder(tmp_path / day, classes=[f"cat{number}", "dog"], per_class=10)
    first = _run(tmp_path, {"monday": 1, "tuesday": 1})
    records = _read_analysis(first)["records"]
    # Those that are analysed, and one on which the graph is tried.
    assert len(read_shards()) == 4 and len(decoded) == records + 1
    decoded.clear()
    (tmp_path / "tuesday" / "dog" / "new.png").write_bytes(encode_png(draw(99)))
    changed = _run(tmp_path, {"monday": 1, "tuesday": 2})
    shards = read_shards()
    assert len(shards) == 2 and all("/tuesday/" in shard for shard in shards)
    assert len(decoded) == _read_analysis(changed)["records"] - records + 1

    again = _run(tmp_path, {"monday": 1, "tuesday": 2})
    assert again == changed and not read_shards()  # TFX re-used it: the cache is not an input

    data = [str(_newest(tmp_path / "root" / day / "examples")) for day in DAYS]
    run_analysis(data, str(tmp_path / "full"), VIEW, TransformOptions(), make_pipeline)
    found, full = _read_analysis(changed), _read_analysis(tmp_path / "full")
    del found["code_version"], full["code_version"]
    found["manifests"].sort(), full["manifests"].sort()
    assert found == full and found["records"] > 20
