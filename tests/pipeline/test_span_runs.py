"""Spans and parts of the pipeline through TFX's LocalDagRunner, by the command line's functions."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
from click.testing import CliRunner

from image_pipeline.cli import cli
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.json_text import seal
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.tfx_metadata import open_metadata
from tests.drawings import encode_png

pytestmark = [pytest.mark.e2e, pytest.mark.wide]

CONFIG = """
ingest: {prepare: {encoding: png}, splits: {train: 0.7, eval: 0.3}, shards: 2}
spans: {window: all}
view: {height_px: 16, width_px: 16}
feeding: {batch_size: 8, augment: []}
training: {epochs: 2, learning_rate: 0.01}
evaluation: {min_accuracy: 0.0, min_improvement: -1}
"""
LATER = ["Trainer", "Evaluator", "Pusher"]


def _write_day(folder, seed, per_class):
    """Noise with one bright channel, which names the class."""
    generator = np.random.default_rng(seed)
    for channel, name in enumerate(["red", "green"]):
        (folder / name).mkdir(parents=True)
        for number in range(per_class):
            pixels = generator.integers(0, 100, (16, 16, 3), np.uint8)
            pixels[..., channel] += 120
            (folder / name / f"{number:02d}.png").write_bytes(encode_png(pixels))


def _run(folder, *arguments, exit_code=0):
    """Runs the command in this process; the summary."""
    places = ["--images", f"{folder}/day-{{SPAN}}", "--output", f"{folder}/out"]
    command = ["run", *places, "--config", f"{folder}/config.yaml", "--json", *arguments]
    result = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert result.exit_code == exit_code, result.output
    return json.loads(result.output.splitlines()[-1])  # After what Keras says of each epoch.


def _ran(summary):
    """The components that did work: not Resolvers, which only find what there is."""
    names = [each["name"] for each in summary["components"] if not each["reused"]]
    return [name for name in names if not name.endswith("Resolver")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("span_runs")
    (folder / "config.yaml").write_text(CONFIG)
    return folder


@pytest.fixture(scope="module")
def first(folder):
    """The run of the first day."""
    _write_day(folder / "day-1", seed=1, per_class=12)
    return _run(folder)


@pytest.fixture(scope="module")
def second(folder, first):
    """The run after a second day has come."""
    cached = _list_cache(folder)
    _write_day(folder / "day-2", seed=2, per_class=10)
    summary = _run(folder)
    baselines = _list_baselines(folder)
    return Second(summary, _list_data_sets(folder), cached, _list_cache(folder), baselines)


@dataclasses.dataclass(frozen=True)
class Second:
    """What there is after the second run.

    Attributes:
      summary: the run's.
      data_sets: all that have been ingested.
      cached_before: the analyzer cache's files and their times before the run.
      cached: the same after it.
      baselines: the models that the runs' models were compared with.
    """

    summary: dict
    data_sets: list[pathlib.Path]
    cached_before: dict[pathlib.Path, int]
    cached: dict[pathlib.Path, int]
    baselines: list[str | None]

    def count(self, split):
        """Records of a split, of each data set."""
        manifests = [json.loads((path / "manifest.json").read_text()) for path in self.data_sets]
        return [manifest["splits"][split]["records"] for manifest in manifests]


def _list_cache(folder):
    """What the analyzers found, a folder for each data set, with the times of writing."""
    entries = (folder / "out/artifacts/analyzer_cache").rglob("*.gz")
    return {path: path.stat().st_mtime_ns for path in entries}


def _list_baselines(folder):
    """Of each judged model, the model that it was compared with."""
    store = open_metadata(f"{folder}/out/metadata.db")
    blessings = sorted(store.get_artifacts_by_type("ModelBlessing"), key=lambda each: each.id)
    found = [each.custom_properties.get("baseline_model") for each in blessings]
    return [None if each is None else each.string_value for each in found]


def _list_data_sets(folder):
    return sorted(folder.glob("out/artifacts/ImageExampleGen/examples/[0-9]*"))


def test_the_first_span_is_a_run_as_ever(first):
    assert first["spans"] == [1]
    assert first["ingest"]["written"] == 24
    assert len(_ran(first)) == 8


def test_only_the_new_span_is_ingested(second):
    assert second.summary["spans"] == [1, 2]
    components = {each["name"]: each["reused"] for each in second.summary["components"]}
    assert components["ImageExampleGen 1"] and not components["ImageExampleGen"]
    assert second.summary["ingest"]["found"] == 20
    assert len(second.data_sets) == 2


def test_the_analysis_reads_only_the_new_span(second):
    before, after = second.cached_before, second.cached
    assert before and {path: after[path] for path in before} == before
    assert len({path.parent.name for path in after}) == 2
    graph = pathlib.Path(second.summary["paths"]["transform_graph"])
    analysis = json.loads((graph / "analysis.json").read_text())
    assert len(analysis["manifests"]) == 2
    assert analysis["records"] == sum(second.count("train"))


def test_the_model_sees_both_spans_and_is_judged_by_both(first, second):
    steps = second.summary["training"]["steps"]
    assert steps == 2 * -(-sum(second.count("train")) // 8)
    assert steps > first["training"]["steps"]
    assert second.summary["evaluation"]["records"] == sum(second.count("eval"))


def test_a_model_is_compared_with_the_latest_that_passed(first, second):
    assert "accuracy gained" not in first["evaluation"]["metrics"]
    assert "accuracy gained" in second.summary["evaluation"]["metrics"]
    assert second.baselines == [None, first["paths"]["model"]]  # For the first, there was none.


def test_a_model_that_gains_too_little_is_not_pushed(folder, second):
    pushed = sorted((folder / "out/pushed_model").iterdir())
    arguments = ["--from", "Evaluator", "--set", "evaluation.min_improvement=1"]
    summary = _run(folder, *arguments, exit_code=3)
    assert summary["blessed"] is False
    (failure,) = summary["evaluation"]["failures"]
    gained = summary["evaluation"]["metrics"]["accuracy gained"]["value"]
    told = {"option": "evaluation.min_improvement", "threshold": 1, "measure": "accuracy"}
    assert failure == told | {"measured": pytest.approx(gained)}
    assert summary["paths"]["pushed_model"] is None
    assert sorted((folder / "out/pushed_model").iterdir()) == pushed


def test_an_epoch_over_both_spans_has_each_record_once_in_an_order_of_its_own(second):
    patterns = [f"{path}/Split-train/*" for path in second.data_sets]

    def read(patterns, **arguments):
        feeding = FeedingOptions(batch_size=8, augment=())
        options = {"view": ViewOptions(height_px=16, width_px=16), "feeding": feeding}
        batches = input_fn(patterns, transform_graph_dir=None, mode="train", **options, **arguments)
        return [image.tobytes() for images, _ in batches.as_numpy_iterator() for image in images]

    epoch = read(patterns)
    assert len(epoch) == len(set(epoch)) == sum(second.count("train"))
    assert read(patterns[::-1]) == epoch
    assert read(patterns, first_epoch=1) != epoch
    alone = [set(read([pattern])) for pattern in patterns]
    assert set(epoch) == alone[0] | alone[1]
    in_first = [image in alone[0] for image in epoch]
    assert in_first != sorted(in_first) and in_first != sorted(in_first, reverse=True)  # Mixed.


def test_a_part_takes_what_comes_before_from_the_latest_run(folder, second):
    summary = second.summary
    part = _run(folder, "--from", "Trainer", "--set", "training.epochs=1")
    assert _ran(part) == LATER
    taken = {"ImageExampleGen", "SpanResolver", "ImageTransform", "StatisticsGen"}
    assert taken < {each["name"] for each in part["components"]}
    assert part["spans"] == [1, 2]
    assert part["training"]["steps"] == summary["training"]["steps"] // 2
    for name in ("examples", "transform_graph", "schema"):
        assert part["paths"][name] == summary["paths"][name]
    assert json.loads((folder / "out/summary.json").read_text()) == seal(part)
    assert pathlib.Path(part["paths"]["pushed_model"]).is_dir()
    assert part["paths"]["pushed_model"] != summary["paths"]["pushed_model"]


def test_an_earlier_span_is_run_again_up_to_a_component(folder, first, second):
    before = (folder / "out/summary.json").read_bytes()
    part = _run(folder, "--span", "1", "--to", "ImageTransform")
    assert part["spans"] == [1] and part["ingest"]["written"] == 24
    assert _ran(part) == []  # As the first run left it.
    assert part["paths"]["transform_graph"] == first["paths"]["transform_graph"]
    assert "training" not in part and "blessed" not in part
    assert (folder / "out/summary.json").read_bytes() == before


def test_other_options_ingest_all_spans_again(folder, second):
    part = _run(folder, "--set", "ingest.seed=1", "--to", "SpanResolver")
    assert _ran(part) == ["ImageExampleGen 1", "ImageExampleGen"]
    assert part["spans"] == [1, 2]
    back = _run(folder, "--to", "ImageTransform")
    assert _ran(back) == []  # The resolver finds the data sets of these options again.
    assert back["paths"]["transform_graph"] == second.summary["paths"]["transform_graph"]


def test_a_span_whose_images_are_gone_is_still_used(folder, second):
    _run(folder, "--to", "SpanResolver")
    (folder / "day-1").rename(folder / "gone")
    part = _run(folder, "--to", "ImageTransform")
    (folder / "gone").rename(folder / "day-1")
    assert part["spans"] == [1, 2] and _ran(part) == []
    assert [each["name"] for each in part["components"]].count("ImageExampleGen 1") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "Transform"], "got 'Transform'; did you mean ImageTransform"),
        (["--from", "StatisticsGen", "--to", "Trainer"], "No component lies between"),
        (["--from", "Trainer", "--output", "{tmp}"], "run once without --from"),
        (["--span", "3"], "There is no span 3 of"),
    ],
    ids=str,
)
def test_a_part_that_cannot_run_is_one_message(folder, second, tmp_path, arguments, message):
    with pytest.raises(UserError, match=message):
        _run(folder, *(argument.format(tmp=tmp_path) for argument in arguments))
