"""What a run is to do, of a few small folders."""

import dataclasses
import weakref

import pytest
from click.testing import CliRunner

from image_pipeline.cli import cli
from image_pipeline.commands import run
from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.meaning import listing as listing_module
from image_pipeline.components.meaning.listing import list_images, take
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.config import load_config
from image_pipeline.init.choose_steps import choose_steps, complete_steps
from image_pipeline.run import run_plan
from image_pipeline.run.engine import choose_engine
from image_pipeline.run.run_plan import Part, RunPlan, find_images, plan_run, survey_source
from tests.drawings import draw_texts, write_folder, write_photos, write_scenes
from tests.sounds import encode, make_tone

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Days 3 and 5, each with two classes."""
    folder = tmp_path_factory.mktemp("plan")
    for day, count in ((3, 2), (5, 3)):
        write_folder(folder / f"day-{day}", ["cat", "dog"], per_class=count)
    return folder


def test_a_folder_is_run_whole(photos, tmp_path):
    plan, survey = plan_run(load_config(None), str(photos / "day-5"), str(tmp_path / "out"), ())
    assert (survey.found, survey.classes) == (6, {"cat": 3, "dog": 3})
    assert plan == RunPlan(
        config=load_config(None, ["feeding.augment=[flip_horizontal]"]),
        images_dir=str(photos / "day-5"),
        output_dir=str(tmp_path / "out"),
        fingerprint=survey.fingerprint,
        beam_args=tuple(choose_engine(())),
    )
    assert (plan.span, plan.earlier, plan.part) == (None, {}, Part())


def _make(kind, folder):
    if kind == "masks":
        write_scenes(folder, 4)
    elif kind == "sounds":
        for number in range(4):
            path = folder / "ab"[number % 2] / f"{number}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode(make_tone(300 + number, 0.2, 8_000), 8_000))
    else:
        write_photos(folder, 4)
    if kind == "boxes":
        rows = [f"{'ab'[n % 2]}/{n}.png,cat,1,1,9,9" for n in range(4)]
        (folder / "boxes.csv").write_text("\n".join(["path,label,xmin,ymin,xmax,ymax", *rows]))
        return str(folder / "boxes.csv")
    return str(folder)


@pytest.mark.parametrize(
    ("kind", "chosen"),
    [
        ("photos", [{"op": "random_resized_crop", "area": [0.5, 1]}]),
        ("boxes", [{"op": "random_resized_crop", "area": [0.3, 1]}]),
        ("masks", []),
        ("sounds", None),
    ],
)
def test_random_steps_that_nobody_names_are_those_that_init_writes(tmp_path, kind, chosen):
    images = _make(kind, tmp_path / "images")
    path = str(tmp_path / "c.yaml")
    done = CliRunner().invoke(cli, ["init", images, "--yes", "--output", path])
    assert done.exit_code == 0, done.output
    written = load_config(path)
    steps = ["random_erasing"] if chosen is None else [*chosen, "flip_horizontal"]
    assert written.feeding.augment == FeedingOptions(augment=steps).augment
    unnamed = written.feeding.model_copy(update={"augment": None})
    asked = written.model_copy(update={"feeding": unnamed})
    plan, survey = plan_run(asked, images, str(tmp_path / "out"), ())
    assert plan.config.feeding == written.feeding
    (said,) = [each for each in survey.noticed if each.startswith("feeding.augment names no")]
    assert ", ".join(step.op for step in written.feeding.steps) in said


@pytest.mark.parametrize(
    ("shorter_px", "images", "epochs", "moved"),
    [(63, 5_000, 20, True), (63, 4_999, 20, False), (63, 5_000, 19, False), (64, 5_000, 20, False)],
)
def test_small_images_are_moved_if_there_are_many_that_are_seen_often(
    shorter_px, images, epochs, moved
):
    steps, _ = choose_steps("classes", shorter_px, images=images, epochs=epochs)
    assert ("pad_and_crop" in steps) is moved
    assert steps[-1] == "flip_horizontal"


def test_what_is_another_class_in_a_mirror_is_not_mirrored(tmp_path):
    draw_texts(tmp_path / "letters", {"b": "b", "d": "d", "p": "p", "q": "q"})
    plan, survey = plan_run(load_config(None), str(tmp_path / "letters"), str(tmp_path / "out"), ())
    assert plan.config.feeding.steps == ()
    (said,) = [each for each in survey.noticed if each.startswith("feeding.augment names no")]
    assert ": none; mirrored images look like other classes (of 80, " in said
    far = complete_steps(
        load_config(None), dataclasses.replace(survey, images="s3://letters", noticed=())
    )
    assert [step.op for step in far[0].feeding.augment] == ["flip_horizontal"]
    draw_texts(tmp_path / "signs", {"o": "o", "i": "I", "minus": "-", "eight": "8"})
    plan, _ = plan_run(load_config(None), str(tmp_path / "signs"), str(tmp_path / "out"), ())
    assert [step.op for step in plan.config.feeding.augment] == ["flip_horizontal"]


def test_random_steps_that_are_named_stay(photos, tmp_path):
    config = load_config(None, ["feeding.augment=[]"])
    plan, survey = plan_run(config, str(photos / "day-5"), str(tmp_path), ())
    assert (plan.config.feeding, survey.noticed) == (config.feeding, ())


def test_of_a_pattern_the_latest_is_run_after_those_of_its_window(photos, tmp_path):
    config = load_config(None, ["spans.window=all"])
    plan, survey = plan_run(config, f"{photos}/day-{{SPAN}}", str(tmp_path), ())
    alone, _ = plan_run(load_config(None), f"{photos}/day-3", str(tmp_path), ())
    assert (survey.found, plan.span) == (10, 5)
    assert plan.earlier == {3: alone.fingerprint}
    assert plan.fingerprint == survey.fingerprint != alone.fingerprint


def test_a_span_a_part_and_beam_flags_are_taken_as_they_are_given(photos, tmp_path):
    flags = ["--direct_running_mode=multi_processing"]
    part = Part("Trainer", None)
    images_dir = f"{photos}/day-{{SPAN}}"
    plan, _ = plan_run(load_config(None), images_dir, str(tmp_path), flags, "3", part)
    assert (plan.span, plan.part) == (3, part)
    assert flags[0] in plan.beam_args


def test_models_are_pushed_into_the_run_s_folder_or_where_they_are_asked_for(
    photos, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    asked = []
    monkeypatch.setattr(files, "check_answers", asked.append)

    def push_to(push_dir):
        plan, _ = plan_run(load_config(None), str(photos / "day-3"), "out", (), push_dir=push_dir)
        return plan.pushed_dir

    assert push_to(None) == f"{tmp_path}/out/pushed_model"
    assert push_to("models") == f"{tmp_path}/models"
    assert push_to("s3://models/digits") == "s3://models/digits"
    assert asked[-1] == "s3://models/digits"


def test_results_have_absolute_paths_and_for_workers_elsewhere_images_too(photos, monkeypatch):
    monkeypatch.chdir(photos.parent)
    flags = ["--runner=PortableRunner", "--job_endpoint=embed"]
    plan, survey = plan_run(load_config(None), f"{photos.name}/day-3", "out", flags)
    assert (plan.images_dir, plan.output_dir) == (f"{photos}/day-3", f"{photos.parent}/out")
    assert take(plan.images_dir, plan.config.ingest, plan.fingerprint).chunks is survey.chunks
    plan, _ = plan_run(load_config(None), f"{photos.name}/day-3", "out", ())
    assert (plan.images_dir, plan.output_dir) == (f"{photos.name}/day-3", f"{photos.parent}/out")


def test_results_lie_in_the_output_folder(photos):
    plan, _ = plan_run(load_config(None), str(photos / "day-3"), f"{photos}-out", ())
    assert plan.folder.artifacts_dir == f"{photos}-out/artifacts"
    assert plan.folder.metadata_path == f"{photos}-out/metadata.db"
    assert plan.folder.pushed_dir == f"{photos}-out/pushed_model"


def test_no_span_of_the_window_may_hold_the_output(photos):
    config = load_config(None, ["spans.window=2"])
    with pytest.raises(UserError, match=r"is inside the images folder .*day-3"):
        plan_run(config, f"{photos}/day-{{SPAN}}", f"{photos}/day-3/out", ())


def test_damaged_metadata_of_earlier_runs_are_told_before_any_work(photos, tmp_path):
    (tmp_path / "metadata.db").write_bytes(b"SQLite format 3\0" + bytes(4000))
    plan, survey = plan_run(load_config(None), str(photos / "day-5"), str(tmp_path), ())
    with pytest.raises(UserError, match=r"The metadata of earlier runs, '.*db', cannot be used"):
        run._run_and_tell(plan, survey, as_json=False, quiet=True)


@pytest.mark.parametrize("images", ["{photos}/none/*.jpg", "{photos}/gone.jpg", "generator:a:b"])
def test_images_to_predict_that_are_not_there_are_refused_at_once(photos, images):
    config = load_config(None, [f"inference.images={images.format(photos=photos)}"])
    with pytest.raises(UserError, match=r"No file matches|There are no files in|is a generator"):
        plan_run(config, str(photos / "day-3"), f"{photos}-out", ())


@pytest.mark.parametrize("name", ["out[1]", "a*b", "why?"])
def test_an_output_that_tfx_would_read_as_a_pattern_is_refused_before_any_work(
    photos, tmp_path, name
):
    with pytest.raises(UserError, match=r"--output must not have \*, \? or \[ in its path"):
        plan_run(load_config(None), str(photos / "day-3"), str(tmp_path / name), ())


@pytest.fixture(scope="module")
def span_photos(tmp_path_factory):
    """Days 3 and 5 with two classes, and day 8 with a third."""
    folder = tmp_path_factory.mktemp("spans")
    for day, classes, count in ((3, ["cat", "dog"], 2), (5, ["cat", "dog"], 3), (8, ["owl"], 4)):
        write_folder(folder / f"day-{day}", classes, per_class=count)
    return folder


def _find(span_photos, span=None, window=1):
    source = find_images(f"{span_photos}/day-{{SPAN}}", span, window)
    return source.span, [folder.span for folder in source.folders]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, (8, [8])),
        ({"window": 2}, (8, [5, 8])),
        ({"window": 9}, (8, [3, 5, 8])),
        ({"window": "all"}, (8, [3, 5, 8])),
        ({"span": "5"}, (5, [5])),
        ({"span": "5", "window": "all"}, (5, [3, 5])),
    ],
    ids=str,
)
def test_the_window_ends_at_the_span_that_is_run(span_photos, arguments, expected):
    assert _find(span_photos, **arguments) == expected


def test_a_folder_is_one_source_without_a_span(span_photos):
    source = find_images(str(span_photos / "day-3"), None, 1)
    folders = [folder.path for folder in source.folders]
    assert (source.span, folders) == (None, [f"{span_photos}/day-3"])


@pytest.mark.parametrize(
    ("span", "window", "message"),
    [("3", 1, "--span 3 needs spans"), (None, 2, "spans.window=2 needs spans")],
)
def test_a_folder_has_no_spans_to_choose_from(span_photos, span, window, message):
    with pytest.raises(UserError, match=f"{message}, but --images .* is one folder; give a patt"):
        find_images(str(span_photos / "day-3"), span, window)


def _survey(pattern, window):
    source = find_images(pattern, None, window)
    return survey_source(source, list_images(source.folders[-1].path, IngestOptions()))


def test_all_folders_are_listed_together_and_each_has_its_fingerprint(span_photos):
    survey, earlier = _survey(f"{span_photos}/day-{{SPAN}}", "all")
    assert survey.found == 14
    assert survey.classes == {"cat": 5, "dog": 5, "owl": 4}
    assert list(earlier) == [3, 5]
    alone, none = _survey(f"{span_photos}/day-8", 1)
    assert (alone.fingerprint, none) == (survey.fingerprint, {})
    assert len({survey.fingerprint, *earlier.values()}) == 3


def test_of_many_folders_some_listings_are_held_at_a_time(span_photos, monkeypatch):
    made, alive = [], []

    def count(*arguments):
        listing = list_images(*arguments)
        made.append(weakref.ref(listing))
        alive.append(sum(each() is not None for each in made))
        return listing

    monkeypatch.setattr(run_plan, "list_images", count)
    monkeypatch.setattr(listing_module, "_MOST_OFFERED", 1)
    monkeypatch.setattr(listing_module, "_offered", {})
    for day in range(20, 29):
        write_folder(span_photos / f"night-{day}", per_class=1)
    survey, earlier = _survey(f"{span_photos}/night-{{SPAN}}", "all")
    assert (survey.found, len(earlier)) == (18, 8)
    assert len(alive) == 8 and max(alive) < 4


def test_an_empty_span_is_an_error(tmp_path):
    (tmp_path / "day-1").mkdir()
    with pytest.raises(UserError, match="day-1' holds no files"):
        _survey(f"{tmp_path}/day-{{SPAN}}", 1)
