"""The versions of a data set that is updated in place: what each changed, and its index."""

import contextlib
import itertools
import json
import os
import random
import shutil

import pytest

from image_pipeline import api, cli
from image_pipeline.components.dataset import versions
from image_pipeline.components.dataset.changes import (
    CONTENT,
    GONE,
    NEW,
    RELABELLED,
    RENAMED,
    find_changes,
)
from image_pipeline.components.dataset.index import read_table
from image_pipeline.components.dataset.manifest import has_manifest, read_manifest
from image_pipeline.components.dataset.paths import FORGET, HISTORY, MANIFEST, VERSIONS
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.dataset.versions import list_kept, read_history
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.certificate import FedBatches, NotFedError, certify
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.json_text import to_sealed_json
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import draw, encode_png, write_folder
from tests.ingest_runs import read_files
from tests.tiers import wide

pytestmark = pytest.mark.beam

OPTIONS = {"shards": 2, "splits": {"train": 0.7, "eval": 0.3}}
STEPS = int(os.environ.get("VERSION_STEPS", "6"))


@pytest.fixture
def folder(tmp_path):
    """A folder of 12 images and a data set of them."""
    write_folder(tmp_path / "images", per_class=6)
    ingest(tmp_path)
    return tmp_path


def ingest(folder, out="out", images="images", **options):
    return api.ingest(str(folder / images), str(folder / out), **OPTIONS | options)


def add(folder, name, seed):
    (folder / "images" / name).write_bytes(encode_png(draw(seed)))


def list_versions(folder, out="out"):
    return list(read_history(str(folder / out)).versions)


def checksum_of(folder, out="out"):
    return read_manifest(str(folder / out)).checksum


def change_at_random(images, rng, seed):
    """Changes some files; returns what `diff` must count."""
    paths = sorted(images.glob("*/*.png"))
    rng.shuffle(paths)
    expected = {}
    for number in range(rng.randrange(4)):
        (images / "cat" / f"new{seed}-{number}.png").write_bytes(encode_png(draw(seed + number)))
        expected[NEW] = number + 1
    for number in range(rng.randrange(3)):
        paths.pop().unlink()
        expected[GONE] = number + 1
    for number in range(rng.randrange(3)):
        path = paths.pop()
        path.rename(path.with_name(f"renamed{seed}-{path.name}"))
        expected[RENAMED] = number + 1
    for number in range(rng.randrange(3)):
        path = paths.pop()
        path.rename(images / {"cat": "dog", "dog": "cat"}[path.parent.name] / f"{seed}-{path.name}")
        expected[RENAMED] = expected.get(RENAMED, 0) + 1
        expected[RELABELLED] = number + 1
    for number in range(rng.randrange(3)):
        paths.pop().write_bytes(encode_png(draw(seed + 10 + number)))
        expected[CONTENT] = number + 1
    return expected


@pytest.mark.parametrize("seed", [0, *map(wide, range(1, 6))])
def test_any_updates_add_up(tmp_path, seed):
    rng = random.Random(seed)
    images, out = write_folder(tmp_path / "images", per_class=8), tmp_path / "out"
    ingest(tmp_path)
    (first,) = list_versions(tmp_path)
    assert (first.number, first.parent, first.before, first.added, first.after) == (
        1,
        None,
        0,
        16,
        16,
    )
    expected, checksums = [first], [first.manifest]
    for step in range(1, STEPS):
        shutil.copytree(out, tmp_path / "was", copy_function=os.link)
        changed = change_at_random(images, rng, 1000 * seed + 100 * step + 5000)
        ingest(tmp_path)
        counts = find_changes(str(tmp_path / "was"), str(out)).counts
        counts = {kind: count for kind, count in counts.items() if count}
        shutil.rmtree(tmp_path / "was")
        assert {kind: counts.get(kind, 0) for kind in changed} == changed
        found = list_versions(tmp_path)
        if checksum_of(tmp_path) != checksums[-1]:
            checksums.append(checksum_of(tmp_path))
            last = expected[-1]
            added, removed = counts.pop(NEW, 0), counts.pop(GONE, 0)
            after = len(list(images.glob("*/*.png")))
            assert last.after + added - removed == after
            numbers = last.after, added, removed, counts, after, last.package
            expected.append(
                versions.Version(last.number + 1, checksums[-1], last.manifest, *numbers)
            )
        assert found == expected
        assert verify_data_set(str(out)) == []
    assert set(list_kept(str(out))) == set(checksums[:-1])
    assert len(checksums) == STEPS


def test_nothing_new_is_not_a_version(folder):
    os.utime(folder / "images" / "cat" / "000.png", (1, 1))
    before = list_versions(folder)
    for compare in ("times", "bytes", "nothing"):
        ingest(folder, compare=compare)
    assert list_versions(folder) == before and list_kept(str(folder / "out")) == {}


def test_a_data_set_that_returns_to_an_earlier_one(folder, capsys):
    add(folder, "cat/new.png", 77)
    ingest(folder)
    (folder / "images" / "cat" / "new.png").unlink()
    ingest(folder)
    first, second, third = list_versions(folder)
    assert (first.manifest, second.parent, third.parent) == (
        *(third.manifest, first.manifest, second.manifest),
    )
    assert (second.added, second.removed, third.added, third.removed) == (1, 0, 0, 1)
    assert set(list_kept(str(folder / "out"))) == {second.manifest}
    assert verify_data_set(str(folder / "out")) == []
    capsys.readouterr()
    assert cli.call(["history", str(folder / "out")]) == 0
    kept = [line.split()[-1] for line in capsys.readouterr().out.splitlines()]
    assert kept == ["kept", "there", "index", "there"]


def test_so_many_are_kept_as_were_asked_for_last(folder):
    out = str(folder / "out")
    for number, kept in enumerate((None, 2, None, None)):
        add(folder, f"cat/new{number}.png", 70 + number)
        ingest(folder, versions=kept)
    numbers = {each.manifest: each.number for each in list_versions(folder)}
    assert sorted(numbers[checksum] for checksum in list_kept(out)) == [3, 4]
    assert cli.call(["update", out, "--versions", "0"]) == 0
    assert list_kept(out) == {} and len(list_versions(folder)) == 5
    add(folder, "cat/last.png", 90)
    assert cli.call(["update", out]) == 0
    assert list_kept(out) == {} and len(list_versions(folder)) == 6
    assert verify_data_set(out) == []


def test_what_was_being_deleted_goes_and_what_no_history_names_stays(folder):
    out = folder / "out"
    add(folder, "cat/new.png", 77)
    ingest(folder)
    (kept,) = list_kept(str(out))
    doomed = out / VERSIONS / f"{'0' * 64}.deleted"
    shutil.copytree(out / VERSIONS / kept, doomed)
    (out / HISTORY).unlink()
    ingest(folder)
    assert set(list_kept(str(out))) == {kept} and not doomed.exists()


@pytest.mark.parametrize("damage", [None, b"{"])
def test_none_are_kept_whatever_the_history_is(folder, damage):
    out = folder / "out"
    add(folder, "cat/new.png", 77)
    ingest(folder)
    (out / HISTORY).unlink()
    if damage is not None:
        (out / HISTORY).write_bytes(damage)
    assert cli.call(["update", str(out), "--versions", "0"]) == 0
    assert [*(out / VERSIONS).iterdir()] == []
    add(folder, "cat/newer.png", 78)
    ingest(folder, versions=None if damage is None else 0)
    assert list_kept(str(out)) == {} and len(list_versions(folder)) == 2


def test_what_is_left_of_a_kept_index_goes_with_the_next_update(folder):
    """Its names would not be found by `forget`, which looks into indices that have a manifest."""
    add(folder, "cat/new.png", 77)
    ingest(folder)
    (kept,) = (folder / "out" / VERSIONS).iterdir()
    shutil.copytree(kept, left := kept.with_name(f"{kept.name}.deleted"))
    (left / MANIFEST).unlink()
    ingest(folder)
    assert [*(folder / "out" / VERSIONS).iterdir()] == [kept]


def test_options_go_on_and_another_data_set_begins(folder):
    out = str(folder / "out")
    assert ingest(folder, replace=True, leave_out=["cat/"])["written"] == 6
    _, second = list_versions(folder)
    assert (second.before, second.added, second.removed, second.after) == (12, 0, 6, 6)
    images = write_folder(folder / "others", classes=("ant", "bee"), per_class=4)
    for number, path in enumerate(images.glob("*/*.png")):
        path.write_bytes(encode_png(draw(3000 + number)))
    ingest(folder, images="others", replace=True)
    (first,) = list_versions(folder)
    assert (first.number, first.parent, first.after) == (1, None, 8)
    assert list_kept(out) == {} and verify_data_set(out) == []
    images.rename(folder / "moved")
    assert cli.call(["update", out, "--images", str(folder / "moved")]) == 0
    (folder / "moved" / "ant" / "000.png").unlink()
    assert cli.call(["update", out]) == 0
    assert [each.after for each in list_versions(folder)] == [8, 7]


def test_a_data_set_without_a_history_begins_one(folder, capsys):
    (folder / "out" / HISTORY).unlink()
    assert cli.call(["history", str(folder / "out")]) == 0
    assert "out has no history: only what" in capsys.readouterr().out
    old = checksum_of(folder)
    add(folder, "cat/new.png", 77)
    ingest(folder, compare="nothing")
    first, second = list_versions(folder)
    assert (first.manifest, first.before, first.after, first.package) == (old, 0, 12, None)
    assert (second.parent, second.added, second.after) == (old, 1, 13)
    assert set(list_kept(str(folder / "out"))) == {old}


@pytest.mark.parametrize("damage", [b"{", b'{"kept": -1}', b'{"versions": [{"number": 1}]}'])
def test_a_damaged_history_is_named_and_costs_nothing_else(folder, caplog, damage):
    add(folder, "cat/new.png", 77)
    ingest(folder)
    (kept,) = list_kept(str(folder / "out"))
    path = folder / "out" / HISTORY
    path.write_bytes(damage)
    (finding,) = verify_data_set(str(folder / "out"))
    assert finding.file == HISTORY and "is damaged" in finding.problem
    assert "delete it: versions are then counted from 1 again" in finding.problem
    ingest(folder)  # Nothing changed, so nothing is written.
    assert path.read_bytes() == damage
    add(folder, "cat/newer.png", 78)
    ingest(folder)
    assert f"{str(path)!r} is damaged" in caplog.text
    first, second = list_versions(folder)
    assert (first.number, first.after, second.after) == (1, 13, 14)
    assert set(list_kept(str(folder / "out"))) == {kept, first.manifest}
    assert verify_data_set(str(folder / "out")) == []


@pytest.mark.parametrize(
    ("number", "change", "problem"),
    [
        (1, {"added": 2}, "its version 2 does not balance: 12 + 2 - 0 is not 13 records"),
        (1, {"parent": "0" * 64}, "its version 2 does not follow from the one before"),
        (1, {"number": 3}, "its version 3 does not follow from the one before"),
        (1, {"before": 11, "added": 2}, "its version 2 does not follow from the one before"),
        (0, {"before": 1, "added": 11}, "its version 1 does not follow from the one before"),
        (1, {"manifest": "0" * 64}, "its last version, of 13 records, is not what is there"),
    ],
)
def test_verify_names_what_does_not_follow(folder, number, change, problem):
    add(folder, "cat/new.png", 77)
    ingest(folder)
    path = folder / "out" / HISTORY
    history = json.loads(path.read_text())
    history["versions"][number] |= change
    path.write_text(to_sealed_json(history))
    (finding,) = verify_data_set(str(folder / "out"))
    assert finding.file == HISTORY and finding.problem.startswith(problem)


def test_verify_looks_at_the_kept_indices(folder):
    old = checksum_of(folder)
    add(folder, "cat/new.png", 77)
    ingest(folder)
    kept = folder / "out" / VERSIONS / old
    (kept / "index.rows").write_bytes(b"")
    (kept / "index.parquet").unlink()
    found = {finding.file: finding.problem for finding in verify_data_set(str(folder / "out"))}
    assert found.keys() == {f"{VERSIONS}/{old}/index.{end}" for end in ("rows", "parquet")}
    (kept / "manifest.json").write_bytes(b"{")
    (finding,) = verify_data_set(str(folder / "out"))
    assert finding.file == f"{VERSIONS}/{old}/manifest.json"


@pytest.mark.wide
def test_an_update_stopped_anywhere_leaves_a_data_set_with_its_history(folder, monkeypatch):
    """Before each link, rename and replacement: the old with its own, or the new with its own."""
    add(folder, "cat/new.png", 77)
    ingest(folder)
    add(folder, "cat/newer.png", 78)
    (folder / "images" / "dog" / "001.png").unlink()
    out = folder / "out"
    out.rename(folder / "before")
    before = list_versions(folder, "before")
    shutil.copytree(folder / "before", out)
    ingest(folder)
    after, kept = list_versions(folder), set(list_kept(str(out)))
    assert len(after) == 3 and kept == {each.manifest for each in after[:2]}
    expected = read_files(out)

    class Stopped(BaseException):
        """As a signal raises."""

    seen = []
    for stop_at in itertools.count():
        shutil.rmtree(out)
        shutil.copytree(folder / "before", out)
        calls = itertools.count()

        def stop_or(call, calls=calls, stop_at=stop_at):
            def called(*arguments, **options):
                if next(calls) >= stop_at:  # As of a process that is gone, nothing follows.
                    raise Stopped
                return call(*arguments, **options)

            return called

        with monkeypatch.context() as patched, contextlib.suppress(Stopped, RuntimeError):
            for name in ("link", "rename", "replace"):
                patched.setattr(os, name, stop_or(getattr(os, name)))
            ingest(folder)
        if has_manifest(str(out)):
            seen.append(list_versions(folder))
            assert seen[-1][-1].manifest == checksum_of(folder)
            assert verify_data_set(str(out)) == []
        if next(calls) <= stop_at:
            break
        ingest(folder)
        assert list_versions(folder) == after and set(list_kept(str(out))) == kept
        assert read_files(out) == expected
    assert seen[0] == before and seen[-1] == after
    assert [each for each in seen if each not in (before, after)] == []


def test_versions_are_listed_and_compared_by_name(folder, capsys):
    out = str(folder / "out")
    add(folder, "cat/new.png", 77)
    (folder / "images" / "dog" / "000.png").rename(folder / "images" / "cat" / "moved.png")
    ingest(folder)
    add(folder, "cat/001.png", 78)
    ingest(folder)
    first, second, third = list_versions(folder)
    assert cli.call(["history", out]) == 0
    heads, *lines = capsys.readouterr().out.splitlines()
    assert heads.split() == [
        "version",
        "before",
        "added",
        "removed",
        "after",
        "changed",
        "manifest",
        "kept",
    ]
    assert [" ".join(line.split()) for line in lines] == [
        f"3 13 0 0 13 other bytes 1 {third.manifest[:16]}… there",
        f"2 12 1 0 13 renamed 1, relabelled 1 {second.manifest[:16]}… index",
        f"1 0 12 0 12 {first.manifest[:16]}… index",
    ]
    assert cli.call(["history", out, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["number"] for each in told["versions"]] == [3, 2, 1]
    assert told["kept"] == sorted([first.manifest, second.manifest])
    # Without shards a renamed file is one that is gone and one that is new.
    for before, now, counts in (
        (f"{out}@1", f"{out}@2", {"new": 2, "gone": 1}),
        (f"{out}@2", out, {"other bytes": 1}),
        (f"{out}@2", f"{out}@3", {"other bytes": 1}),
        (out, f"{out}@1", {"new": 1, "gone": 2, "other bytes": 1}),
    ):
        assert cli.call(["diff", before, now, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)["counts"]
        assert {kind: count for kind, count in told.items() if count} == counts
    assert cli.call(["diff", f"{out}@2", out]) == 0
    assert "cat/001.png  other bytes" in capsys.readouterr().out


def test_what_a_version_cannot_do_is_refused(folder, capsys):
    out = str(folder / "out")
    add(folder, "cat/new.png", 77)
    ingest(folder)
    old, new = f"{out}@1", str(folder / "new")
    what = f"'{old}' names a version of the data set '{out}', and only `diff` and `seen --data`"
    for command in (
        ["report", old],
        ["report", out, "--against", old],
        ["history", old],
        ["inspect", old],
        ["verify", old],
        ["verify", old, "--epoch", "0"],
        ["quarantine", "list", old],
        ["browse", old],
        ["export", old, "--output", new],
        ["export", old, "--output", new, "--format", "parquet"],
        ["seen", old],
        ["analyze", old, "--output", new],
        ["train", old, "--graph", out, "--output", new],
        ["train", out, "--graph", old, "--output", new],
        ["run", "--images", old, "--output", new],
        ["ingest", "--images", old, "--output", new],
        ["update", old],
        ["forget", old, "cat/001.png"],
    ):
        capsys.readouterr()
        assert cli.call(command) == 1
        said = capsys.readouterr()
        assert what in " ".join((said.out + said.err).split())
    with pytest.raises(UserError, match=f"Name '{out}', the version that is there; or, for"):
        api.batches(old, "train")
    # Neither may a new folder be called so.
    assert cli.call(["ingest", "--images", str(folder / "images"), "--output", old]) == 1
    assert f"the data set '{out}', which no command could then name, got" in capsys.readouterr().err
    with pytest.raises(UserError, match=f"must not be called like a version .* got '{old}/';"):
        api.ingest(str(folder / "images"), f"{old}/")
    assert not os.path.exists(old) and not os.path.exists(new)
    for name in (f"{out}@3", f"{out}@0"):
        with pytest.raises(
            UserError, match=rf"'{name}' must be a version of .*; these are: 1, 2\."
        ):
            versions.find_version(name)
    with pytest.raises(UserError, match="'none' does not exist"):
        versions.find_version("none@1")
    os.rename(out, old)  # A folder may be called so.
    assert versions.find_version(old) is None
    api.ingest(str(folder / "images"), old, **OPTIONS)


def certify_train(folder, **feeding):
    """A certificate of two epochs and a batch of the train split."""
    shards = sorted(map(str, (folder / "out" / "Split-train").iterdir()))
    options = FeedingOptions(batch_size=3, augment=(), **feeding)
    records = read_manifest(str(folder / "out")).splits["train"].records
    steps = -(-records * options.many_views.count // 3)
    view = ViewOptions(height_px=8, width_px=8)
    return certify(shards, view, options, 3, steps).until(2, 1)


def list_batches(folder, fed):
    batches = FedBatches(fed, [str(folder / "out")])
    return [batches.list_batch(step) for step in range(fed.parts[0].steps)]


@pytest.mark.parametrize("feeding", [{}, {"balance": "uniform"}, {"many_views": {"mirror": True}}])
def test_a_forgotten_picture_keeps_its_place_and_no_name(folder, feeding):
    out = str(folder / "out")
    fed = certify_train(folder, **feeding)
    fed_with_names = list_batches(folder, fed)
    name = fed_with_names[0][0].source
    shards = [f"{out}/{each.file}" for _, _, each in read_manifest(out).list_shards()]
    ids = read_table(shards, ["source", "record_id"]).to_pylist()
    (record_id,) = (row["record_id"] for row in ids if row["source"] == name)
    add(folder, "cat/new.png", 77)
    ingest(folder)
    assert list_batches(folder, fed) == fed_with_names
    said = api.forget(out, name, yes=True)
    assert (said["versions"], said["held"]) == (2, [])
    assert [each.after for each in list_versions(folder)] == [12, 13, 12]
    assert verify_data_set(out) == [] and len(list_kept(out)) == 2
    hidden = [
        [
            (f"forgotten/{record_id}", "") if each.source == name else (each.source, each.label)
            for each in batch
        ]
        for batch in fed_with_names
    ]
    batches = list_batches(folder, fed)
    assert [[(each.source, each.label) for each in batch] for batch in batches] == hidden
    with pytest.raises(NotFedError):
        FedBatches(fed, [out]).find(name)
    found = FedBatches(fed, [out]).find(record_id)
    assert [(each.epoch, each.step, each.place) for each in found] == [
        (each.epoch, each.step, each.place)
        for batch in fed_with_names
        for each in batch
        if each.source == name
    ]
    for kept in list_kept(out).values():
        index = read_table_of(kept)
        assert name not in index["source"] and f"forgotten/{record_id}" in index["source"]
        row = index["source"].index(f"forgotten/{record_id}")
        assert (index["label"][row], index["notes"][row], index["source_bytes"][row]) == ("", [], 0)
    counts = find_changes(*(versions.find_version(f"{out}@{number}") for number in (1, 2))).counts
    assert {kind: count for kind, count in counts.items() if count} == {"new": 1}


@pytest.mark.parametrize("named", ["name", "bytes"])
def test_names_that_only_earlier_versions_have_are_forgotten_too(folder, named):
    """One whose file was deleted before, and the name that another had before it was renamed."""
    images, out = folder / "images", str(folder / "out")
    deleted, renamed = sorted(images.rglob("*.png"))[:2]
    names = [str(path.relative_to(images)) for path in (deleted, renamed)]
    shutil.copy(deleted, folder / "copy.png")
    deleted.unlink()
    renamed.rename(images / "cat/other.png")
    ingest(folder)
    asked = names[0] if named == "name" else str(folder / "copy.png")
    plan = api.forget(out, [asked, "cat/other.png"])
    assert {each.path: (each.why, each.became) for each in plan["pictures"]} == {
        "cat/other.png": ("named", "record"),
        names[0]: ("named" if named == "name" else "the same bytes", "in an earlier version"),
        names[1]: ("the same bytes", "in an earlier version"),
    }
    said = api.forget(out, [asked, "cat/other.png"], yes=True)
    assert (said["versions"], said["held"], said["data_set"]["written"]) == (2, [], 10)
    assert verify_data_set(out) == []
    for kept in list_kept(out).values():
        assert not {*names, "cat/other.png"} & {*read_table_of(kept)["source"]}


def test_columns_of_a_table_leave_with_a_forgotten_picture(tmp_path):
    write_folder(tmp_path / "images", per_class=4)
    rows = [
        {"path": f"{a}/{n:03d}.png", "tags": [a, "pet"], "person": f"Ada {n}", "age": n + 0.5}
        for a in ("cat", "dog")
        for n in range(4)
    ]
    lines = "\n".join(map(json.dumps, rows))
    (tmp_path / "images" / "t.jsonl").write_text(lines)
    ingest(tmp_path, images="images/t.jsonl")
    out = str(tmp_path / "out")
    assert api.forget(out, "cat/001.png", yes=True)["versions"] == 1
    (kept,) = list_kept(out).values()
    index = read_table_of(kept)
    (row,) = (n for n, name in enumerate(index["source"]) if name.startswith("forgotten/"))
    assert (index["tags"][row], index["person"][row], index["age"][row]) == (None, None, None)
    others = {name for number, name in enumerate(index["person"]) if number != row}
    assert others == {f"Ada {number}" for number in range(4)}
    shards = [f"{kept}/{each.file}" for _, _, each in read_manifest(kept).list_shards()]
    assert read_table(shards, ["person", "tags"]).num_rows == 8
    assert verify_data_set(out) == []


def read_table_of(kept):
    import pyarrow.parquet as pq

    return pq.read_table(f"{kept}/index.parquet").to_pydict()


def test_what_was_chosen_by_what_is_forgotten_is_refused(folder):
    out = str(folder / "out")
    fed = certify_train(folder, select={"where": 'label == "cat"'})
    name = list_batches(folder, fed)[0][0].source
    api.forget(out, name, yes=True)
    with pytest.raises(UserError, match=r"feeding.select .*, but pictures in it were forgotten"):
        list_batches(folder, fed)


def test_a_forgetting_that_was_stopped_clears_the_versions(folder, monkeypatch, capsys):
    out = str(folder / "out")
    with monkeypatch.context() as patched, pytest.raises(UserError, match="stopped"):
        patched.setattr("image_pipeline.run.forget.blank_pictures", stop)
        api.forget(out, "cat/001.png", yes=True)
    assert (folder / "out" / FORGET).exists()
    (kept,) = list_kept(out).values()
    assert "cat/001.png" in read_table_of(kept)["source"]
    # Between the manifest and the index.
    with monkeypatch.context() as patched, pytest.raises(UserError, match="stopped"):
        write = versions.files.write_file
        patched.setattr(
            *(versions.files, "write_file"),
            lambda path, content: stop() if "parquet" in path else write(path, content),
        )
        api.forget(out, yes=True)
    assert cli.call(["forget", out, "--yes"]) == 0
    assert "only their ids are left in the indices of 1 earlier version" in capsys.readouterr().out
    assert "cat/001.png" not in read_table_of(kept)["source"]
    assert verify_data_set(out) == [] and not (folder / "out" / FORGET).exists()


def test_a_kept_index_that_cannot_be_read_is_deleted_by_forget(folder):
    (folder / "images" / "dog" / "000.png").unlink()
    ingest(folder)
    (old,) = list_kept(str(folder / "out")).values()
    with open(f"{old}/index.parquet", "wb") as file:
        file.write(b"PAR1")
    api.forget(str(folder / "out"), "cat/001.png", yes=True)
    assert old not in list_kept(str(folder / "out")).values()
    assert len(list_kept(str(folder / "out"))) == 1


def stop(*_):
    raise UserError("stopped")
