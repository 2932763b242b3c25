"""What differs between two data sets: each file, each value, and nothing else."""

import hashlib
import json
import random
import re
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from image_pipeline.cli import call
from image_pipeline.components.dataset.changes import KINDS, find_changes
from image_pipeline.components.errors import UserError
from tests.drawings import draw, encode_png, write_folder, write_scenes
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam

PAIRS = {"images": "images/{key}.*", "masks": "masks/{key}.*", "classes": ["dark", "bright"]}


def split_of(output, source):
    rows = pq.read_table(output / "index.parquet", columns=["source", "split"]).to_pylist()
    return next(row["split"] for row in rows if row["source"] == source)


def changes_of(before, now):
    return {each.name: each for each in find_changes(str(before), str(now)).files}


def is_record(label, split):
    return {"became": (None, "record"), "split": (None, split), "label": (None, label)}


def was_record(label, split):
    return {name: both[::-1] for name, both in is_record(label, split).items()}


@pytest.fixture(scope="module")
def edited(tmp_path_factory):
    """A data set of a folder, and one of it after some edits."""
    folder = tmp_path_factory.mktemp("changes")
    old = write_folder(folder / "old", per_class=12)
    (old / "cat" / "bad.png").write_bytes(b"text")
    (old / "cat" / "notes.txt").write_bytes(b"text")
    ingest(old, folder / "before", max_bad_fraction=0.5)
    new = folder / "new"
    shutil.copytree(old, new)
    (new / "cat" / "bad.png").write_bytes(encode_png(draw(77)))  # Repaired.
    (new / "cat" / "notes.txt").unlink()
    (new / "cat" / "001.png").unlink()
    (new / "cat" / "002.png").rename(new / "dog" / "900.png")
    (new / "cat" / "003.png").rename(new / "cat" / "901.png")
    (new / "dog" / "004.png").write_bytes(encode_png(draw(80)))
    (new / "dog" / "902.png").write_bytes(encode_png(draw(79)))
    shutil.copy(new / "dog" / "005.png", new / "dog" / "903.png")
    ingest(new, folder / "now", max_bad_fraction=0.5)
    return folder / "before", folder / "now"


def test_each_edit_of_a_folder_is_told(edited):
    before, now = edited
    old, new = (hashlib.sha256(encode_png(draw(seed))).hexdigest() for seed in (1004, 80))
    gone, bad, fresh = (
        split_of(folder, name)
        for folder, name in ((before, "cat/001.png"), (now, "cat/bad.png"), (now, "dog/902.png"))
    )
    assert split_of(before, "dog/004.png") != split_of(now, "dog/004.png")
    found = find_changes(str(before), str(now))
    assert [(each.path, each.was, each.kinds, dict(each.values)) for each in found.files] == [
        (None, "cat/001.png", ("gone",), was_record("cat", gone)),
        ("cat/901.png", "cat/003.png", ("renamed",), {}),
        (
            *("cat/bad.png", "cat/bad.png", ("new",)),
            is_record("cat", bad) | {"became": ("quarantined: not_an_image", "record")},
        ),
        (None, "cat/notes.txt", (), {"became": ("skipped: text", None)}),
        (
            *("dog/004.png", "dog/004.png", ("other bytes", "other split")),
            {"content": (old, new), "split": ("eval", "train")},
        ),
        ("dog/900.png", "cat/002.png", ("renamed", "relabelled"), {"label": ("cat", "dog")}),
        ("dog/902.png", None, ("new",), is_record("dog", fresh)),
        ("dog/903.png", None, (), {"became": (None, "duplicate of dog/005.png")}),
    ]
    assert (found.records, found.options) == ((24, 25), {})
    assert found.counts == dict.fromkeys(KINDS, 0) | {
        **{"new": 2, "gone": 1, "renamed": 2, "other bytes": 1, "relabelled": 1},
        "other split": 1,
    }


def test_backwards_what_was_new_is_gone(edited):
    before, now = edited
    forwards, backwards = changes_of(before, now), changes_of(now, before)
    turned = {
        (each.was, each.path): {name: both[::-1] for name, both in each.values.items()}
        for each in forwards.values()
    }
    assert {(each.path, each.was): each.values for each in backwards.values()} == turned


def test_nothing_differs_from_itself(edited):
    found = find_changes(str(edited[0]), str(edited[0]))
    assert (found.files, found.options, found.records) == ([], {}, (24, 24))


def test_copies_were_not_renamed(tmp_path):
    """The first of equal files by name is the record; the other one is there all the same."""
    images = write_folder(tmp_path / "images", per_class=6)
    ingest(images, tmp_path / "before")
    shutil.copy(images / "cat" / "001.png", images / "cat" / "000a.png")
    ingest(images, tmp_path / "now")
    split = split_of(tmp_path / "now", "cat/000a.png")
    copied = changes_of(tmp_path / "before", tmp_path / "now")
    removed = changes_of(tmp_path / "now", tmp_path / "before")
    copy = "duplicate of cat/000a.png"
    assert [(each.path, each.was, each.kinds, each.values) for each in copied.values()] == [
        ("cat/000a.png", None, ("new",), is_record("cat", split)),
        (
            *("cat/001.png", "cat/001.png", ("gone",)),
            was_record("cat", split) | {"became": ("record", copy)},
        ),
    ]
    assert [(each.path, each.was, each.kinds, each.values) for each in removed.values()] == [
        (None, "cat/000a.png", ("gone",), was_record("cat", split)),
        (
            *("cat/001.png", "cat/001.png", ("new",)),
            is_record("cat", split) | {"became": (copy, "record")},
        ),
    ]


def test_the_command_prints_what_json_lists(edited, capsys):
    before, now = map(str, edited)
    assert call(["diff", before, now]) == 0
    out = capsys.readouterr().out
    assert re.search(r"dog/900.png +renamed, relabelled +was cat/002.png; label cat -> dog\n", out)
    assert "became quarantined: not_an_image -> record" in out
    assert call(["diff", before, now, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["records"] == [24, 25]
    assert [each["path"] or each["was"] for each in told["files"]] == sorted(
        changes_of(before, now)
    )
    assert told["files"][5] == {
        "path": "dog/900.png",
        "was": "cat/002.png",
        "kinds": ["renamed", "relabelled"],
        "values": {"label": ["cat", "dog"]},
    }


def test_the_page_shows_each_kind_with_pictures(edited, tmp_path):
    before, now = map(str, edited)
    page = tmp_path / "page.html"
    assert call(["report", now, "--against", before, "--output", str(page)]) == 0
    section = page.read_text().partition('id="difference-heading"')[2]
    shown = {
        kind: re.findall(r'alt="([^"]+)"', own)
        for kind, own in re.findall(r"<summary>(.+?)</summary>(.+?)</details>", section, re.S)
    }
    assert shown == {
        "New: 2 files": ["cat/bad.png", "dog/902.png"],
        "Gone: 1 file": ["cat/001.png"],
        "Renamed: 2 files": ["cat/901.png", "dog/900.png"],
        "Other bytes: 1 file": ["dog/004.png"],
        "Relabelled: 1 file": ["dog/900.png"],
        "Other split: 1 file": ["dog/004.png"],
    }
    assert "2 files that are not records changed in other ways" in section


def test_a_long_list_is_cut_for_people_only(tmp_path, capsys):
    write_folder(tmp_path / "old", per_class=2)
    write_folder(tmp_path / "new", ("fox", "hen"), per_class=60)
    for name in ("old", "new"):
        ingest(tmp_path / name, tmp_path / f"{name}_set")
    # The first of a class are drawn alike: two of each are renamed.
    arguments = ["diff", str(tmp_path / "old_set"), str(tmp_path / "new_set")]
    assert call(arguments) == 0
    out = capsys.readouterr().out
    assert "new                      116\n" in out
    assert out.endswith("… and 20 more files; --json lists all.\n")
    assert call([*arguments, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["files"]) == 120


@pytest.mark.parametrize("seed", range(3))
def test_random_edits_of_a_table(tmp_path, seed):
    """Each changed cell is told, before and now, whatever else was changed."""
    draws = random.Random(seed)
    (tmp_path / "images").mkdir()
    for number in range(24):
        (tmp_path / "images" / f"{number}.png").write_bytes(encode_png(draw(number)))

    def make_rows(old=None):
        for number in range(24):
            row = {
                "image": f"images/{number}.png",
                "tags": sorted(draws.sample(["ant", "bee", "cat"], draws.randrange(4))),
                "weight": draws.choice([0.5, 1.0, None]),
                "note": draws.choice(["x", "y", ""]),
            }
            yield old[number] if old and draws.random() < 0.6 else row

    rows = [list(make_rows())]
    rows.append(list(make_rows(rows[0])))
    for name, own in zip(("before", "now"), rows, strict=True):
        table = tmp_path / f"{name}.jsonl"
        table.write_text("".join(f"{json.dumps(row)}\n" for row in own))
        ingest(table, tmp_path / name, column_types={"weight": "float", "note": "string"})
    expected = {}
    for old, new in zip(*rows, strict=True):
        differing = {
            name: (old[name] or stored[name], new[name] or stored[name])
            for stored in [{"tags": [], "weight": None, "note": ""}]
            for name in stored
            if old[name] != new[name]
        }
        if differing:
            expected[old["image"]] = differing
    found = changes_of(tmp_path / "before", tmp_path / "now")
    assert {name: dict(each.values) for name, each in found.items()} == expected


def test_a_mask_with_as_many_pixels_of_each_class(tmp_path):
    write_scenes(tmp_path / "old", 12)
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    path = tmp_path / "new" / "masks" / "04.png"
    pixels = np.asarray(Image.open(path)).copy()
    pixels[1:] = pixels[1:][::-1]
    path.write_bytes(encode_png(pixels))
    for name in ("old", "new"):
        ingest(tmp_path / name, tmp_path / f"{name}_set", masks=PAIRS)
    (found,) = find_changes(str(tmp_path / "old_set"), str(tmp_path / "new_set")).files
    assert (found.path, found.kinds) == ("images/04.png", ("relabelled",))


def test_a_mask_of_a_renamed_image(tmp_path):
    """Its mask is looked at, too, though as many pixels are of each class."""
    write_scenes(tmp_path / "old", 12)
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    for folder in ("images", "masks"):
        old = next((tmp_path / "new" / folder).glob("04.*"))
        old.rename(old.with_stem("90"))
    path = tmp_path / "new" / "masks" / "90.png"
    path.write_bytes(encode_png(np.asarray(Image.open(path))[::-1]))
    for name in ("old", "new"):
        ingest(tmp_path / name, tmp_path / f"{name}_set", masks=PAIRS)
    (found,) = find_changes(str(tmp_path / "old_set"), str(tmp_path / "new_set")).files
    assert found.path == "images/90.png"
    assert found.kinds == ("renamed", "relabelled")
    assert [*found.values] == ["mask"]


def test_masks_at_another_size_are_stored_otherwise(tmp_path):
    write_scenes(tmp_path / "scenes", 6)
    for name, size_px in (("before", 256), ("now", 8)):
        prepare = {"encoding": "png", "size_px": size_px}
        ingest(tmp_path / "scenes", tmp_path / name, masks=PAIRS, prepare=prepare)
    found = find_changes(str(tmp_path / "before"), str(tmp_path / "now"))
    assert {kind: count for kind, count in found.counts.items() if count} == {"stored otherwise": 6}


def test_missing_numbers_of_a_list_are_no_difference(tmp_path):
    """Not-a-number is what it was, also within a list and where the column is new."""
    (tmp_path / "images").mkdir()
    rows = []
    for number in range(4):
        (tmp_path / "images" / f"{number}.png").write_bytes(encode_png(draw(number)))
        row = {"image": f"images/{number}.png", "label": "cat", "speeds": [1.5, float("nan")]}
        rows.append({**row, "weight": 2.5 if number == 2 else None})
    for name, kept in (("before", 3), ("now", 4)):
        table = pa.Table.from_pylist([dict(list(row.items())[:kept]) for row in rows])
        pq.write_table(table, tmp_path / f"{name}.parquet")
        ingest(tmp_path / f"{name}.parquet", tmp_path / name)
    (found,) = find_changes(str(tmp_path / "before"), str(tmp_path / "now")).files
    assert (found.path, found.kinds) == ("images/2.png", ("other columns",))
    assert found.values == {"weight": (None, 2.5)}


def test_other_options_store_otherwise(tmp_path):
    write_folder(tmp_path / "images", per_class=3)
    ingest(tmp_path / "images", tmp_path / "before")
    ingest(tmp_path / "images", tmp_path / "now", prepare={"encoding": "raw"})
    found = find_changes(str(tmp_path / "before"), str(tmp_path / "now"))
    assert found.options == {"prepare.encoding": ("png", "raw")}
    assert found.counts["stored otherwise"] == 6
    assert {each.values["format"] for each in found.files} == {("png", "raw")}


def test_what_is_no_data_set_is_named(tmp_path, edited):
    with pytest.raises(UserError, match="it has neither manifest"):
        find_changes(str(edited[0]), str(tmp_path))
