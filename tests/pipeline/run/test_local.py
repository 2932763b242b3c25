"""What a run on this machine tells while it runs."""

from types import SimpleNamespace

import pytest

from image_pipeline.components import progress
from image_pipeline.components.dataset.manifest import ListedSplit
from image_pipeline.components.errors import UserError
from image_pipeline.components.progress import Progress
from image_pipeline.config import PipelineConfig
from image_pipeline.run import local
from image_pipeline.run.run_plan import Part, RunPlan, plan_run
from image_pipeline.tfx_metadata import ComponentRun
from tests.drawings import write_folder

pytestmark = pytest.mark.unit


def _run(name, **outputs):
    return ComponentRun(name, 1.0, 1.0, False, outputs)


@pytest.fixture(autouse=True)
def nothing_begun():
    progress.end()
    yield
    progress.end()


def test_evaluation_is_of_the_eval_records_of_every_span(monkeypatch):
    records = {"first": 3, "second": 4}
    splits = {
        folder: {"eval": ListedSplit(records=count, bytes=0, shards=[])}
        for folder, count in records.items()
    }
    monkeypatch.setattr(
        local, "read_manifest", lambda folder: SimpleNamespace(splits=splits[folder])
    )
    runs = [
        _run("ImageExampleGen 1", examples="first"),
        _run("ImageExampleGen", examples="second"),
        _run("Trainer", model="model"),
    ]
    local._begin_evaluation(runs)
    assert progress.look() == Progress("records", 7)


def test_a_run_that_took_its_data_from_an_earlier_one_shows_the_time_only():
    local._begin_evaluation([_run("Trainer", model="model")])
    assert progress.look() is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_vocabulary", "must number the labels by a vocabulary"),
        ("double_image", "must return the image as float32, got float64"),
        ("gray_image", "in the view's size"),
    ],
)
def test_a_preprocessing_fn_that_cannot_be_used_is_refused_before_ingest(tmp_path, name, message):
    path = f"tests.transform.bad_functions.{name}"
    config = PipelineConfig.model_validate({"transform": {"preprocessing_fn": path}})
    images = write_folder(tmp_path / "images", per_class=2)
    plan, _ = plan_run(config, str(images), str(tmp_path / "out"), ())
    started = []
    with pytest.raises(UserError, match=message):
        local.run_locally(plan, started.append, started.append)
    assert not started and list((tmp_path / "out").iterdir()) == []


def _plan(part=Part(), push_dir=None):  # noqa: B008  (frozen)
    return RunPlan(
        config=PipelineConfig(),
        images_dir="photos",
        output_dir="/out",
        fingerprint="",
        beam_args=(),
        part=part,
        push_dir=push_dir,
    )


def test_models_are_pushed_where_they_are_asked_for(monkeypatch):
    given = []

    def compose(*places, **_):
        given.append(places[2:4])
        raise UserError("enough")

    monkeypatch.setattr(local, "create_pipeline", compose)
    for push_dir in (None, "s3://models/digits"):
        with pytest.raises(UserError, match="enough"):
            local.run_locally(_plan(push_dir=push_dir), print, print)
    assert given == [
        ("/out/artifacts", "/out/pushed_model"),
        ("/out/artifacts", "s3://models/digits"),
    ]


def _run_a_part(monkeypatch, part, error=None):
    """Runs a part of three components with a runner that runs none, or raises."""
    names = ("ImageExampleGen", "ImageTransform", "Trainer")
    composed = SimpleNamespace(components=[SimpleNamespace(id=name) for name in names])
    asked = []

    class Runner:
        def run(self, pipeline, options):
            asked.append(options and (options.from_nodes, options.to_nodes))
            if error is not None:
                raise error

    monkeypatch.setattr(local, "create_pipeline", lambda *_, **__: composed)
    monkeypatch.setattr(local, "load_preprocessing_fn", lambda *_: None)
    monkeypatch.setattr(local, "LocalDagRunner", Runner)
    launch = local.launcher.Launcher.launch
    try:
        local.run_locally(_plan(part), print, print)
    finally:
        assert local.launcher.Launcher.launch is launch
        assert asked in ([], [(part.first and [part.first], part.last and [part.last])])


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Part("trainer"), "--from names a component, got 'trainer'; did you mean Trainer"),
        (Part(None, "Transform"), "--to names a component, got 'Transform'; did you mean ImageTr"),
        (Part("xyz"), "got 'xyz'; known: ImageExampleGen, ImageTransform, Trainer"),
        (
            Part("Trainer", "ImageTransform"),
            "between --from Trainer and --to ImageTransform: no data goes",
        ),
    ],
    ids=str,
)
def test_a_part_that_cannot_be_run_is_one_message(monkeypatch, part, message):
    with pytest.raises(UserError, match=message):
        _run_a_part(monkeypatch, part)


def test_only_both_ends_missing_is_the_whole():
    assert Part().is_whole
    assert not Part("Trainer").is_whole and not Part(None, "Trainer").is_whole


def test_tfxs_lack_of_an_earlier_run_is_explained(monkeypatch):
    with pytest.raises(UserError, match="--from Trainer takes what comes before it from the lat"):
        _run_a_part(monkeypatch, Part("Trainer"), LookupError("No previous run"))
    for part, other in (
        (Part("Trainer"), ValueError("other")),
        (Part(None, "Trainer"), LookupError("other")),
    ):
        with pytest.raises(type(other), match="other"):
            _run_a_part(monkeypatch, part, other)
