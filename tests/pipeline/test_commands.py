"""The commands around a data set, as a person meets them."""

import json
import os
import shutil

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from click.testing import CliRunner

from image_pipeline.cli import cli
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.run_folder import DATA_SETS
from image_pipeline.show.forecast import free_disk_bytes, warning_rows
from tests.drawings import draw, encode_png, write_folder

pytestmark = pytest.mark.beam


def call(*arguments):
    """Runs a command in this process; a UserError, which `main` would print, is returned."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if isinstance(result.exception, UserError):
        return result, str(result.exception)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result, result.output


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A data set of 20 images, and two files in quarantine."""
    folder = tmp_path_factory.mktemp("commands")
    images = write_folder(folder / "images", per_class=10)
    (images / "cat" / "bad.png").write_bytes(b"text")
    with open(os.fsencode(images / "dog") + b"/\xff[x].png", "wb") as file:
        file.write(b"")
    run_ingest(
        str(images),
        str(folder / "out"),
        str(folder / "out" / ".work"),
        IngestOptions(max_bad_fraction=0.5, splits={"train": 0.6, "eval": 0.4}),
        lambda: beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS))),
    )
    return folder


@pytest.fixture
def folder(start, tmp_path):
    """A copy that a test may change."""
    shutil.copytree(start, tmp_path / "copy")
    return tmp_path / "copy"


def test_verify_lists_what_is_damaged_and_exits_with_1(folder):
    (shard,) = (folder / "out" / "Split-train").iterdir()
    data = bytearray(shard.read_bytes())
    data[20] ^= 1
    shard.write_bytes(data)
    result, output = call("verify", folder / "out")
    first, last = output.splitlines()
    assert result.exit_code == 1
    assert first.startswith("Split-train/data_tfrecord-00000-of-00001 record 0 (")
    assert first.endswith("at byte 0: its data or the data's checksum is damaged")
    assert last == "1 finding"
    result, output = call("verify", folder / "out", "--json")
    assert result.exit_code == 1
    (finding,) = json.loads(output)["findings"]
    assert (finding["record"], finding["offset"]) == (0, 0)


def test_verify_of_no_folder_is_explained(tmp_path):
    _, message = call("verify", tmp_path / "none")
    assert message.startswith("There is no data set")


@pytest.mark.parametrize("command", ["verify", "verify --epoch 0", "analyze"])
def test_where_a_run_is_named_its_data_set_is_told(folder, tmp_path, command):
    examples = tmp_path / "run" / "artifacts" / "ImageExampleGen" / "examples"
    for number in (9, 12):
        shutil.copytree(folder / "out", examples / str(number))
    further = ["--output", tmp_path / "graph"] if command == "analyze" else []
    _, message = call(*command.split(), tmp_path / "run", *further)
    assert message == (
        f"'{tmp_path}/run' is a run's folder, not a data set's; for its latest data set, "
        f"write: image-pipeline {command.removesuffix(' --epoch 0')} {examples}/12"
    )


def test_analyze_says_what_it_knew_of_an_earlier_graph(folder, tmp_path, capfd):
    first, second = tmp_path / "first", tmp_path / "second"
    small = ("--set", "view.height_px=8", "--set", "view.width_px=8")
    call("analyze", folder / "out", "--output", first, *small)
    assert "had the sums" not in capfd.readouterr().out
    call("analyze", folder / "out", "--output", second, "--earlier", first, *small)
    records = json.loads((first / "analysis.json").read_text())["records"]
    known = f"{first} had the sums of {records} images, which were not decoded again"
    assert f"\n{known}.\n" in capfd.readouterr().out
    result, _ = call("analyze", folder / "out", "--output", first, "--json", *small)
    assert json.loads(result.output)["earlier"] == known


@pytest.mark.parametrize("command", ["ingest --output", "init --output", "plan --output"])
def test_of_a_pattern_of_spans_one_is_asked_for(tmp_path, command):
    write_folder(tmp_path / "days" / "2026-01-31")
    pattern = f"{tmp_path}/days/{{YYYY}}-{{MM}}-{{DD}}"
    images = [pattern] if command.startswith("init") else ["--images", pattern]
    _, message = call(*command.split(), tmp_path / "out", *images)
    assert message == (
        f"{pattern!r} is a pattern of spans, of which only `run` chooses one itself; give a "
        f"span's own images here, such as '{tmp_path}/days/2026-01-31'."
    )


def test_quarantine_list_shows_counts_then_files(folder):
    result, output = call("quarantine", "list", folder / "out")
    lines = output.splitlines()
    assert result.exit_code == 0
    assert [line.split() for line in lines[:2]] == [["empty", "1"], ["not_an_image", "1"]]
    assert lines[3].startswith("cat/bad.png      not_an_image  ")
    assert lines[4].startswith(r"dog/\xff[x].png  empty         ")
    files = json.loads(call("quarantine", "list", folder / "out", "--json")[1])["files"]
    assert [line["path"] for line in files] == ["cat/bad.png", "dog/\udcff[x].png"]


def test_quarantine_list_takes_the_latest_data_set_of_a_run(folder, tmp_path):
    examples = tmp_path / "run" / "artifacts" / "ImageExampleGen" / "examples"
    shutil.copytree(folder / "out", examples / "12")
    assert (
        call("quarantine", "list", tmp_path / "run")[1]
        == (call("quarantine", "list", folder / "out")[1])
    )


def test_quarantine_list_shows_what_a_refused_ingest_could_not_use(tmp_path):
    images = write_folder(tmp_path / "images", per_class=10)
    out, bad = tmp_path / "out", images / "cat" / "bad.png"
    ingest = ("ingest", "--images", images, "--output", out, "--set", "ingest.seed=1")
    bad.write_bytes(b"text")
    _, message = call(*ingest)
    assert message.startswith("1 of 21 files are not usable")
    _, output = call("quarantine", "list", out)
    first, counts, _, line = output.splitlines()
    assert first == "The last ingest was refused, and wrote no data set. It cannot use:"
    assert counts.split() == ["not_an_image", "1"]
    assert line.startswith("cat/bad.png  not_an_image  ")
    listed = json.loads(call("quarantine", "list", out, "--json")[1])
    assert listed["refused"] and [each["path"] for each in listed["files"]] == ["cat/bad.png"]
    # A later one tells of itself, whether it is done or refused again.
    assert call(*ingest, "--set", "ingest.max_bad_fraction=0.5")[0].exit_code == 0
    assert not json.loads(call("quarantine", "list", out, "--json")[1])["refused"]
    (images / "dog" / "000.png").write_bytes(b"")
    call(*ingest, "--replace")
    listed = json.loads(call("quarantine", "list", out, "--json")[1])
    assert listed["refused"] and listed["reasons"] == {"empty": 1, "not_an_image": 1}


def test_quarantine_list_of_a_run_shows_what_its_last_ingest_could_not_use(folder, tmp_path):
    examples = tmp_path / "run" / DATA_SETS
    refused = examples / ".work-a" / "quarantine.jsonl"
    refused.parent.mkdir(parents=True)
    line = {"path": "cat/x.png", "reason": "empty", "message": "", "bytes": 0, "sha256": None}
    refused.write_text(json.dumps(line) + "\n")
    found = json.loads(call("quarantine", "list", tmp_path / "run", "--json")[1])
    told = {"version": 1, "reasons": {"empty": 1}, "files": [line], "refused": True}
    assert found == told
    shutil.copytree(folder / "out", examples / "12")
    os.utime(examples / "12" / "manifest.json")
    found = json.loads(call("quarantine", "list", tmp_path / "run", "--json")[1])
    assert not found["refused"] and len(found["files"]) == 2


def test_quarantine_list_of_no_data_set_is_explained(tmp_path):
    _, message = call("quarantine", "list", tmp_path)
    assert "is not a data set: it has neither manifest.json nor shards" in message


def test_update_adds_what_was_repaired(folder):
    (folder / "images" / "cat" / "bad.png").write_bytes(encode_png(draw(77)))
    update = ("update", folder / "out", "--images", folder / "images", "--json")
    summary = json.loads(call(*update)[1])
    assert (summary["taken"], summary["written"], summary["quarantined"]) == (20, 21, 1)
    assert call("verify", folder / "out")[0].exit_code == 0


def test_update_of_a_run_says_to_run_again(folder, tmp_path):
    data_set = tmp_path / DATA_SETS / "3"
    shutil.copytree(folder / "out", data_set)
    _, message = call("update", tmp_path, "--images", folder / "images")
    assert "is a run's folder, whose data sets stay as they are; run again" in message


def test_update_of_no_data_set_writes_nothing(tmp_path):
    _, message = call("update", tmp_path / "none", "--images", tmp_path)
    assert "does not exist: it has no manifest.json" in message
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("good", "way_out"),
    [
        (3, "Repair or remove them, or raise ingest.max_bad_fraction."),
        (0, "Repair or remove them."),
    ],
)
def test_to_allow_more_bad_files_is_no_way_out_if_all_are(tmp_path, good, way_out):
    write_folder(tmp_path / "images", per_class=good)
    for name in ("cat", "dog"):
        (tmp_path / "images" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / name / "bad.png").write_bytes(b"text")
    arguments = ("--images", tmp_path / "images", "--output", tmp_path / "out")
    result, message = call("ingest", *arguments)
    assert result.exit_code != 0
    assert message.splitlines()[-1].strip() == way_out


def test_plan_writes_nothing(folder):
    result, _ = call("plan", "--images", folder / "images", "--output", folder / "a" / "b")
    assert result.exit_code == 0 and not (folder / "a").exists()


def test_plan_counts_what_is_skipped_as_ingest_does(folder):
    (folder / "images" / "cat" / "note.txt").write_text("a note")
    allowed = ("--set", "ingest.max_bad_fraction=0.1")  # 2 of 22 are bad; 3 of 23 are not images.
    _, output = call("plan", "--images", folder / "images", "--output", folder, *allowed)
    lines = output.splitlines()
    at = lines.index("skipped                  files that are not images")
    assert lines[at + 1].startswith("  text                   1 of")
    assert "too many bad files" not in output


def test_plan_forecasts_a_cluster(folder):
    arguments = ("plan", "--images", folder / "images", "--sample", 5, "--cores", 4)
    forecast = json.loads(call(*arguments, "--core-price", 100, "--json")[1])
    cluster = forecast["cluster"]
    serial = forecast["serial_seconds"]
    parallel = forecast["cpu_seconds"] - serial
    assert cluster["seconds"] == pytest.approx(1 + serial + parallel / 4, abs=0.1)
    assert cluster["core_hours"] == pytest.approx(4 * cluster["seconds"] / 3600, abs=1e-3)
    assert cluster["cost"] == pytest.approx(100 * cluster["core_hours"], abs=0.06)
    output = call(*arguments)[1]
    assert "on 4 cores               about 1 s once its machines have started, 0.00" in output
    assert "price" not in output
    result, output = call(*arguments[:-2], "--core-price", 1)
    assert result.exit_code == 2 and "--core-price is the price of one of --cores" in output


def test_plan_of_no_folder_is_explained(tmp_path):
    assert "does not exist; give one that exists" in call("plan", "--images", tmp_path / "none")[1]


def test_a_small_disk_is_a_warning(folder):
    from image_pipeline.components.ingest.forecast import forecast_ingest

    forecast = forecast_ingest(str(folder / "images"), IngestOptions(), 10)
    options = IngestOptions(max_bad_fraction=1)
    assert warning_rows(forecast, options, forecast.peak_disk_bytes) == []
    ((name, text),) = warning_rows(forecast, options, 0)
    assert name == "disk too small" and "too little" in text


def test_free_disk_of_a_folder_that_does_not_exist_yet(tmp_path):
    assert free_disk_bytes(str(tmp_path / "a" / "b")) > 0
    assert free_disk_bytes("gs://bucket/folder") is None


def test_verify_of_an_epoch_tells_records_steps_and_quality(folder):
    small = ("--set", "feeding.batch_size=4")
    result, output = call("verify", folder / "out", "--epoch", 2, *small)
    first, header, *figures = output.splitlines()
    records = json.loads((folder / "out" / "manifest.json").read_text())["splits"]["train"]
    count = records["records"]
    assert result.exit_code == 0
    assert first == f"Epoch 2: {count} records, each exactly once, in {-(-count // 4)} steps."
    assert header.split() == ["shuffle", "here", "ideal"]
    assert [line.split()[0] for line in figures] == ["rank", "repeated", "classes", "label"]
    verified = json.loads(call("verify", folder / "out", "--epoch", 2, "--json", *small)[1])
    assert (verified["records"], verified["draws"]) == (count, count)
    assert verified["quality"]["rank_correlation"] == pytest.approx(
        float(figures[0].split()[2]), abs=1e-4
    )


def test_verify_of_an_epoch_goes_by_the_options(folder):
    options = ("many_views.crops=3", "augment=[pad_and_crop]", "remainder=pad", "batch_size=5")
    flags = [flag for option in options for flag in ("--set", f"feeding.{option}")]
    first, *_ = call("verify", folder / "out", "--epoch", 0, *flags)[1].splitlines()
    draws = 3 * read_manifest(str(folder / "out")).splits["train"].records
    steps = -(-draws // 5)
    assert "views of" in first and f"records, as often as due, in {steps} steps; " in first
    assert first.endswith(f"{5 * steps - draws} more pad the last batch.")


def test_verify_of_an_epoch_names_a_damaged_record(folder):
    (shard,) = (folder / "out" / "Split-train").iterdir()
    data = bytearray(shard.read_bytes())
    data[20] ^= 1
    shard.write_bytes(data)
    result, message = call("verify", folder / "out", "--epoch", 0)
    assert result.exit_code == 1
    assert message.startswith(f"record 0 of {shard} (source '")


def test_verify_takes_options_only_for_an_epoch(folder):
    result, output = call("verify", folder / "out", "--set", "feeding.batch_size=4")
    assert result.exit_code == 2
    assert "give --epoch, too" in output
