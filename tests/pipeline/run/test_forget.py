"""Pictures that are forgotten: no file has their bytes, and models that were fed them are named."""

import base64
import contextlib
import dataclasses
import io
import json
import pathlib

import cv2
import numpy as np
import pytest
from PIL import Image

from image_pipeline import api, cli
from image_pipeline.components.dataset.index import read_index, read_table
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.paths import FORGET
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.certificate import (
    FedBatches,
    certify,
    write_certificate,
)
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.run import forget as forgetting
from image_pipeline.run_folder import DATA_SETS
from tests.drawings import draw, draw_smooth, encode_png, write_folder
from tests.ingest_runs import read_files, read_lines, stopped_at_a_shard

pytestmark = pytest.mark.beam

OPTIONS = {
    "shards": 2,
    "splits": {"train": 0.7, "eval": 0.3},
    "max_bad_fraction": 0.5,
    "prepare": {"encoding": "png"},
}
BAD = b"no picture, but bytes of a person: " + bytes(range(100, 200))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of images with a copy, a look-alike and a damaged file, and its data set."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    images = write_folder(tmp_path / "images", per_class=8)
    (images / "dog" / "copy.png").write_bytes((images / "dog" / "003.png").read_bytes())
    # The same pixels in another file are stored as the same bytes.
    Image.fromarray(draw(1003)).save(images / "dog" / "003.bmp")
    smooth = draw_smooth(5)
    (images / "cat" / "smooth.png").write_bytes(encode_png(smooth))
    (images / "cat" / "small.png").write_bytes(encode_png(cv2.resize(smooth, (96, 72))))
    (images / "cat" / "bad.png").write_bytes(BAD)
    ingest(tmp_path)
    return tmp_path


def ingest(folder, out="out", **options):
    return api.ingest(str(folder / "images"), str(folder / out), **OPTIONS | options)


def forget(folder, capsys, *arguments):
    """The exit code and what is said as JSON."""
    code = cli.call(["forget", str(folder / "out"), *map(str, arguments), "--yes", "--json"])
    said = capsys.readouterr()
    return code, json.loads(said.out) if said.out else said.err


def open_records(data_dir):
    """What reads the records, and their names."""
    splits = read_manifest(str(data_dir)).list_shards()
    paths = [str(data_dir / shard.file) for _, _, shard in splits]
    return StoredRecords(read_index(paths)), read_table(paths, ["source"])["source"].to_pylist()


def read_stored(folder, path):
    records, names = open_records(folder / "out")
    return bytes(records.read_image(names.index(path)).encoded)


def holders(folder, *contents):
    """The files that have some bytes as they are or in base64, by a search of its own."""
    forms = [form for each in contents for form in (each, base64.b64encode(each)[4:-4])]
    return {
        name for name, data in read_files(folder).items() if any(form in data for form in forms)
    }


def pixels_of(data_dir):
    records, names = open_records(data_dir)
    images = (Image.open(io.BytesIO(records.read_image(row).encoded)) for row in range(len(names)))
    return {name: np.asarray(image) for name, image in zip(names, images, strict=True)}


def test_a_picture_leaves_with_its_copies_and_what_is_stored_as_the_same(folder, capsys):
    original = (folder / "images" / "dog" / "003.png").read_bytes()
    stored = read_stored(folder, "dog/003.png")
    assert holders(folder / "out", original, stored)
    code, said = forget(folder, capsys, "dog/copy.png")
    assert code == 0 and said["done"] and said["held"] == [] and said["unsought"] == []
    found = {each["path"]: (each["why"], each["became"]) for each in said["pictures"]}
    assert found.keys() == {"dog/003.png", "dog/003.bmp", "dog/copy.png"}
    assert found["dog/copy.png"] == ("named", "duplicate")
    assert found["dog/003.png"] == found["dog/003.bmp"] == ("the same bytes", "record")
    assert all(each["original"] for each in said["pictures"])
    assert holders(folder / "out", original, stored) == set()
    assert not any(np.array_equal(each, draw(1003)) for each in pixels_of(folder / "out").values())
    assert verify_data_set(str(folder / "out")) == []
    files = [path for path in (folder / "out").rglob("*") if path.is_file()]
    assert said["files"] == len(files)
    # It is the data set that an ingest without them writes.
    ingest(folder, "fresh", leave_out=sorted(found))
    books = [read_manifest(str(folder / out)).books for out in ("out", "fresh")]
    assert (
        books[0] == books[1]
        and pixels_of(folder / "out").keys() == pixels_of(folder / "fresh").keys()
    )
    assert said["data_set"]["written"] == said["data_set"]["written_before"] - 2


def test_what_looks_alike_is_forgotten_if_it_is_asked_for(folder, capsys):
    assert cli.call(["forget", str(folder / "out"), "cat/smooth.png", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert [each["path"] for each in alone["pictures"]] == ["cat/smooth.png"]
    assert not alone["done"] and "cat/smooth.png" in pixels_of(folder / "out")
    code, said = forget(folder, capsys, "cat/smooth.png", "--near")
    assert code == 0
    assert [(each["path"], each["why"]) for each in said["pictures"]] == [
        ("cat/smooth.png", "named"),
        ("cat/small.png", "looks alike"),
    ]
    assert {"cat/smooth.png", "cat/small.png"}.isdisjoint(pixels_of(folder / "out"))


def test_a_picture_in_quarantine_leaves_with_its_copy(folder, capsys):
    assert len(holders(folder / "out", BAD)) == 1
    other = folder / "elsewhere.png"
    other.write_bytes(BAD)
    code, said = forget(folder, capsys, other)  # By a file of the same bytes.
    (found,) = said["pictures"]
    assert (code, found["path"], found["became"]) == (0, "cat/bad.png", "quarantined")
    assert holders(folder / "out", BAD) == set()
    assert read_lines(folder / "out" / "quarantine.jsonl") == []
    (skipped,) = read_lines(folder / "out" / "skipped.jsonl")
    assert (skipped["path"], skipped["kind"]) == ("cat/bad.png", "left_out")
    ingest(folder, leave_out=["cat/bad.png"])  # As the options are now, so it stays away.


def test_reports_and_caches_are_deleted_and_what_else_holds_it_is_named(folder, capsys):
    stored = read_stored(folder, "cat/001.png")
    original = (folder / "images" / "cat" / "001.png").read_bytes()
    run = folder / "run"
    run.mkdir()
    assert cli.call(["report", str(folder / "out"), "--output", str(run / "page.html")]) == 0
    assert cli.call(["report", str(folder / "out"), "--output", str(folder / "out/a.html")]) == 0
    cache = folder / "temporary" / "image-pipeline-records" / "of a store" / "000000"
    cache.parent.mkdir(parents=True)
    cache.write_bytes(bytes(50) + stored)
    log = run / "events.out.tfevents.1.here"
    log.write_bytes(b"header" + original + b"footer")
    page = run / "other.html"
    encoded = base64.b64encode(stored).decode()
    page.write_text(f'<img alt="cat/001.png" loading="lazy" src="data:image/png;base64,{encoded}">')
    ingest(folder, "run/second")
    api.write_parquet(str(folder / "out"), str(run / "export"))
    capsys.readouterr()
    code, said = forget(folder, capsys, "cat/001.png", "--scan", run)
    assert code == 1
    assert said["deleted"] == sorted(map(str, [folder / "out/a.html", run / "page.html", cache]))
    held = {pathlib.Path(each["file"]): each["way_out"] for each in said["held"]}
    (parquet,) = (path for path in held if path.suffix == ".parquet")
    (shard,) = held.keys() - {log, page, parquet}
    assert "TensorBoard" in held[log] and "make it again" in held[page]
    assert held[shard].endswith(f"image-pipeline forget {run / 'second'}")
    assert {str(path.relative_to(run)) for path in held} >= holders(run, stored, original)
    # It is begun until nothing holds it; the windows are known, though no picture is.
    (folder / "images" / "cat" / "001.png").unlink()
    for path in (page, log, parquet):
        path.unlink()
    code, said = forget(folder, capsys)
    assert code == 1 and [each["file"] for each in said["held"]] == [str(shard)]
    assert cli.call(["forget", str(run / "second"), "cat/001.png", "--yes", "--images",
                     str(folder / "images")]) == 0  # fmt: skip
    capsys.readouterr()
    code, said = forget(folder, capsys)
    assert code == 0 and [each["original"] for each in said["pictures"]] == [False]
    assert not (folder / "out" / FORGET).exists() and holders(run, stored, original) == set()
    assert forget(folder, capsys)[0] == 1


def test_a_plain_picture_is_told_from_others_and_a_log_that_may_show_it_is_named(tmp_path, capsys):
    (tmp_path / "images" / "a").mkdir(parents=True)
    for number in range(12):
        pixels = np.full((64, 64, 3), 20 * number, np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / "a" / f"{number:02d}.jpg", quality=95)
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "events.out.tfevents.1.here"
    log.write_bytes(b"the pixels, encoded again")
    ingest(tmp_path, prepare={"encoding": "jpeg"})
    code, said = forget(tmp_path, capsys, "a/05.jpg", "--scan", tmp_path / "logs")
    assert (code, said["held"], said["unsought"]) == (0, [], [])
    assert list(said["unread"]) == [str(log)] and "TensorBoard" in said["unread"][str(log)]
    assert not (tmp_path / "out" / FORGET).exists()


def test_models_that_were_fed_it_are_named_with_their_steps(folder, capsys):
    shards = sorted(map(str, (folder / "out" / "Split-train").iterdir()))
    feeding = FeedingOptions(batch_size=4, augment=())
    records = read_manifest(str(folder / "out")).splits["train"].records
    steps = -(-records // 4)
    fed = certify(shards, ViewOptions(height_px=8, width_px=8), feeding, 3, steps).until(2, 1)
    write_certificate(str(folder / "model" / "assets.extra"), fed)
    lost = dataclasses.replace(fed.parts[0], data=[("0" * 64, "train")])
    write_certificate(str(folder / "lost"), dataclasses.replace(fed, parts=[lost]))
    batches = FedBatches(fed, [str(folder / "out")])
    names = [[each.source for each in batches.list_batch(step)] for step in range(2 * steps + 1)]
    first = next(name for name in names[0] if not name.startswith("dog/003"))
    assert {each.mirrored for each in batches.list_batch(0)} == {None}  # Not said without views.
    fed_names = {name for batch in names for name in batch}
    of_eval = min(pixels_of(folder / "out").keys() - fed_names)
    (folder / "model" / ".pixel_sums").write_bytes(b"sums")
    write_certificate(str(folder / "empty"), dataclasses.replace(fed, parts=[]))
    scan = ("--scan", folder / "model", "--scan", folder / "lost", "--scan", folder / "empty")
    code, said = forget(folder, capsys, first, of_eval, *scan)
    assert code == 0
    assert said["sums"] == [str(folder / "model" / ".pixel_sums")]
    damaged, unknown, seen = sorted(said["seen"], key=lambda each: each["model"])
    assert damaged["model"] == str(folder / "empty") and "is damaged" in damaged["problem"]
    assert unknown["model"] == str(folder / "lost") and "0" * 64 in unknown["problem"]
    expected = [list(divmod(step, steps)) for step, batch in enumerate(names) if first in batch]
    assert len(expected) in (2, 3) and expected[0] == [0, 0]
    assert seen == {
        **{"model": str(folder / "model" / "assets.extra"), "path": first},
        **{"times": expected, "problem": ""},
    }


class Killed(BaseException):
    """As a signal raises."""


@contextlib.contextmanager
def killed_before_the_search(monkeypatch):
    def stop(*arguments):
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(forgetting, "BytesFinder", stop)
        yield


@pytest.mark.parametrize("stopped", [stopped_at_a_shard, killed_before_the_search])
@pytest.mark.parametrize("again", [[], ["cat/002.png"]])
def test_who_is_stopped_goes_on(folder, capsys, monkeypatch, stopped, again):
    stored = read_stored(folder, "cat/002.png")
    (folder / "kept").mkdir()
    (folder / "kept" / "copy").write_bytes(stored)
    arguments = (str(folder / "out"), ["cat/002.png"], False, None, [str(folder / "kept")])
    with stopped(monkeypatch):
        forgetting.forget_pictures(*forgetting.plan_forgetting(*arguments))
    assert (folder / "out" / FORGET).exists()
    code, said = forget(folder, capsys, *again)
    assert code == 1
    assert [each["file"] for each in said["held"]] == [str(folder / "kept" / "copy")]
    assert holders(folder / "out", stored) == set()
    (folder / "kept" / "copy").unlink()
    assert forget(folder, capsys)[0] == 0


def test_what_the_data_set_lacks_is_refused_with_the_nearest(folder, capsys):
    before = read_files(folder / "out")
    with pytest.raises(UserError, match=r"no picture called 'cat/04\.png'"):
        api.forget(str(folder / "out"), "cat/04.png", yes=True)
    code, said = forget(folder, capsys, "cat/04.png")
    assert code == 1 and "no picture called 'cat/04.png'; did you mean cat/004.png" in said
    (folder / "other.png").write_bytes(encode_png(draw(99)))
    code, said = forget(folder, capsys, folder / "other.png")
    assert code == 1 and "no picture of the bytes of" in said
    code, said = forget(folder, capsys)
    assert code == 1 and "Nothing is to be forgotten" in said
    assert read_files(folder / "out") == before


def test_a_list_names_pictures(folder, capsys):
    (folder / "list.txt").write_text("cat/001.png\r\ndog/005.png\n\n")
    code, said = forget(folder, capsys, "cat/004.png", "--list", folder / "list.txt")
    assert code == 0
    gone = {"cat/001.png", "cat/004.png", "dog/005.png"}
    assert {each["path"] for each in said["pictures"]} == gone
    assert gone.isdisjoint(pixels_of(folder / "out"))


def test_images_that_are_gone_are_asked_for(folder, capsys):
    """The picture's own file may be gone; others are not lost on the way."""
    images = folder / "images"
    (images / "cat" / "001.png").unlink()
    (images / "dog" / "001.png").unlink()
    code, said = forget(folder, capsys, "cat/001.png")
    assert (
        code == 1
        and "1 other files of the data set are no longer in" in said
        and "'dog/001.png'" in said
    )
    assert "cat/001.png" in pixels_of(folder / "out")
    (images / "dog" / "001.png").write_bytes(encode_png(draw(1001)))
    images.rename(folder / "moved")
    assert forget(folder, capsys, "cat/001.png")[0] == 1
    code, said = forget(folder, capsys, "cat/001.png", "--images", folder / "moved")
    assert code == 0 and [each["original"] for each in said["pictures"]] == [False]
    assert "cat/001.png" not in pixels_of(folder / "out")


def test_nothing_is_done_without_a_yes(folder, capsys, monkeypatch):
    before = read_files(folder / "out")
    (found,) = api.forget(str(folder / "out"), ["cat/001.png"])["pictures"]
    assert (found.path, found.why, found.became) == ("cat/001.png", "named", "record")
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert cli.call(["forget", str(folder / "out"), "cat/001.png"]) == 1
    assert "cat/001.png  named  record" in capsys.readouterr().out
    assert read_files(folder / "out") == before
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert cli.call(["forget", str(folder / "out"), "cat/001.png"]) == 0
    assert "No file that was searched holds them." in capsys.readouterr().out


def test_a_run_names_its_data_set(folder):
    data_dir = folder / "run" / DATA_SETS / "1"
    data_dir.parent.mkdir(parents=True)
    (folder / "out").rename(data_dir)
    with pytest.raises(UserError, match=f"write: image-pipeline forget {data_dir}"):
        api.forget(str(folder / "run"), "cat/001.png")
    (data_dir / ".source.json").unlink()  # As TFX writes it.
    with pytest.raises(UserError, match="name them by --images"):
        api.forget(str(data_dir), "cat/001.png")
    where = {"images_dir": str(folder / "images"), "scan": [str(folder / "run")]}
    assert api.forget(str(data_dir), "cat/001.png", **where, yes=True)["held"] == []
    assert "cat/001.png" not in pixels_of(data_dir)


def test_a_store_is_refused():
    with pytest.raises(UserError, match=r"files of this machine, got 's3://a/b'.* --versions 0"):
        forgetting.plan_forgetting("s3://a/b", ["x.png"])
