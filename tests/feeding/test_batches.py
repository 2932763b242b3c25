"""Batches of arrays: exact order, no TensorFlow, resumed, shared, pickled, and asked backwards.

That their pixels and labels are `input_fn`'s is in `tests/contracts/test_fed_labels.py`.
"""

import json
import multiprocessing
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from image_pipeline import api
from image_pipeline.components.dataset.index import read_index, read_table
from image_pipeline.components.errors import UserError
from tests.drawings import write_folder
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam

VIEW = {"height_px": 12, "width_px": 16}
STEPS = ["random_resized_crop", "flip_horizontal"]
BLOCKED = """
import importlib.abc, json, sys, zlib
class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("tensorflow", "keras", "apache_beam", "tfx"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocked())
from image_pipeline.api import batches
options = json.loads(sys.argv[2])
print([zlib.crc32(batch["image"].tobytes()) for batch in batches(sys.argv[1], **options)])
"""


@pytest.fixture(scope="module")
def data(data_set):
    return str(data_set)


def opened(data, split="train", **options):
    return api.batches(data, split, view=VIEW, **{"batch_size": 4, "augment": STEPS} | options)


def read(batches):
    return [(batch["image"].tobytes(), batch["label"].tolist()) for batch in batches]


def test_without_tensorflow_the_same_pixels(data):
    import zlib

    options = {"view": VIEW, "augment": STEPS, "batch_size": 4, "seed": 5}
    found = subprocess.run(
        [sys.executable, "-c", BLOCKED, data, json.dumps(options)],
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = api.input_fn(data, **options)
    assert json.loads(found.stdout) == [zlib.crc32(images.numpy()) for images, _ in wanted]


@pytest.mark.parametrize("steps", [0, 1, 5, 7, 8])
def test_a_state_goes_on_where_it_was(data, steps):
    whole = read(opened(data, epochs=3, seed=2))
    batches = opened(data, epochs=3, seed=2)
    iterator = iter(batches)
    first = [next(iterator) for _ in range(steps)]
    state = batches.state_dict()
    per_epoch = batches.steps_per_epoch
    assert state == {"seed": 2, "epoch": steps // per_epoch, "step": steps % per_epoch}
    again = opened(data, epochs=3 - steps // per_epoch, seed=2)
    again.load_state_dict(json.loads(json.dumps(state)))
    assert read(first) + read(again) == whole


def test_iterations_are_epoch_after_epoch_and_evaluation_is_the_same(data):
    batches = opened(data)
    epochs = [read(batches) for _ in range(3)]
    assert [*epochs[0], *epochs[1], *epochs[2]] == read(opened(data, epochs=3))
    assert epochs[0] != epochs[1]
    batches.go_to(1)
    assert read(batches) == epochs[1]
    evaluation = opened(data, "eval")
    assert read(evaluation) == read(evaluation)


def test_a_loader_s_processes_read_by_step(data):
    """As PyTorch's `DataLoader` does: `len`, numbers, in processes that were spawned."""
    batches = opened(data, seed=4)
    batches.go_to(2)
    expected = read(opened(data, seed=4, first_epoch=2))
    assert len(batches) == len(expected)
    assert read(batches[step] for step in reversed(range(len(batches)))) == expected[::-1]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, context) as processes:
        assert read(processes.map(batches.__getitem__, range(len(batches)))) == expected
    with pytest.raises(IndexError, match=f"the steps 0 to {len(batches) - 1}, got {len(batches)}"):
        batches[len(batches)]


@pytest.mark.parametrize("hold_decoded", [True, False])
def test_a_fork_reads_after_its_parent_has_read(data, hold_decoded):
    """As a `DataLoader`'s processes where the batches were looked at before: no thread is there."""
    batches = opened(data, seed=4, hold_decoded=hold_decoded)
    expected = read(batches)
    batches.go_to(0)
    iterator = iter(batches)
    next(iterator)
    with multiprocessing.get_context("fork").Pool(2) as processes:
        found = processes.map_async(batches.__getitem__, range(len(batches))).get(60)
        assert read(found) == expected
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=lambda: theirs.send(_error_of(iterator)), daemon=True)
    process.start()
    assert ours.poll(60)
    assert "an iteration cannot go on in a fork of its process; iterate again" in ours.recv()
    process.join(60)
    assert process.exitcode == 0
    assert read(iterator) == expected[1:]


def _error_of(iterator):
    try:
        next(iterator)
    except UserError as error:
        return str(error)


@pytest.mark.parametrize("first", [0, 3])
def test_checksums_are_verified_in_the_first_epoch_that_is_read(damaged, first):
    """Of a file whose pixels can still be read, wherever a training goes on."""
    folder = damaged[0].rsplit("/", 2)[0]
    batches = opened(folder, verify="first_epoch", bad_records="skip", hold_decoded=False)
    batches.go_to(first)
    read(batches)
    assert batches._reader.skipped == 1
    read(batches)
    assert batches._reader.skipped == 1


def test_workers_share_each_batch(data):
    whole = list(opened(data, remainder="pad"))
    shares = [list(opened(data, remainder="pad", worker=n, workers=2)) for n in (0, 1)]
    for batch, *parts in zip(whole, *shares, strict=True):
        joined = np.concatenate([part["image"] for part in parts])
        np.testing.assert_array_equal(joined, batch["image"])


def test_keys_are_of_one_view_of_the_run_only(data):
    keys = np.concatenate([batch["key"] for batch in opened(data, epochs=4, balance="uniform")])
    assert keys.dtype == np.int64
    assert len(np.unique(keys)) == len(keys)


@pytest.mark.parametrize("options", [{}, {"remainder": "drop"}, {"balance": "uniform"}], ids=str)
def test_where_an_image_is_fed_is_where_it_comes(data, train_shards, options):
    batches = opened(data, seed=6, augment=[], **options)
    index, sources = read_index(train_shards), read_table(train_shards, ["source", "record_id"])
    rows = [
        (epoch, step, place, row)
        for epoch in (0, 1, 2)
        for step in range(len(batches))
        for place, row in enumerate(batches._reader.draw(epoch, step)["row"].tolist())
    ]
    for row in range(len(index)):
        expected = [(epoch, step, place) for epoch, step, place, own in rows if own == row]
        for column in sources.column_names:
            found = batches.where(sources[column][row].as_py(), range(3))
            assert [(each.epoch, each.step, each.place) for each in found] == expected
    with pytest.raises(UserError, match=r"there is no image 'cow.png' in this split"):
        batches.where("cow.png")


def test_pixels_are_normalised_as_by_the_graph(data, tmp_path):
    graph = str(tmp_path / "graph")
    api.analyze(data, graph, view=VIEW)
    options = {"augment": STEPS, "batch_size": 4}
    arrays = api.batches(data, "train", graph, **options)
    assert arrays.mean.shape == arrays.std.shape == (3,)
    tensors = api.input_fn(data, "train", graph, **options)
    for batch, (images, labels) in zip(arrays, tensors, strict=True):
        np.testing.assert_array_equal(arrays.normalize(batch["image"]), images)
        np.testing.assert_array_equal(batch["label"], labels)
    with pytest.raises(UserError, match="only the preprocessing_fn standardize has a mean"):
        opened(data).normalize(batch["image"])


def test_a_graph_of_other_classes_is_refused(data, tmp_path):
    """As by `input_fn`: they would be fed as -1."""
    ingest(write_folder(tmp_path / "images", ("ant", "bee"), 15), tmp_path / "data")
    api.analyze(str(tmp_path / "data"), str(tmp_path / "graph"), view=VIEW)
    for reader in (api.batches, api.input_fn):
        with pytest.raises(UserError, match=r"does not know classes of .*: 'cat', 'dog' .* as -1"):
            reader(data, "train", str(tmp_path / "graph"), batch_size=4)


def test_classes_that_a_function_renames_are_refused(data, tmp_path):
    graph = str(tmp_path / "graph")
    function = "tests.feeding.renamed.in_capitals"
    api.analyze(data, graph, view=VIEW, preprocessing_fn=function)
    with pytest.raises(UserError, match=r"only TensorFlow knows the ids that .* gives, since it"):
        api.batches(data, "train", graph)


def test_several_data_sets_are_read_together(data, tmp_path):
    shutil.copytree(data, tmp_path / "other")
    both = opened([data, str(tmp_path / "other")])
    assert len(both) * 2 > sum(1 for _ in both) == len(both) > len(opened(data))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"augment": ["color_jitter"]}, "feeding.augment has color_jitter; take it behind"),
        ({"labels": "one_hot"}, "batches give a class as its id"),
        ({"split": "tests"}, "split must be one of those in .*, got 'tests'; known: train, eval"),
        ({"first_step": 99}, "first_step must be less than"),
        ({"first_step": -1}, "first_step must be a whole number of at least 0, got -1"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1, got 0"),
        ({"seed": 2**70}, "seed, epoch and step must be whole numbers, got 1180591620717411303424"),
    ],
    ids=str,
)
def test_what_cannot_be_read_so_is_refused(data, options, message):
    with pytest.raises(UserError, match=message):
        opened(data, **options)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"seed": 1, "epoch": 0, "step": 0}, "the state is of the seed 1, .* give seed=1"),
        ({"seed": 0, "epoch": -1, "step": 0}, "a state is what state_dict gives"),
        ({"epoch": 0}, "a state is what state_dict gives"),
        ({"seed": 0, "epoch": 0, "step": 99}, "first_step must be less than"),
    ],
    ids=str,
)
def test_other_states_are_refused(data, state, message):
    batches = opened(data)
    if "seed" not in state:
        state = {**state, "place": 3}
    with pytest.raises(UserError, match=message):
        batches.load_state_dict(state)
    assert batches.state_dict() == {"seed": 0, "epoch": 0, "step": 0}


def test_other_epochs_and_no_data_sets_are_refused(data):
    batches = opened(data)
    batches.go_to(np.int64(2))
    assert batches.state_dict() == {"seed": 0, "epoch": 2, "step": 0}
    for refused in (-1, "1"):
        with pytest.raises(UserError, match=f"must be whole numbers, got 0, {refused!r} and 0"):
            batches.go_to(refused)
        with pytest.raises(UserError, match=f"must be whole numbers, got 0, {refused!r} and 0"):
            batches.where(read_table(batches._paths, ["source"])["source"][0].as_py(), [refused])
    with pytest.raises(UserError, match="a state is what state_dict gives, got None"):
        batches.load_state_dict(None)
    with pytest.raises(UserError, match="data_dir must name a data set, or several, got none"):
        opened([])


def test_a_data_set_that_was_replaced_is_not_taken_for_the_one_before(data, tmp_path):
    shutil.copytree(data, tmp_path / "data")
    pickled = pickle.dumps(opened(str(tmp_path / "data")))
    assert len(pickle.loads(pickled)) == len(opened(data))
    shutil.rmtree(tmp_path / "data")
    ingest(write_folder(tmp_path / "images", per_class=9), tmp_path / "data")
    with pytest.raises(UserError, match=r"was replaced since these batches were opened; open them"):
        pickle.loads(pickled)


def test_a_damaged_record_is_named(damaged):
    folder = damaged[0].rsplit("/", 2)[0]
    with pytest.raises(UserError, match=r"record 2 of .* is damaged"):
        list(opened(folder))
    sizes = [len(batch["image"]) for batch in opened(folder, bad_records="skip")]
    assert sizes == [len(batch["image"]) for batch in opened(folder, verify="none")]
