"""Unchanged images are taken from an earlier data set wherever they, it and the next one are."""

import itertools
import json

import pytest

from image_pipeline import api, cli
from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import has_manifest, read_manifest
from image_pipeline.components.dataset.paths import (
    HISTORY,
    INDEX,
    MANIFEST,
    ROWS,
    SOURCES,
    VERSIONS,
    in_split,
)
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.dataset.versions import find_version, list_kept, read_history
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.certificate import FedBatches, certify
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.ingest import prepare_chunk
from image_pipeline.components.ingest.earlier import count_taken, find_earlier, find_latest
from image_pipeline.components.stores import remote
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import draw, encode_png
from tests.object_store.runs import ingest, read_tree

pytestmark = pytest.mark.beam


def _write(folder, names, seed):
    for number, name in enumerate(names):
        with files.write_atomically(f"{folder}/{name}") as file:
            file.write(encode_png(draw(seed + number)))


@pytest.mark.parametrize("places", ["store local local", "local store local", "store store store"])
def test_only_what_changed_is_read(store, tmp_path, monkeypatch, places):
    """`places` are those of the images, of the data set before, and of the next."""
    roots = {"local": str(tmp_path), "store": f"{store.uri}/updates/{places.replace(' ', '-')}"}
    images, before, after = (
        f"{roots[place]}/{name}"
        for place, name in zip(places.split(), ("images", "before", "after"), strict=True)
    )
    _write(images, [f"{label}/{number}.png" for label in "ab" for number in range(6)], 0)
    ingest(images, before)
    _write(images, ["a/3.png", "b/new.png"], 50)
    read, real = [], prepare_chunk.try_read
    with monkeypatch.context() as patched:
        patched.setattr(
            prepare_chunk, "try_read", lambda ref, *rest: read.append(ref.path) or real(ref, *rest)
        )
        ingest(images, after, find_earlier(before, "times"))
    assert (sorted(read), count_taken(after)) == (["a/3.png", "b/new.png"], 11)
    ingest(images, str(tmp_path / "fresh"))
    assert read_tree(after) == read_tree(str(tmp_path / "fresh"))


def test_a_run_takes_from_the_data_set_that_was_written_last(store, tmp_path):
    images, runs = f"{store.uri}/latest/images", f"{store.uri}/latest/runs"
    assert find_latest(runs) is None
    _write(images, [f"{label}/{number}.png" for label in "ab" for number in range(6)], 0)
    ingest(images, f"{runs}/7")
    ingest(images, f"{runs}/10")
    assert find_latest(runs) == find_earlier(f"{runs}/10", "times")
    _write(images, ["b/new.png"], 50)
    ingest(images, f"{runs}/8", find_latest(runs))
    assert count_taken(f"{runs}/8") == 12 and find_latest(runs).data_dir == f"{runs}/8"
    files.write_file(f"{runs}/8/{SOURCES}", b"damaged")
    assert find_latest(runs) == find_earlier(f"{runs}/10", "times")


_OPTIONS = {"shards": 2, "splits": {"train": 0.7, "eval": 0.3}, "max_bad_fraction": 0.5}


@pytest.fixture(params=["gs", "s3"])
def data(request, store):
    """A data set in the store, by both schemes, one of whose images is damaged, and its images."""
    root = f"{request.param}://bucket/in-place/{request.param}"
    files.delete_tree(root)
    images, data = f"{root}/images", f"{root}/data"
    _write(images, [f"{label}/{number}.png" for label in "ab" for number in range(6)], 0)
    files.write_file(f"{images}/a/bad.png", b"no picture")
    api.ingest(images, data, **_OPTIONS)
    _write(images, ["a/3.png", "b/new.png", "a/bad.png"], 50)
    files.delete(f"{images}/b/2.png")
    return images, data


def _read_set(root):
    """What a data set holds, but for what is known of its sources and of the machine."""
    return {name: content for name, content in read_tree(root).items() if name[0] != "."}


def test_a_data_set_in_a_store_is_updated(data, tmp_path, monkeypatch, capsys):
    images, data = data
    old = read_manifest(data).checksum
    read, real = [], remote.read_file
    with monkeypatch.context() as patched:
        patched.setattr(remote, "read_file", lambda uri, *at: read.append(uri) or real(uri, *at))
        assert cli.call(["update", data, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    opened = {uri.removeprefix(f"{images}/") for uri in read if uri.startswith(images)}
    assert opened == {"a/3.png", "b/new.png", "a/bad.png"}
    assert (summary["written_before"], summary["written"], summary["taken"]) == (12, 13, 10)
    assert summary["changed"] == {"new": 2, "gone": 1, "other bytes": 1}
    api.ingest(images, str(tmp_path / "fresh"), **_OPTIONS)
    assert _read_set(data) == _read_set(str(tmp_path / "fresh"))
    first, second = read_history(data).versions
    assert (second.before, second.added, second.removed, second.after) == (12, 2, 1, 13)
    assert (first.manifest, second.manifest) == (old, read_manifest(data).checksum)
    # Of `.next` and of the working folder nothing is left.
    kept = {f"{VERSIONS}/{old}/{name}" for name in (INDEX, ROWS, MANIFEST)}
    names = {name for name in read_tree(data) if name[0] == "."}
    assert names == {".source.json", HISTORY, *kept}
    assert find_version(f"{data}@1") == f"{data}/{VERSIONS}/{old}"
    assert verify_data_set(data) == []
    read.clear()
    assert api.ingest(images, data, **_OPTIONS)["taken"] == 13


@pytest.mark.wide
def test_an_update_in_a_store_that_is_stopped_at_any_write_goes_on(data, tmp_path, monkeypatch):
    images, data = data
    api.ingest(images, str(tmp_path / "fresh"), **_OPTIONS)
    old, new = (read_manifest(root).checksum for root in (data, str(tmp_path / "fresh")))
    shards = files.list_files(data, in_split("train"))
    options = ViewOptions(height_px=8, width_px=8), FeedingOptions(batch_size=2, augment=())
    records = read_manifest(data).splits["train"].records
    fed = certify(shards, *options, 3, -(-records // 2)).until(1, 0)
    batches = FedBatches(fed, [data])
    fed_before = [batches.list_batch(step) for step in range(4)]
    create, delete = remote.create, remote.delete
    seen = []
    for stop_at in itertools.count():
        calls = itertools.count()

        def stop_or(call, calls=calls, stop_at=stop_at):
            def called(*arguments):
                if next(calls) >= stop_at:  # As of a process that is gone, nothing follows.
                    raise OSError("stopped")
                return call(*arguments)

            return called

        with monkeypatch.context() as patched:
            patched.setattr(remote, "create", stop_or(create))
            patched.setattr(remote, "delete", stop_or(delete))
            try:
                api.ingest(images, data, **_OPTIONS)
            except Exception as error:
                assert "stopped" in str(error)
        is_there = has_manifest(data)
        seen.append(read_manifest(data).checksum if is_there else None)
        if is_there:
            assert verify_data_set(data) == []
            assert read_history(data).versions[-1].manifest == seen[-1]
        if seen[-1] == new:
            break
    assert seen[0] == old and set(seen) == {old, None, new}
    api.ingest(images, data, **_OPTIONS)
    assert _read_set(data) == _read_set(str(tmp_path / "fresh"))
    assert [each.manifest for each in read_history(data).versions] == [old, new]
    assert set(list_kept(data)) == {old}
    batches = FedBatches(fed, [data])
    assert [batches.list_batch(step) for step in range(4)] == fed_before


@pytest.mark.parametrize("bad_records", ["stop", "skip"])
def test_a_reader_is_stopped_at_records_of_the_updated_data_set(store, bad_records):
    """Their sizes are the same: raw pixels of one size, of images whose names are as long."""
    images, data = (f"{store.uri}/read/{bad_records}/{name}" for name in ("images", "data"))
    _write(images, [f"{label}/{number:02}.png" for label in "ab" for number in range(20)], 0)
    options = {"shards": 2, "splits": {"train": 1}, "prepare": {"encoding": "raw"}}
    api.ingest(images, data, **options)
    opened = api.batches(
        data,
        view={"height_px": 4, "width_px": 4},
        epochs=9,
        batch_size=2,
        bad_records=bad_records,
        columns=["image/filename"],
    )
    batches = iter(opened)
    next(batches)
    _write(images, [f"{label}/{number:02}.png" for label in "ab" for number in range(20, 25)], 50)
    api.ingest(images, data, **options)
    read = []
    with pytest.raises(UserError, match=f"^The data set '{data}' was replaced while it was read;"):
        read.extend(batches)
    for batch in read:
        names = [name.decode() for name in batch["image/filename"]]
        assert ["ab"[label] for label in batch["label"]] == [name[0] for name in names]
