"""What a model was fed: the certificate beside it names the batches that were logged."""

import dataclasses
import functools
import json
import shutil

import numpy as np
import pytest

import image_pipeline
from image_pipeline import api
from image_pipeline.cli import call
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.certificate import FedBatches, certify, read_certificate
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.records import match_files
from image_pipeline.components.json_text import to_sealed_json
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.views.fast import view_pixels
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.named_model import find_certificate
from image_pipeline.run_folder import DATA_SETS
from tests import graphs
from tests.drawings import draw, encode_png, write_folder
from tests.ingest_runs import ingest
from tests.training.logged import LOGGED, Interrupt, build_by_recipe, check_all, make_namer
from tests.training.logged import train as train_logged
from tests.training.models import build_linear_model

pytestmark = pytest.mark.beam


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A data set of 26 images and its transform graph."""
    folder = tmp_path_factory.mktemp("certificate")
    write_folder(folder / "images", per_class=13)
    ingest(folder / "images", folder / "data")
    graph = str(folder / "graph")
    image_pipeline.analyze(str(folder / "data"), graph, view={"height_px": 8, "width_px": 8})
    return folder


@pytest.fixture(scope="module")
def name_images(made):
    return make_namer([made / "data"], made / "graph")


@pytest.fixture
def train(made, tmp_path):
    """Trains a model in a folder; gives each batch that it is trained on."""

    def run(name="model", **options):
        return train_logged([made / "data"], made / "graph", tmp_path / name, **options)

    return run


def read_fed(made, folder):
    return FedBatches(find_certificate(str(folder)), [str(made / "data")])


@pytest.mark.parametrize(
    "feeding",
    [
        {},
        {"remainder": "drop"},
        {"remainder": "pad", "balance": {"cat": 3, "dog": 1}},
        {"many_views": {"mirror": True}, "select": {"where": 'label == "cat"'}},
        {"shuffle": "shards", "shards_at_once": 1},
    ],
)
def test_each_batch_that_was_logged_is_named(made, name_images, train, tmp_path, feeding):
    logged = list(map(name_images, train(feeding=feeding)))
    check_all([made / "data"], tmp_path / "model", logged)


def test_a_training_that_was_stopped_twice_has_one_part(made, name_images, train, tmp_path):
    kept = {"checkpoint_dir": str(tmp_path / "kept"), "checkpoint_steps": 1}
    logged = []
    for stop_after in (2, 4):
        with pytest.raises(Interrupt):
            train(stop_after=stop_after, **kept)
        logged += map(name_images, LOGGED)
        (checkpoint,) = sorted((tmp_path / "kept").glob("*/*/position.json"))[-1:]
        check_all([made / "data"], checkpoint.parent, logged)
    logged += map(name_images, train(**kept))
    check_all([made / "data"], tmp_path / "model", logged)
    (part,) = find_certificate(str(tmp_path / "model")).parts
    assert (part.first, part.end, part.steps) == ((0, 0), (2, 0), len(logged))


@pytest.mark.parametrize(
    "recipe",
    [
        {"steps_per_execution": 3, "use_ema": True},
        {"fine_tuning": {"head_epochs": 1, "learning_rate": 0.01}},
    ],
)
def test_several_steps_a_call_averages_and_phases(made, name_images, train, tmp_path, recipe):
    """What comes after a checkpoint is trained, and counts, once more."""
    built = {"model": "tests.training.logged.build_by_recipe", **recipe}
    if "fine_tuning" in recipe:
        built["weights"] = str(tmp_path / "theirs.weights.h5")
        build_by_recipe((8, 8, 3), 2, TrainingOptions()).save_weights(built["weights"])
    kept = {"checkpoint_dir": str(tmp_path / "kept"), "checkpoint_steps": 1}
    logged = []
    for stop_after in (1, 2):
        with pytest.raises(Interrupt):
            train(stop_after=stop_after, **kept, **built)
        logged += map(name_images, LOGGED)
        (checkpoint,) = sorted((tmp_path / "kept").glob("*/*/position.json"))[-1:]
        (part,) = find_certificate(str(checkpoint.parent)).parts
        logged = logged[: part.steps]
        check_all([made / "data"], checkpoint.parent, logged)
    logged += map(name_images, train(**kept, **built))
    check_all([made / "data"], tmp_path / "model", logged)
    started_from = find_certificate(str(tmp_path / "model")).started_from
    assert started_from == (f"training.weights={built['weights']}" if "weights" in built else None)


@pytest.mark.parametrize("feeding", [{}, {"mix": (3, 1)}])
def test_several_data_sets_wherever_they_are(tmp_path, feeding):
    """Options that name their folders do not bind them there."""
    for name, numbers in (("a", range(13)), ("b", range(13, 26))):
        images = write_folder(tmp_path / "images" / name, per_class=26)
        for path in images.glob("*/*.png"):
            if int(path.stem) not in numbers:
                path.unlink()
        ingest(images, tmp_path / "sets" / name, shards=3)
    data_dirs = [tmp_path / "sets" / name for name in "ab"]
    graph = graphs.write_graph(tmp_path / "graph")
    if feeding:
        feeding = {"mix": dict(zip(map(str, data_dirs), feeding["mix"], strict=True))}
    batches = train_logged(data_dirs, graph, tmp_path / "model", feeding=feeding)
    logged = [*map(make_namer(data_dirs, graph), batches)]
    check_all(data_dirs, tmp_path / "model", logged)
    shutil.move(tmp_path / "sets", tmp_path / "moved")
    moved = [f"{tmp_path / 'moved' / name}/" for name in "ba"]
    check_all(moved, tmp_path / "model", logged)


def test_some_shards_of_a_split_are_not_it(made):
    paths = match_files([str(made / "data" / "Split-train" / "*")])
    shared = ViewOptions(height_px=8, width_px=8), FeedingOptions(), 5
    assert certify(paths, *shared, 1).parts[0].steps_per_epoch == 1
    assert certify(paths[1:], *shared, 1) is None


def test_what_goes_on_from_another_training_has_that_before(made, name_images, train, tmp_path):
    """From its checkpoint, with other options; from its weights."""
    logged = list(map(name_images, train("first", checkpoint_dir=str(tmp_path / "kept"))))
    checkpoint = sorted((tmp_path / "kept").glob("*/*/position.json"))[-1].parent
    more = {"resume_from": str(checkpoint), "epochs": 3}
    went_on = [*logged, *map(name_images, train("second", feeding={"batch_size": 6}, **more))]
    check_all([made / "data"], tmp_path / "second", went_on)
    parts = find_certificate(str(tmp_path / "second")).parts
    assert [(part.feeding["batch_size"], part.end) for part in parts] == [(4, (2, 0)), (6, (3, 0))]
    weights = {"weights": str(tmp_path / "second"), "epochs": 1, "seed": 6}
    went_on += map(name_images, train("third", **weights))
    check_all([made / "data"], tmp_path / "third", went_on)
    assert find_certificate(str(tmp_path / "third")).started_from is None


def test_of_the_best_epoch_only_what_came_before_it(made, name_images, train, tmp_path):
    """A learning rate that spoils the weights: the first epoch's are the best."""
    stopping = {"early_stopping_patience": 1, "early_stopping_monitor": "val_loss"}
    logged = list(map(name_images, train(epochs=4, learning_rate=50.0, **stopping)))
    end = find_certificate(str(tmp_path / "model")).parts[0].end
    assert end[0] < len(logged) / find_certificate(str(tmp_path / "model")).parts[0].steps_per_epoch
    check_all([made / "data"], tmp_path / "model", logged[: end[0] * len(logged) // 2])


def test_the_best_epoch_may_be_of_the_training_before(made, name_images, train, tmp_path):
    """What goes on from a checkpoint and is no better exports weights that it was given."""
    stopping = {"early_stopping_patience": 9, "early_stopping_monitor": "val_loss"}
    bad = {**stopping, "learning_rate": 50.0, "checkpoint_dir": str(tmp_path / "kept")}
    logged = list(map(name_images, train("first", epochs=3, **bad)))
    first = find_certificate(str(tmp_path / "first")).parts
    assert first[0].end == (1, 0)
    checkpoint = sorted((tmp_path / "kept").glob("*/*/position.json"))[-1].parent
    more = {"resume_from": str(checkpoint), "epochs": 4, "feeding": {"batch_size": 6}}
    train("second", **{**bad, **more})
    assert find_certificate(str(tmp_path / "second")).parts == first
    check_all([made / "data"], tmp_path / "second", logged[: len(logged) // 3])


def test_weights_of_others_are_named(made, train, tmp_path):
    path = str(tmp_path / "theirs.weights.h5")
    build_linear_model((8, 8, 3), 2, TrainingOptions()).save_weights(path)
    train(weights=path, epochs=1)
    assert find_certificate(str(tmp_path / "model")).started_from == f"training.weights={path}"


def test_a_checkpoint_of_a_version_without_certificates(made, name_images, train, tmp_path):
    """What its training was fed is known by its options, but not what it began with."""
    path = str(tmp_path / "theirs.weights.h5")
    build_linear_model((8, 8, 3), 2, TrainingOptions()).save_weights(path)
    kept = {"checkpoint_dir": str(tmp_path / "kept"), "checkpoint_steps": 1, "weights": path}
    with pytest.raises(Interrupt):
        train(stop_after=3, **kept)
    logged = list(map(name_images, LOGGED))
    *_, old = sorted((tmp_path / "kept").glob("*/*/fed.json"))
    old.write_bytes(b"{")
    with pytest.raises(UserError, match=r"fed.json' is damaged .*; restore .*, or delete it"):
        train(**kept)
    for old in (tmp_path / "kept").glob("*/*/fed.json"):
        old.unlink()
        with pytest.raises(UserError, match=rf"'{old.parent}' has no fed.json: it was trained by"):
            find_certificate(str(old.parent))
    logged += map(name_images, train(**kept))
    check_all([made / "data"], tmp_path / "model", logged)
    assert find_certificate(str(tmp_path / "model")).started_from == f"training.weights={path}"


def test_windows_are_those_of_the_batches(made, train, tmp_path):
    """Of random crops, without which the same view would be that of evaluation."""
    augment = ["random_resized_crop"]
    train(feeding={"augment": augment, "many_views": {"crops": 2, "mirror": True}}, epochs=1)
    fed = read_fed(made, tmp_path / "model")
    sources = api.random_access(str(made / "data"), "train", columns=["image/filename"])
    stored = {each["image/filename"].decode(): each["image"] for each in sources}
    batches = image_pipeline.batches(
        *(str(made / "data"), "train"),
        view={"height_px": 8, "width_px": 8},
        **{"seed": 5, "batch_size": 4, "augment": augment},
        many_views={"crops": 2, "mirror": True},
    )
    view = ViewOptions(height_px=8, width_px=8)
    for step, batch in enumerate(batches):
        for each, pixels in zip(fed.list_batch(step), batch["image"], strict=True):
            expected = np.zeros((8, 8, 3), np.uint8)
            view_pixels(stored[each.source], np.array(each.window), view, expected)
            if each.mirrored:
                expected = expected[:, ::-1]
            np.testing.assert_array_equal(pixels, expected)


def test_the_command(made, train, tmp_path, capsys):
    train(epochs=1)
    model, data = str(tmp_path / "model"), ["--data", str(made / "data")]
    capsys.readouterr()
    assert call(["seen", model]) == 0
    certificate = find_certificate(model)
    (part,) = certificate.parts
    checksum, split = part.data[0]
    assert capsys.readouterr().out == (
        f"{part.steps} batches of 4, from epoch 0 step 0 up to epoch 1 step 0: {split} of "
        f"{checksum[:16]}…, seed 5\n"
    )
    assert call(["seen", model, "--step", "1", *data]) == 0
    first = read_fed(made, model).list_batch(1)[0]
    assert f"{first.source}  {first.label}" in capsys.readouterr().out
    assert call(["seen", model, "--image", first.source, "--json", *data]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["started_from"] is None
    assert told["seen"] == [json.loads(json.dumps(dataclasses.asdict(first)))]
    assert call(["seen", model, "--image", "no.png", *data]) == 1
    assert "no image 'no.png' is in what the model was fed" in capsys.readouterr().err
    assert call(["seen", model, "--image", first.source]) == 1
    assert f"manifest has the checksum {checksum}" in capsys.readouterr().err
    assert call(["seen", model, "--image", "x", "--step", "1"]) == 2
    # A folder that is none is named, and of a run's folder its data sets are taken.
    capsys.readouterr()
    assert call(["seen", model, "--step", "1", "--data", str(made / "images")]) == 1
    assert f"Error: {str(made / 'images')!r} " in capsys.readouterr().err
    (tmp_path / "run" / DATA_SETS).mkdir(parents=True)
    (tmp_path / "run" / DATA_SETS / "1").symlink_to(made / "data")
    assert call(["seen", model, "--step", "1", "--data", str(tmp_path / "run")]) == 0
    assert f"{first.source}  {first.label}" in capsys.readouterr().out


def test_what_is_damaged_or_missing_is_named(made, train, tmp_path):
    train(epochs=1)
    path = tmp_path / "model" / "assets.extra" / "fed.json"
    path.write_bytes(path.read_bytes().replace(b'"seed": 5', b'"seed": 6'))
    with pytest.raises(UserError, match=r"fed.json' is damaged"):
        find_certificate(str(tmp_path / "model"))
    content = json.loads(path.read_bytes())
    (part,) = content["parts"]
    less = {key: value for key, value in part.items() if key != "view"}
    for other, why in (
        ([], r"parts: Value should have at least 1 item"),
        (None, r"parts: Input should be an instance of Sequence"),
        ([less], r"parts.0.view: Field required"),
        ([part | {"data": []}], r"parts.0.data: .*should have at least 1 item"),
        ([part | {"seed": 2**63}], r"parts.0.seed: Input should be less than 9223372036854775808"),
        ([part | {"seed": "five"}], r"parts.0.seed: Input should be a valid integer"),
        ([part | {"steps_per_epoch": 0}], r"parts.0.steps_per_epoch: .* greater than 0"),
        ([part | {"first": [-1, 0]}], r"parts.0.first.0: Input should be greater than or equal"),
        ([part, part | {"first": [2, 0]}], r"parts.1: first must not be after end, got \(2, 0\)"),
        ([part | {"end": [0, 99]}], r"parts.0: first and end must .* got \(0, 0\) and \(0, 99\)"),
        ([part | {"end": [2**31, 0]}], r"parts.0: first and end must be below epoch 2,147,483,648"),
        ([part | {"feeding": {}}], r"parts.0: feeding.batch_size must .* got None"),
        ([part | {"feeding": {"batch_size": "4"}}], r"parts.0: feeding.batch_size must .* got '4'"),
        (
            [part | {"feeding": {"batch_size": 4, "mix": {"x": 1}}}],
            r"parts.0: feeding.mix",
        ),
    ):
        path.write_text(to_sealed_json({"parts": other, "started_from": None}))
        with pytest.raises(UserError, match=rf"fed.json' is damaged \(its {why}.*; restore it"):
            find_certificate(str(tmp_path / "model"))
    # What other versions may know is looked at when a batch is to be named.
    path.write_text(to_sealed_json({"parts": [part | {"feeding": {"batch_size": 4, "new": 1}}]}))
    with pytest.raises(UserError, match=r"not know, so its batches .* \(its new: Extra inputs are"):
        read_fed(made, tmp_path / "model").list_batch(0)
    nowhere = [[part["data"][0][0], "nowhere"]]
    path.write_text(to_sealed_json({"parts": [part | {"data": nowhere}]}))
    with pytest.raises(UserError, match=r"split must be one of those in .*, got 'nowhere'"):
        read_fed(made, tmp_path / "model").list_batch(0)
    path.unlink()
    with pytest.raises(UserError, match=r"assets.extra' has no fed.json"):
        find_certificate(str(tmp_path / "model"))


def test_a_data_set_that_is_gone_hinders_no_later_part(made, train, tmp_path):
    train(epochs=1)
    certificate = find_certificate(str(tmp_path / "model"))
    (part,) = certificate.parts
    gone = dataclasses.replace(part, data=[("0" * 64, "train")])
    both = dataclasses.replace(certificate, parts=[gone, part])
    fed, alone = (FedBatches(each, [str(made / "data")]) for each in (both, certificate))
    for step in range(part.steps):
        expected = [dataclasses.replace(each, part=1) for each in alone.list_batch(step)]
        assert fed.list_batch(part.steps + step) == expected
    for ask in (lambda: fed.list_batch(0), lambda: fed.find(expected[0].source)):
        with pytest.raises(UserError, match=r"checksum 0{64}, but that is not in .*--data. Ingest"):
            ask()


def test_another_order_is_not_named_wrongly(made, train, tmp_path):
    train(epochs=1)
    certificate = read_certificate(str(tmp_path / "model" / "assets.extra"))
    part = dataclasses.replace(certificate.parts[0], steps_per_epoch=99)
    with pytest.raises(UserError, match="an epoch had 99 batches when the model was trained"):
        FedBatches(dataclasses.replace(certificate, parts=[part]), [str(made / "data")]).list_batch(
            0
        )


def test_a_data_set_that_was_updated_since_names_what_each_of_its_versions_fed(tmp_path, capsys):
    """A training that was stopped, one that goes on from it, and one from the weights of that."""
    images, data = write_folder(tmp_path / "images", per_class=9), tmp_path / "data"
    options = {"shards": 2, "splits": {"train": 0.7, "eval": 0.3}, "prepare": {"encoding": "png"}}
    kept = {"checkpoint_dir": str(tmp_path / "kept"), "checkpoint_steps": 1}

    def update(number):
        """Changes the images and the data set; returns what trains on it and what names that."""
        (images / "cat" / f"new{number}.png").write_bytes(encode_png(draw(70 + number)))
        (images / "dog" / f"00{number}.png").unlink()
        api.ingest(str(images), str(data), **options)
        graph = str(tmp_path / f"graph{number}")
        image_pipeline.analyze(str(data), graph, view={"height_px": 8, "width_px": 8})
        return functools.partial(train_logged, [data], graph), make_namer([data], graph)

    run, name = update(0)
    with pytest.raises(Interrupt):
        run(tmp_path / "first", stop_after=2, **kept)
    logged = [*map(name, LOGGED)]
    logged += map(name, run(tmp_path / "first", **kept))
    last = str(sorted((tmp_path / "kept").glob("*/*/position.json"))[-1].parent)
    run, name = update(1)
    logged += map(name, run(tmp_path / "second", resume_from=last, epochs=3))
    run, name = update(2)
    third = [*logged, *map(name, run(tmp_path / "third", weights=str(tmp_path / "second")))]
    for folder, expected in (("second", logged), ("third", third)):
        check_all([data], tmp_path / folder, expected)
    checksums = [part.data[0][0] for part in find_certificate(str(tmp_path / "third")).parts]
    assert len({*checksums}) == 3
    # The command says which version each was.
    model, where = str(tmp_path / "third"), ["--data", str(data)]
    told = {
        checksum: f"version {number} of {data}, {ago}"
        for number, checksum, ago in zip(
            *((1, 2, 3), checksums, ("2 updates ago", "1 update ago", "the present one")),
            strict=True,
        )
    }
    capsys.readouterr()
    assert call(["seen", model, *where]) == 0
    lines = capsys.readouterr().out.splitlines()
    ends = [f": train of {each[:16]}… ({told[each]}), seed 5" for each in checksums]
    assert [line[line.index(": ") :] for line in lines] == ends
    assert call(["seen", model, "--step", "0", "--json", *where]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["source"] for each in found["seen"]] == third[0]
    assert found["versions"] == told
    assert call(["seen", model, "--step", "0", *where]) == 0
    assert f"The model was fed {told[checksums[0]]}." in capsys.readouterr().out
    for number, checksum in enumerate(checksums, 1):
        assert call(["seen", model, "--data", f"{data}@{number}"]) == 0
        assert f": train of {checksum[:16]}… ({told[checksum]}), seed" in capsys.readouterr().out
    assert call(["seen", model, "--step", "0", "--data", f"{data}@1"]) == 0
    said = capsys.readouterr().out
    assert f"The model was fed {told[checksums[0]]}." in said and third[0][0] in said
    assert call(["seen", model, "--step", "0", "--data", f"{data}@2"]) == 1
    assert f"fed {told[checksums[0]]}, and not the version that is" in capsys.readouterr().err
    # What is not kept is named; the others are found as before.
    api.ingest(str(images), str(data), **options, versions=1)
    assert call(["seen", model, "--step", "0", *where]) == 1
    assert " ".join(capsys.readouterr().err.split()) == (
        f"Error: the model was fed version 1 of {data}, 2 updates ago, whose index is not kept any "
        "more; name a copy of that version by --data. More are kept of later ones by "
        f"`image-pipeline update {data} --versions N`."
    )
    batches = FedBatches(find_certificate(model), [str(data)])
    steps = find_certificate(model).parts[0].steps
    assert [each.source for each in batches.list_batch(steps)] == third[steps]
