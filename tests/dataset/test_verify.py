"""Whatever is done to a data set is found, and named."""

import errno
import hashlib
import json
import os
import shutil

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components import files
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.dataset.manifest import parse_manifest, read_manifest, seal
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.dataset.verify_shard import Finding
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.meaning.options import IngestOptions
from tests.drawings import write_folder

pytestmark = pytest.mark.beam

SHARD = "Split-train/data_tfrecord-00001-of-00002"


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A data set of 60 images, one of them twice, and a bad file."""
    folder = tmp_path_factory.mktemp("verify")
    images = write_folder(folder / "images", per_class=30)
    (images / "cat" / "bad.png").write_bytes(b"text")
    (images / "dog" / "twice.png").write_bytes((images / "cat" / "003.png").read_bytes())
    run_ingest(
        str(images),
        str(folder / "out"),
        str(folder / "work"),
        IngestOptions(
            shards=2,
            max_bad_fraction=0.5,
            splits={"train": 0.7, "eval": 0.3},
            conflicting_labels="keep",
        ),
        lambda: beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS))),
    )
    return folder / "out"


@pytest.fixture
def output(sound, tmp_path):
    shutil.copytree(sound, tmp_path / "out")
    return tmp_path / "out"


def rows_of(output, shard=SHARD):
    split, number = shard.split("/")[0].removeprefix("Split-"), int(shard.split("-")[2])
    rows = pq.read_table(output / "index.parquet").to_pylist()
    return [row for row in rows if (row["split"], row["shard"]) == (split, number)]


def flip(path, byte, bit=0):
    data = bytearray(path.read_bytes())
    data[byte] ^= 1 << bit
    path.write_bytes(data)


def test_a_sound_data_set_has_no_findings(sound):
    assert verify_data_set(str(sound)) == []


def test_a_missing_folder_is_the_users_error(tmp_path):
    with pytest.raises(UserError, match=r"There is no data set .*none'"):
        verify_data_set(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        (lambda row: row["record_offset"], "its length field or that field's checksum is damaged"),
        (lambda row: row["record_offset"] + 9, "its length field or that field's checksum"),
        (lambda row: row["record_offset"] + 12, "its data or the data's checksum is damaged"),
        (lambda row: row["payload_offset"] + 5, "its data or the data's checksum is damaged"),
        (
            lambda row: row["payload_offset"] + row["payload_length"] + 1,
            "its data or the data's checksum is damaged",
        ),
    ],
)
def test_a_flipped_bit_is_found_and_so_is_another_one_behind_it(output, place, problem):
    rows = rows_of(output)
    for number in (5, 9):
        flip(output / SHARD, place(rows[number]))
    first, second = verify_data_set(str(output))
    assert (first.file, first.record, first.source) == (SHARD, 5, rows[5]["source"])
    assert (second.record, second.offset) == (9, rows[9]["record_offset"])
    text = f"{SHARD} record 5 ({rows[5]['source']}) at byte {rows[5]['record_offset']}: {problem}"
    assert str(first).startswith(text)


@given(data=st.data())
def test_any_single_bit_of_any_shard_is_found_in_its_record(sound, tmp_path_factory, data):
    shard = data.draw(st.sampled_from([f"Split-{s}/data_tfrecord-{i:05d}-of-00002"
                                       for s in ("train", "eval") for i in (0, 1)]))  # fmt: skip
    size_bits = 8 * (sound / shard).stat().st_size
    bit = data.draw(st.integers(0, size_bits - 1))
    output = tmp_path_factory.mktemp("flip") / "out"
    shutil.copytree(sound, output)
    flip(output / shard, bit // 8, bit % 8)
    hit = [
        number for number, r in enumerate(rows_of(output, shard)) if r["record_offset"] <= bit // 8
    ][-1]
    assert [(f.file, f.record) for f in verify_data_set(str(output))] == [(shard, hit)]
    shutil.rmtree(output)


def test_a_cut_shard_names_the_record_it_ends_in(output):
    rows = rows_of(output)
    data = (output / SHARD).read_bytes()
    (output / SHARD).write_bytes(data[: rows[7]["payload_offset"] + 1])
    (finding,) = verify_data_set(str(output))
    assert (finding.record, finding.source) == (7, rows[7]["source"])
    assert f"{len(rows) - 8} records after it are missing" in finding.problem


def test_bytes_behind_the_last_record_are_found(output):
    with (output / SHARD).open("ab") as file:
        file.write(b"more")
    assert verify_data_set(str(output)) == [Finding(SHARD, "4 bytes after its last record")]


def test_a_missing_shard_is_found(output):
    (output / SHARD).unlink()
    assert verify_data_set(str(output)) == [Finding(SHARD, "missing")]


def test_an_exchanged_shard_of_sound_records_is_found(output):
    shutil.copy(output / SHARD.replace("00001", "00000", 1), output / SHARD)
    findings = verify_data_set(str(output))
    assert findings and {finding.file for finding in findings} == {SHARD}


def test_an_extra_shard_is_found(output):
    shutil.copy(output / SHARD, output / "Split-train" / "data_tfrecord-00002-of-00003")
    (finding,) = verify_data_set(str(output))
    assert str(finding) == (
        "Split-train/data_tfrecord-00002-of-00003: not in the manifest; delete it"
    )


@pytest.mark.parametrize(
    "name", ["index.parquet", "index.rows", "quarantine.jsonl", "duplicates.jsonl"]
)
def test_changed_and_missing_files_are_found(output, name):
    flip(output / name, 10)
    (finding,) = verify_data_set(str(output))
    assert finding.file == name and "changed" in finding.problem
    (output / name).unlink()
    assert verify_data_set(str(output)) == [Finding(name, "missing")]


def test_without_an_index_the_first_damage_of_a_shard_is_found(output):
    rows = rows_of(output)
    (output / "index.parquet").unlink()
    flip(output / SHARD, rows[3]["payload_offset"])
    missing, damaged = verify_data_set(str(output))
    assert missing == Finding("index.parquet", "missing")
    assert (damaged.record, damaged.offset) == (3, rows[3]["record_offset"])
    assert "cannot be found without the index" in damaged.problem


def _forge_index(output, change):
    """Changes rows of the index, and the manifest's checksum with it."""
    path, manifest = output / "index.parquet", json.loads((output / "manifest.json").read_text())
    table = pq.read_table(path)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    content = path.read_bytes()
    described = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest["files"]["index.parquet"] = described
    _write_manifest(output, manifest)


def _write_manifest(output, manifest):
    """Writes a manifest with a checksum that fits."""
    (output / "manifest.json").write_text(json.dumps(seal(manifest)))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("payload_offset", 1),
        ("payload_length", 1),
        ("record_id", "0" * 32),
        ("label", "cow"),
        ("source", "cow/1.png"),
        ("height", 7),
    ],
)
def test_an_index_that_disagrees_with_a_record_is_found(output, column, value):
    _forge_index(output, lambda rows: rows[0].update({column: value}))
    (finding,) = verify_data_set(str(output))
    assert (finding.record, finding.problem) == (0, f"the index says otherwise: {column}")


def test_an_index_whose_records_do_not_follow_one_another_is_found(output):
    _forge_index(output, lambda rows: rows[4].update(record_offset=rows[4]["record_offset"] + 1))
    (finding,) = verify_data_set(str(output))
    assert finding.file == "index.parquet"
    assert "the offset of record 4 is not where" in finding.problem


def test_an_index_that_lacks_a_row_is_found(output):
    _forge_index(output, lambda rows: rows.pop())
    total, shard = verify_data_set(str(output))
    assert total == Finding("index.parquet", "59 rows, but 60 records")
    assert "rows, but the manifest counts" in shard.problem


def test_a_missing_manifest_means_not_whole(output):
    (output / "manifest.json").unlink()
    (finding,) = verify_data_set(str(output))
    assert str(finding) == (
        "manifest.json: missing, so the data set is incomplete; run again what was writing it"
    )


def _every_flip(content, step):
    for place in range(0, len(content), step):
        for bit in range(8):
            yield content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def test_any_flip_of_a_manifest_that_changes_what_it_says_is_found(output):
    path = output / "manifest.json"
    content = path.read_bytes()
    said = parse_manifest(content)
    unseen = []
    for changed in _every_flip(content, step=7):
        try:
            found = parse_manifest(changed)
        except ValueError:
            continue
        if found != said:
            unseen.append(changed)
    assert not unseen
    flip(path, content.index(b'"jpeg"') + 1)  # an option
    (finding,) = verify_data_set(str(output))
    assert finding.file == "manifest.json" and "is not that of its content" in finding.problem
    with pytest.raises(UserError, match="was changed since ingest wrote it"):
        read_manifest(str(output))


def test_a_manifest_from_before_checksums_is_taken_as_it_is(output):
    path = output / "manifest.json"
    manifest = json.loads(path.read_bytes())
    for name in ("manifest_sha256", "skipped", "skipped_kinds", "skipped_examples"):
        del manifest[name]
    path.write_text(json.dumps(manifest))
    assert verify_data_set(str(output)) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format_version": 99}'])
def test_a_damaged_manifest_is_one_finding(output, text):
    (output / "manifest.json").write_text(text)
    (finding,) = verify_data_set(str(output))
    assert finding.file == "manifest.json" and finding.problem.startswith("damaged")


def test_books_that_do_not_balance_are_found(output):
    _write_manifest(output, json.loads((output / "manifest.json").read_text()) | {"found": 99})
    (finding,) = verify_data_set(str(output))
    assert finding.problem == "does not balance: 99 found, but its parts are 62"


def test_a_changed_copy_of_a_bad_file_is_found(output):
    (copy,) = (output / "quarantine").iterdir()
    copy.write_bytes(b"tex!")
    (finding,) = verify_data_set(str(output))
    assert finding.file == f"quarantine/{copy.name}" and "changed" in finding.problem


def test_a_limit_on_open_files_is_no_fault_of_the_data_set(sound, monkeypatch):
    """With `ulimit -n 12` a data set was said not to be intact."""
    open_input = files.open_input

    def run_out(path, *args, **settings):
        if path.endswith(SHARD):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return open_input(path, *args, **settings)

    monkeypatch.setattr(files, "open_input", run_out)
    with pytest.raises(OSError, match="Too many open files"):
        verify_data_set(str(sound))
