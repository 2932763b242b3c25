"""Batches of a data set in a store: requests and bytes, by workers, when resumed, and when kept."""

import numpy as np
import pytest

from image_pipeline import api
from image_pipeline.components import files
from image_pipeline.components.dataset import fetched
from image_pipeline.components.errors import UserError
from image_pipeline.named_model import find_certificate
from tests.training.logged import LOGGED, Interrupt, check_all, make_namer, train

pytestmark = pytest.mark.beam

OPTIONS = {"view": {"height_px": 16, "width_px": 16}, "batch_size": 4, "hold_decoded": False}


@pytest.fixture
def requested(monkeypatch):
    """The parts of shards that were asked for, and their bytes in all."""
    asked, read_file = [], files.read_file

    def counted(path, start=0, end=None):
        content = read_file(path, start, end)
        if "/Split-" in path:
            asked.append(len(content))
        return content

    monkeypatch.setattr(files, "read_file", counted)
    return asked


def open_batches(places, root="store", **options):
    return api.batches(f"{places[root]}/data", **OPTIONS | options)


def digests(batches):
    return [batch["image"].tobytes() for batch in batches]


@pytest.mark.parametrize("workers", [1, 2])
def test_each_worker_reads_its_part_and_no_byte_more(places, requested, workers, monkeypatch):
    monkeypatch.setattr(fetched, "_GAP_BYTES", 0)
    whole = digests(open_batches(places, "local"))
    requested.clear()
    shares, read = [], []
    for worker in range(workers):
        shares.append(digests(open_batches(places, worker=worker, workers=workers)))
        read.append(sum(requested))
        requested.clear()
    assert [b"".join(parts) for parts in zip(*shares, strict=True)] == whole
    images = api.random_access(f"{places['local']}/data")
    stored = sum(images._index.column("length").tolist()) + 16 * len(images)
    looked_at = int(images._index.column("length")[0]) + 16  # Each looks at the first record.
    assert sum(read) == stored + workers * looked_at
    assert max(read) < stored / workers * 1.2 + looked_at


def test_going_on_reads_nothing_of_what_came_before(places, requested):
    batches = open_batches(places)
    steps = len(batches)
    requested.clear()
    assert digests(open_batches(places, first_step=steps - 1)) == digests(
        open_batches(places, "local", first_step=steps - 1)
    )
    assert len(requested) <= 1 + 4  # a look at the first record, and a batch


def test_what_is_kept_is_not_asked_for_again(places, requested, tmp_path):
    options = {"cache_bytes": 10**9, "cache_dir": str(tmp_path), "epochs": 2}
    local = digests(open_batches(places, "local", epochs=2))
    first = open_batches(places, **options)
    requested.clear()
    assert digests(first) == local
    records = len(api.random_access(f"{places['local']}/data"))
    assert 0 < len(requested) <= records
    requested.clear()
    again = open_batches(places, **options)
    opened = len(requested)
    assert digests(again) == local
    assert len(requested) == opened


@pytest.mark.parametrize("left_at", [0, 1, 2])
def test_batches_that_are_left_are_forgotten(places, left_at):
    batches = open_batches(places, ahead_batches=3)
    for number, _ in enumerate(batches):
        if number == left_at:
            break
    assert not held(batches)
    whole = digests(open_batches(places, "local", first_step=left_at + 1))
    assert digests(batches) == whole
    assert digests(open_batches(places, ahead_batches=1)) == digests(open_batches(places, "local"))
    assert not held(batches)


def test_iterations_side_by_side_keep_nothing(places):
    batches = open_batches(places, ahead_batches=3)
    first, second = iter(batches), iter(batches)
    next(first)
    batches.go_to(0)
    assert next(second)["key"].tolist() == open_batches(places, "local")[0]["key"].tolist()
    assert len(list(first)) == len(list(second)) == len(batches) - 1
    assert not held(batches)


def held(batches):
    """The records that are on their way or waiting to be read."""
    return batches._reader._announced or batches._reader._records._fetched._answers


def test_tensorflow_s_batches_are_the_same_epoch_after_epoch(places):
    local, store = (
        api.input_fn(f"{places[root]}/data", epochs=3, seed=4, **OPTIONS)
        for root in ("local", "store")
    )
    for (images, labels), (others, theirs) in zip(local, store, strict=True):
        np.testing.assert_array_equal(images, others)
        np.testing.assert_array_equal(labels, theirs)


def test_a_shard_that_is_gone_is_named(places, store):
    root = f"{places['store']}/gone"
    names = ["manifest.json", "index.parquet", "index.rows"]
    for split in ("Split-train/*", "Split-eval/*"):
        listed = files.list_files(f"{places['store']}/data", split)
        names += [path.removeprefix(f"{places['store']}/data/") for path in listed]
    for name in names:
        path = f"{places['store']}/data/{name}"
        with files.write_atomically(f"{root}/{name}") as file:
            file.write(files.read_file(path))
    batches = api.batches(root, **OPTIONS)
    (shard, *_) = files.list_files(root, "Split-train/*")
    files.delete(shard)
    with pytest.raises(UserError, match=r"Cannot read the shard .*Split-train"):
        list(batches)


SHARDS = {"shuffle": "shards", "shards_at_once": 2, "batch_size": 4}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("remainder", ["keep", "drop", "pad"])
def test_by_shards_a_few_requests_bring_the_same_batches(
    places, requested, workers, remainder, monkeypatch
):
    monkeypatch.setattr(fetched, "_GAP_BYTES", 0)
    options = SHARDS | {"remainder": remainder, "epochs": 2, "seed": 3}
    whole = digests(open_batches(places, "local", **options))
    shares, read = [], []
    for worker in range(workers):
        batches = open_batches(places, worker=worker, workers=workers, **options)
        requested.clear()
        shares.append(digests(batches))
        read.append((len(requested), sum(requested)))
        assert not held(batches)
        assert not batches._reader._ahead._held
    assert [b"".join(parts) for parts in zip(*shares, strict=True)] == whole
    images = api.random_access(f"{places['local']}/data")
    stored = sum(images._index.column("length").tolist()) + 16 * len(images)
    # Two epochs of all records, or less: what is still held of the one is there for the other.
    padded = images._index.column("length").max() + 16
    assert stored / 2 < sum(size for _, size in read) <= 2 * (stored + 3 * padded)
    assert sum(number for number, _ in read) < len(images)


def test_by_shards_batches_that_are_left_are_forgotten(places):
    batches = open_batches(places, **SHARDS)
    next(iter(batches))
    assert not held(batches)
    assert not batches._reader._ahead._held
    assert digests(batches) == digests(open_batches(places, "local", first_step=1, **SHARDS))


def test_by_shards_tensorflow_s_batches_are_the_same(places):
    options = OPTIONS | SHARDS | {"epochs": 3, "seed": 4}
    local, store = (api.input_fn(f"{places[root]}/data", **options) for root in ("local", "store"))
    for (images, labels), (others, theirs) in zip(local, store, strict=True):
        np.testing.assert_array_equal(images, others)
        np.testing.assert_array_equal(labels, theirs)


def test_by_shards_too_little_memory_is_refused_by_its_numbers(places):
    told = r"shards ahead .* MB  2 of shards_at_once x 0.0 MB, the largest shard"
    with pytest.raises(UserError, match=told):
        open_batches(places, **SHARDS, memory_fraction=1e-6)


def test_own_shards_are_kept_by_their_worker_and_the_batches_are_the_same(
    places, requested, tmp_path
):
    def images_of(batch):
        return zip(map(bytes, batch["image"]), batch["key"].tolist(), strict=True)

    options = {"augment": ["flip_horizontal"], "epochs": 2, "seed": 6}
    whole = [sorted(images_of(batch)) for batch in open_batches(places, "local", **options)]
    options |= {"cache_bytes": 10**9, "own_shards": True, "ahead_batches": 1}
    shares, moved = [], []
    for worker in (0, 1):
        shared = {"worker": worker, "workers": 2, "cache_dir": str(tmp_path / str(worker))}
        batches = open_batches(places, **options, **shared)
        index = batches._reader.index
        shares.append([[*images_of(batch)] for batch in batches])
        (folder,) = (tmp_path / str(worker)).iterdir()
        kept = sorted(int(path.name) for path in folder.iterdir())
        assert kept == [*range(worker, len(index.shard_paths), 2)]
        rows = [batches._reader.draw(1, step)["row"] for step in range(len(batches))]
        moved.append(sum((index.take(own).shard % 2 != worker).sum() for own in rows))
        # Another run of the second epoch asks for what others should have read, and nothing else.
        again = open_batches(places, **options | {"epochs": 1, "first_epoch": 1}, **shared)
        requested.clear()
        assert len(digests(again)) == len(batches)
        assert len(requested) <= moved[-1]
    for batch, *parts in zip(whole, *shares, strict=True):
        assert sorted([*parts[0], *parts[1]]) == batch
        assert abs(len(parts[0]) - len(parts[1])) <= 1
    assert 0 < sum(moved) < len(index) / 2


@pytest.mark.parametrize(
    "feeding",
    [
        {"balance": {"cat": 2, "dog": 1}},
        {"shuffle": "shards", "shards_at_once": 2, "many_views": {"mirror": True}},
    ],
)
def test_each_batch_that_was_logged_is_named(places, graphs, tmp_path, feeding):
    data, graph = f"{places['store']}/data", f"{places['local']}/graph"
    name_images = make_namer([data], graph)
    feeding = {"cache_bytes": 10**8, "cache_dir": str(tmp_path / "cache"), **feeding}
    kept = f"{places['store']}/kept"
    options = {"feeding": feeding, "checkpoint_dir": kept, "checkpoint_steps": 1}
    with pytest.raises(Interrupt):
        train([data], graph, tmp_path / "model", stop_after=2, **options)
    logged = [*map(name_images, LOGGED)]
    logged += map(name_images, train([data], graph, tmp_path / "model", **options))
    (*_, last) = files.list_files(kept, "*/*/fed.json")
    for folder in (tmp_path / "model", last.rpartition("/")[0]):
        check_all([data], folder, logged)
    files.delete_tree(kept)


def test_a_checkpoint_without_a_certificate_says_so(store):
    files.write_file(f"{store.uri}/bare/000001-000000000/position.json", b"{}")
    with pytest.raises(UserError, match=r"/bare/000001-000000000' has no fed.json: it was trained"):
        find_certificate(f"{store.uri}/bare/000001-000000000")
