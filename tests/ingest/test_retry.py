"""A retry after repairs gives the bytes of a fresh ingest, and reads nothing but the repaired."""

import shutil

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest import shards, unpack
from image_pipeline.components.ingest.retry import Retry, choose_options, write_marker
from image_pipeline.components.ingest.run import run_ingest, run_retry
from image_pipeline.components.ingest.work_folder import WorkFolder
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.folder import list_images, listing_key
from tests.drawings import draw, encode_png, write_folder
from tests.ingest_runs import read_files

pytestmark = pytest.mark.beam

OPTIONS = {
    "splits": {"train": 0.7, "eval": 0.3},
    "shards": 3,
    "max_bad_fraction": 0.5,
    "conflicting_labels": "keep",
}


def make_pipeline():
    return beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS)))


def ingest(images, output, **options):
    chosen = IngestOptions.model_validate(OPTIONS | options)
    run_ingest(str(images), str(output), f"{output}/.work", chosen, make_pipeline)


def retry(images, output, **options):
    chosen = IngestOptions.model_validate(OPTIONS | options) if options else None
    return run_retry(str(images), str(output), f"{output}/.retry", chosen, make_pipeline)


def write_bad_folder(folder):
    """40 images, two of them twice (once before, once after its folder), and four bad files."""
    write_folder(folder, per_class=20)
    for name, data in {
        "cat/bad1.png": b"text",
        "cat/bad2.png": encode_png(draw(1))[:60],
        "dog/000a.png": b"more text",
        "dog/bad3.png": b"",
        "cow/copy.png": (folder / "dog" / "007.png").read_bytes(),
        "cat.d/copy.png": (folder / "cat" / "003.png").read_bytes(),
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def repair(images):
    """Two files become new images, one the copy of a written image that comes after it."""
    (images / "cat" / "bad2.png").write_bytes(encode_png(draw(5001)))
    (images / "dog" / "bad3.png").write_bytes(encode_png(draw(5002)))
    (images / "dog" / "000a.png").write_bytes((images / "dog" / "011.png").read_bytes())


def delete_good(images):
    for path in images.rglob("*.png"):
        if path.name not in ("bad1.png", "bad2.png", "bad3.png", "000a.png"):
            path.unlink()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"duplicates": "keep_all", "group_pattern": r"[^/]+/..(?P<group>.)", "shards": 1},
        {"near_duplicates": 4, "split_pattern": r"(?P<split>x)?", "prepare": {"encoding": "raw"}},
        {"prepare": {"encoding": "original"}, "label_pattern": None, "seed": 3},
    ],
)
def test_the_bytes_are_those_of_a_fresh_ingest_even_if_good_sources_are_gone(tmp_path, options):
    images = write_bad_folder(tmp_path / "images")
    ingest(images, tmp_path / "out", **options)
    repair(images)
    ingest(images, tmp_path / "fresh", **options)
    delete_good(images)
    result = retry(images, tmp_path / "out")
    assert (result.quarantined, result.repaired, result.still_bad, result.gone) == (4, 3, 1, 0)
    assert read_files(tmp_path / "out") == read_files(tmp_path / "fresh")
    assert verify_data_set(str(tmp_path / "out")) == []


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """The bad folder and its data set."""
    folder = tmp_path_factory.mktemp("start")
    ingest(write_bad_folder(folder / "images"), folder / "out")
    return folder


@pytest.fixture
def folder(start, tmp_path):
    shutil.copytree(start, tmp_path / "copy")
    return tmp_path / "copy"


def test_nothing_repaired_changes_nothing(folder):
    before = {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("*")}
    (folder / "images" / "cat" / "bad1.png").unlink()
    result = retry(folder / "images", folder / "out")
    assert (result.repaired, result.still_bad, result.gone) == (0, 3, 1)
    assert {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("*")} == before


def test_bad_files_that_are_gone_leave_the_books(folder):
    repair(folder / "images")
    (folder / "images" / "cat" / "bad1.png").unlink()
    assert retry(folder / "images", folder / "out").gone == 1
    ingest(folder / "images", folder / "fresh")
    assert read_files(folder / "out") == read_files(folder / "fresh")
    assert read_manifest(str(folder / "out")).books.quarantined == 0


def test_files_that_were_never_quarantined_are_not_added(folder):
    repair(folder / "images")
    ingest(folder / "images", folder / "fresh")
    (folder / "images" / "cat" / "new.png").write_bytes(encode_png(draw(7)))
    (folder / "images" / "cat" / "004.png").write_bytes(b"now bad")
    retry(folder / "images", folder / "out")
    assert read_files(folder / "out") == read_files(folder / "fresh")


def test_an_interrupted_retry_goes_on_even_if_all_sources_are_gone(folder, monkeypatch):
    repair(folder / "images")
    ingest(folder / "images", folder / "fresh")
    write_records, calls = shards._write_records, []

    def interrupted(*args):
        calls.append(args)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")
        return write_records(*args)

    monkeypatch.setattr(shards, "_write_records", interrupted)
    with pytest.raises(UserError, match="No space left on device"):
        retry(folder / "images", folder / "out")
    assert not (folder / "out" / "manifest.json").exists()
    shutil.rmtree(folder / "images")
    assert retry(folder / "images", folder / "out").repaired == 3
    assert read_files(folder / "out") == read_files(folder / "fresh")


@pytest.mark.parametrize("pattern", ["retry.json", "prepared/listed-*.arrow"])
def test_an_interrupted_retry_does_not_go_on_from_a_damaged_list(folder, monkeypatch, pattern):
    """A label that was changed there would be in a data set that verifies."""
    repair(folder / "images")

    def interrupted(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(shards, "_write_records", interrupted)
        with pytest.raises(UserError, match="No space left on device"):
            retry(folder / "images", folder / "out")
    (path,) = (folder / "out" / ".retry").glob(pattern)
    content = bytearray(path.read_bytes())
    content[content.index(b"cat" if path.suffix == ".arrow" else b"chunks")] ^= 1
    path.write_bytes(content)
    said = r"list of its images is damaged, or of another .* delete the folder '.*/\.retry' and"
    with pytest.raises(UserError, match=said):
        retry(folder / "images", folder / "out")


def test_a_worker_that_comes_back_from_the_dead_changes_nothing(folder):
    out, work = str(folder / "out"), str(folder / "work")
    options = choose_options(read_manifest(out).options, None)
    own, shard = WorkFolder(work).begin(), unpack.list_shards(out)[0]
    first = unpack.unpack_shard(shard, out, own, options)
    before = read_files(work)
    assert unpack.unpack_shard(shard, out, own, options) != first
    assert before.items() <= read_files(work).items()
    WorkFolder(work).begin()
    before = read_files(work)
    with pytest.raises(UserError, match="Another run has begun"):
        unpack.unpack_shard(shard, out, own, options)
    with pytest.raises(UserError, match="Another run has begun"):
        unpack.list_rows([first], [], str(folder / "images"), out, own, options)
    with pytest.raises(UserError, match="Another run has begun"):
        write_marker([], Retry(0, 0, 0, 0), own, options)
    assert read_files(work) == before


def test_a_stale_working_folder_is_not_gone_on_from(folder):
    """An ingest that came after the interrupted retry has the last word."""
    (folder / "out" / ".retry").mkdir()
    (folder / "out" / ".retry" / "retry.json").write_text("nonsense")
    repair(folder / "images")
    assert retry(folder / "images", folder / "out").repaired == 3
    assert not (folder / "out" / ".retry").exists()


def test_a_damaged_shard_is_not_copied_on(folder):
    repair(folder / "images")
    (shard, *_) = sorted((folder / "out" / "Split-eval").iterdir())
    data = bytearray(shard.read_bytes())
    data[-10] ^= 1
    shard.write_bytes(data)
    before = read_files(folder / "out")
    with pytest.raises(UserError, match=r"00000-of-00003 is damaged \(record .*verify"):
        retry(folder / "images", folder / "out")
    after = {
        name: data for name, data in read_files(folder / "out").items() if ".retry" not in name
    }
    assert after == before


def test_a_conflict_of_labels_ends_when_one_file_is_removed(tmp_path):
    images = write_bad_folder(tmp_path / "images")
    ingest(images, tmp_path / "out", conflicting_labels="quarantine")
    result = retry(images, tmp_path / "out")
    assert (result.quarantined, result.repaired, result.still_bad, result.gone) == (8, 0, 8, 0)
    (images / "cow" / "copy.png").unlink()
    result = retry(images, tmp_path / "out")
    assert (result.quarantined, result.repaired, result.still_bad, result.gone) == (8, 1, 6, 1)
    ingest(images, tmp_path / "fresh", conflicting_labels="quarantine")
    assert read_files(tmp_path / "out") == read_files(tmp_path / "fresh")


def test_a_repaired_copy_of_a_stored_image_of_another_class_is_not_called_repaired(tmp_path):
    images = write_folder(tmp_path / "images", per_class=20)
    (images / "dog" / "bad.png").write_bytes(b"")
    ingest(images, tmp_path / "out", conflicting_labels="quarantine")
    (images / "dog" / "bad.png").write_bytes((images / "cat" / "003.png").read_bytes())
    result = retry(images, tmp_path / "out")
    counts = (result.quarantined, result.repaired, result.still_bad, result.gone)
    assert (*counts, result.changed) == (1, 0, 1, 0, True)
    manifest = read_manifest(str(tmp_path / "out"))
    assert manifest.books.quarantine_reasons == {"conflicting_label": 2}


def test_skipped_files_stay_in_the_books_or_become_images(tmp_path):
    images = write_bad_folder(tmp_path / "images")
    (images / "notes").write_text("About these images.")
    (images / "cat" / "scan").write_text("to be scanned")
    ingest(images, tmp_path / "out")
    repair(images)
    (images / "cat" / "scan").write_bytes(encode_png(draw(5003)))
    ingest(images, tmp_path / "fresh")
    result = retry(images, tmp_path / "out")
    assert (result.quarantined, result.repaired, result.still_bad, result.gone) == (4, 4, 1, 0)
    assert read_manifest(str(tmp_path / "out")).books.skipped_kinds == {"text": 1}
    assert read_files(tmp_path / "out") == read_files(tmp_path / "fresh")


def test_a_data_set_from_before_an_option_is_retried_as_it_was_written():
    stored = IngestOptions().stored_form()
    del stored["follow_links"], stored["conflicting_labels"]
    chosen = choose_options(stored, None)
    assert (chosen.follow_links, chosen.conflicting_labels) == (True, "keep")


def test_other_options_are_refused(folder):
    message = r"ingest.prepare.size_px was 256, now 64; ingest.seed was 0, now 1; leave out"
    with pytest.raises(UserError, match=message):
        retry(folder / "images", folder / "out", seed=1, prepare={"size_px": 64})


def test_threads_are_no_other_option():
    stored = IngestOptions().stored_form()
    assert choose_options(stored, IngestOptions(threads=3)).threads == 3


def test_options_of_another_version_are_explained():
    with pytest.raises(UserError, match="options that this version does not know"):
        choose_options({"colour": "red"}, None)


@pytest.mark.parametrize(("name", "message"), [("", "is not a data"), ("none", "does not exist")])
def test_a_missing_data_set_is_explained(tmp_path, name, message):
    with pytest.raises(UserError, match=f"{message}.*: it has n.*manifest.json"):
        retry(tmp_path, tmp_path / name)


def test_the_listing_key_sorts_as_the_listing_does(tmp_path):
    names = ["a/x", "a.jpg", "a-b/c", "a/b/c", "B", "ä", "a\udcff", "a/\udcff.png", "a/é"]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    listed = [ref.path for ref in list_images(str(tmp_path))]
    assert sorted(names, key=lambda path: listing_key(path, str(tmp_path))) == listed


def test_an_interrupted_retry_does_not_go_on_over_the_shards_of_an_ingest(folder, monkeypatch):
    repair(folder / "images")

    def interrupted(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(shards, "_write_records", interrupted)
        for begin in (retry, ingest):
            with pytest.raises(UserError, match="No space left on device"):
                begin(folder / "images", folder / "out")
    with pytest.raises(UserError, match=r"is incomplete: it has no manifest\.json"):
        retry(folder / "images", folder / "out")
    ingest(folder / "images", folder / "out")
    ingest(folder / "images", folder / "fresh")
    assert read_files(folder / "out") == read_files(folder / "fresh")
