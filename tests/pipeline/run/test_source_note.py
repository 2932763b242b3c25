"""A finished data set is not replaced by that of other images or options by mistake."""

import json
import shutil

import pytest

from image_pipeline.api import ingest
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.paths import MANIFEST
from image_pipeline.components.errors import UserError
from image_pipeline.show.ingest_summary import ingest_rows
from tests.drawings import draw, encode_png, write_folder

pytestmark = pytest.mark.beam

OPTIONS = {"shards": 2, "splits": {"train": 0.7, "eval": 0.3}, "max_bad_fraction": 0.5}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    write_folder(folder / "images", per_class=10)
    write_folder(folder / "others", classes=("ant", "bee"), per_class=5)
    ingest(str(folder / "images"), str(folder / "out"), **OPTIONS)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    """The images, other images, and a data set that is known to be of the former."""
    for name in ("images", "others"):
        (tmp_path / name).symlink_to(made / name)
    shutil.copytree(made / "out", tmp_path / "out")
    return tmp_path


def _count(folder):
    return read_manifest(str(folder / "out")).books.written


def test_other_images_are_refused_unless_asked(folder):
    message = r"20 records, made from '.*/images', but --images is '.*/others'; .*--replace"
    with pytest.raises(UserError, match=message):
        ingest(str(folder / "others"), str(folder / "out"), **OPTIONS)
    assert _count(folder) == 20
    summary = ingest(str(folder / "others"), str(folder / "out"), replace=True, **OPTIONS)
    assert (_count(folder), summary["written_before"]) == (10, 20)
    assert dict(ingest_rows(summary))["written"].endswith("; 20 before")
    with pytest.raises(UserError, match=r"made from '.*/others'"):
        ingest(str(folder / "images"), str(folder / "out"), **OPTIONS)


def test_an_option_that_was_not_set_before_is_another_option(folder):
    message = r"ingest.leave_out was None, now \['cat/000.png'\]\); .*--replace"
    with pytest.raises(UserError, match=message):
        ingest(str(folder / "images"), str(folder / "out"), **OPTIONS, leave_out=["cat/000.png"])
    assert _count(folder) == 20
    more = {**OPTIONS, "leave_out": ["cat/000.png"]}
    ingest(str(folder / "images"), str(folder / "out"), replace=True, **more)
    with pytest.raises(UserError, match=r"ingest.leave_out was \['cat/000.png'\], now None"):
        ingest(str(folder / "images"), str(folder / "out"), **OPTIONS)


def test_a_long_list_is_not_spelled_out_in_a_message(folder):
    first, second = ([f"{start + number}.png" for number in range(500)] for start in (0, 1))
    out = str(folder / "listed")
    ingest(str(folder / "images"), out, **OPTIONS, leave_out=first)
    message = r"ingest.leave_out was \['0.png', .*, \.\.\.\], now"
    with pytest.raises(UserError, match=message) as error:
        ingest(str(folder / "images"), out, **OPTIONS, leave_out=second)
    assert len(str(error.value)) < 1000


def test_other_options_are_refused_unless_asked(folder):
    message = (
        r"with other options \(ingest.prepare.size_px was 256, now 64; ingest.seed was 0, now 1"
    )
    changed = OPTIONS | {"seed": 1, "prepare": {"size_px": 64}}
    with pytest.raises(UserError, match=message):
        ingest(str(folder / "images"), str(folder / "out"), **changed)
    ingest(str(folder / "images"), str(folder / "out"), replace=True, **changed)
    assert read_manifest(str(folder / "out")).options["seed"] == 1


def test_the_same_source_goes_on_by_any_name_and_with_changed_files(made, folder, tmp_path):
    (tmp_path / "link").symlink_to(made / "images")
    free = {"threads": 1, "max_bad_fraction": 0.1}
    ingest(str(tmp_path / "link"), str(folder / "out"), **OPTIONS | free)
    changed = tmp_path / "changed"
    shutil.copytree(made / "images", changed)
    ingest(str(changed), str(tmp_path / "second"), **OPTIONS)
    for path in sorted(changed.rglob("*.png"))[:15]:
        path.unlink()
    (changed / "cat" / "new.png").write_bytes(encode_png(draw(77)))
    assert ingest(str(changed), str(tmp_path / "second"), **OPTIONS)["written"] == 6


def _forget(folder):
    """Makes the data set one from before its source was noted, or manifests had a checksum."""
    (folder / "out" / ".source.json").unlink()
    path = folder / "out" / MANIFEST
    manifest = json.loads(path.read_text())
    for name in ("manifest_sha256", "skipped", "skipped_kinds", "skipped_examples"):
        del manifest[name]
    for name in ("follow_links", "conflicting_labels"):
        del manifest["options"][name]
    path.write_text(json.dumps(manifest))


def test_of_an_older_data_set_the_names_of_its_files_tell(folder):
    _forget(folder)
    with pytest.raises(
        UserError, match="made from other images: half of its files are missing there"
    ):
        ingest(str(folder / "others"), str(folder / "out"), **OPTIONS)
    with pytest.raises(UserError, match=r"ingest.shards was 2, now 1"):
        ingest(str(folder / "images"), str(folder / "out"), **OPTIONS | {"shards": 1})
    ingest(str(folder / "images"), str(folder / "out"), **OPTIONS)
    assert read_manifest(str(folder / "out")).checksum is not None


def test_a_note_of_another_manifest_does_not_count(folder):
    note = folder / "out" / ".source.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"manifest": "0" * 64}))
    ingest(str(folder / "images"), str(folder / "out"), **OPTIONS)


def test_an_interrupted_run_is_gone_on_from_by_anyone(folder):
    (folder / "out" / MANIFEST).unlink()
    assert ingest(str(folder / "others"), str(folder / "out"), **OPTIONS)["written"] == 10


def test_a_damaged_data_set_is_replaced_only_if_asked(folder):
    (folder / "out" / MANIFEST).write_text("{")
    with pytest.raises(UserError, match=r"holds a damaged data set .*--replace"):
        ingest(str(folder / "images"), str(folder / "out"), **OPTIONS)
    ingest(str(folder / "images"), str(folder / "out"), replace=True, **OPTIONS)
    assert _count(folder) == 20
