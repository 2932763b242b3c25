"""Tables that write out pixels become images of these levels, or say what is wrong with a row."""

import csv
import json

import numpy as np
import pytest

from image_pipeline.api import random_access
from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.pixel_lists import propose_shape
from image_pipeline.components.tables.rows_once import TableRows
from tests.ingest_runs import ingest, read_lines

pytestmark = pytest.mark.beam

SHAPE = (8, 9, 1)
EXACT = {"pixel_shape": SHAPE, "prepare": {"encoding": "raw", "channels": 1}}
LEVELS = np.random.default_rng(0).integers(0, 256, (20, *SHAPE), np.uint8)


def write_cells(path, levels=LEVELS, column="pixels"):
    """As FER2013 has them."""
    rows = [f"{n % 3},{' '.join(map(str, each.ravel()))}" for n, each in enumerate(levels)]
    path.write_text("\n".join([f"emotion,{column}", *rows]) + "\n")
    return path


def write_columns(path, name="pixel{}".format, levels=LEVELS):
    """As MNIST has them in CSV."""
    lines = [",".join(["label", *map(name, range(levels[0].size))])]
    lines += [f"{n % 3},{','.join(map(str, each.ravel()))}" for n, each in enumerate(levels)]
    path.write_text("\n".join(lines) + "\n")
    return path


def read_pixels(data, splits):
    """The stored images of all splits, as bytes."""
    opened = [random_access(str(data), split) for split in splits]
    return sorted(records[n]["image"].tobytes() for records in opened for n in range(len(records)))


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: (write_cells(folder / "t.csv"), {"columns": {"label": "emotion"}}),
        lambda folder: (write_columns(folder / "t.csv"), {}),
        lambda folder: (write_columns(folder / "t.csv", str), {}),
        lambda folder: (write_columns(folder / "t.csv", lambda n: f"{n // 9}x{n % 9}"), {}),
    ],
    ids=["cells", "pixel0", "0", "0x0"],
)
def test_written_out_pixels_are_those_of_the_records(tmp_path, write):
    path, options = write(tmp_path)
    manifest = ingest(path, tmp_path / "data", **EXACT, **options)
    assert manifest.books.written == 20 and manifest.class_names == ("0", "1", "2")
    found = read_pixels(tmp_path / "data", manifest.splits)
    assert found == sorted(each.tobytes() for each in LEVELS)


def test_without_a_shape_the_likely_one_is_named_and_proposed(tmp_path):
    path = str(write_cells(tmp_path / "t.csv", LEVELS[:, :, :8]))
    with pytest.raises(UserError) as raised:
        complete_options(path, IngestOptions())
    assert str(raised.value).startswith(f"No column of {path!r} is the file of an image, or pixels")
    assert "the 64 values of 'pixels' are an image, state its shape by " in str(raised.value)
    assert "ingest.pixel_shape=[8, 8, 1], as `image-pipeline init` does" in str(raised.value)
    assert propose_shape(path, IngestOptions()).pixel_shape == (8, 8, 1)


def test_a_row_of_other_values_is_quarantined_with_what_it_has(tmp_path):
    path = write_cells(tmp_path / "t.csv")
    lines = path.read_text().splitlines()
    lines[3] = lines[3].rpartition(" ")[0]
    lines[5] = lines[5].rpartition(" ")[0] + " 256"
    lines[7] = lines[7].rpartition(" ")[0] + " x"
    path.write_text("\n".join(lines))
    ingest(path, tmp_path / "data", **EXACT, max_bad_fraction=0.2)
    told = [line["message"] for line in read_lines(tmp_path / "data/quarantine.jsonl")]
    assert len(told) == 3 and "its value 'x' is not a whole number from 0 to 255" in told[2]
    assert "it has 71 values, but ingest.pixel_shape=[8, 9, 1] are 72 values" in told[0]
    assert "its value '256' is not a whole number from 0 to 255" in told[1]


def test_numbers_beside_paths_of_images_stay_columns(tmp_path):
    header = ",".join(["path", *(f"f{n}" for n in range(70))])
    (tmp_path / "t.csv").write_text(f"{header}\n" + ",".join(["a.png", *["7"] * 70]) + "\n")
    options = complete_options(str(tmp_path / "t.csv"), IngestOptions())
    assert options.columns["image"] == "path" and options.column_types["f69"] == "int"


@pytest.mark.parametrize(("level", "columns"), [("1", {}), ("7", {"image": "id"})])
def test_a_column_a_class_and_numbers_beside_identifiers_are_no_pixels(tmp_path, level, columns):
    header = ",".join(["id", *(f"f{n}" for n in range(64))])
    (tmp_path / "t.csv").write_text(f"{header}\n" + ",".join(["a", *[level] * 64]) + "\n")
    ((_, row),) = TableRows(str(tmp_path / "t.csv"), IngestOptions(columns=columns))
    assert len(row.cells) == 65 and row.cells["f63"] == level


def test_what_was_taken_as_pixels_is_said(tmp_path):
    manifest = ingest(write_columns(tmp_path / "t.csv"), tmp_path / "data", **EXACT)
    told = "the columns from 'pixel0' to 'pixel71' are taken as the pixels of an image, a row each"
    assert f"t.csv: {told}" in json.dumps(manifest.options["understood"])


def test_columns_are_read_in_the_order_of_their_numbers(tmp_path):
    header, *rows = csv.reader(write_columns(tmp_path / "t").read_text().splitlines())
    order = sorted(range(len(header)), key=header.__getitem__)  # label, pixel0, pixel1, pixel10, …
    lines = [",".join(row[n] for n in order) for row in (header, *rows)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    manifest = ingest(tmp_path / "t.csv", tmp_path / "data", **EXACT)
    found = read_pixels(tmp_path / "data", manifest.splits)
    assert found == sorted(each.tobytes() for each in LEVELS)
    assert "a row each, in the order of their numbers" in json.dumps(manifest.options["understood"])


def test_usage_names_splits_and_the_one_column_of_few_values_is_the_label(tmp_path):
    header, *rows = write_cells(tmp_path / "t.csv").read_text().splitlines()
    usages = ["Training", "PublicTest", "Training", "PrivateTest"] * 5
    lines = [f"{row},{usage}" for row, usage in zip(rows, usages, strict=True)]
    lines[0] = lines[0].replace(" ", " -", 1)  # The first row is wrong, and says nothing.
    (tmp_path / "t.csv").write_text("\n".join([f"{header},Usage", *lines]) + "\n")
    splits = {"train": 0.8, "eval": 0.1, "test": 0.1}
    given = {"splits": splits, "max_bad_fraction": 0.1}
    manifest = ingest(tmp_path / "t.csv", tmp_path / "data", **EXACT, **given)
    assert manifest.class_names == ("0", "1", "2")
    assert {name: split.records for name, split in manifest.splits.items()} == {
        "train": 9,
        "eval": 5,
        "test": 5,
    }


@pytest.mark.parametrize(
    "levels",
    [np.concatenate([LEVELS[:1] * 0, LEVELS[1:]]), LEVELS % 2],
    ids=["the first is black", "black and white"],
)
def test_blank_and_two_level_images_are_pixels_where_columns_are_called_so(tmp_path, levels):
    manifest = ingest(write_columns(tmp_path / "t.csv", levels=levels), tmp_path / "data", **EXACT)
    found = read_pixels(tmp_path / "data", manifest.splits)
    assert found == sorted(each.tobytes() for each in levels)


@pytest.mark.parametrize("mark", [("{}.0", " "), ("{}", ", ")], ids=["70.0", "[70, 80]"])
def test_levels_may_be_written_as_pandas_and_lists_write_them(tmp_path, mark):
    one, between = mark
    texts = [between.join(map(one.format, each.ravel())) for each in LEVELS]
    rows = [f'{n % 3},"[{text}]"' for n, text in enumerate(texts)]
    (tmp_path / "t.csv").write_text("\n".join(["label,pixels", *rows]) + "\n")
    manifest = ingest(tmp_path / "t.csv", tmp_path / "data", **EXACT)
    found = read_pixels(tmp_path / "data", manifest.splits)
    assert found == sorted(each.tobytes() for each in LEVELS)


@pytest.mark.parametrize("write", [write_cells, write_columns])
def test_numbers_that_are_no_levels_are_refused_with_what_to_do(tmp_path, write):
    path = write(tmp_path / "t.csv", levels=LEVELS / 256)
    with pytest.raises(UserError) as raised:
        complete_options(str(path), IngestOptions())
    assert "pixels are whole numbers from 0 to 255: scale and round them" in str(raised.value)
    assert f"have values such as {LEVELS.ravel()[0] / 256}" in str(raised.value)


def test_a_first_line_of_numbers_names_no_columns(tmp_path):
    lines = write_columns(tmp_path / "t.csv").read_text().splitlines()
    (tmp_path / "t.csv").write_text("\n".join(lines[1:]) + "\n")
    with pytest.raises(UserError, match=r"has only numbers, '0', .*add a line before it, such"):
        complete_options(str(tmp_path / "t.csv"), IngestOptions())


def test_a_column_called_as_labels_beside_arrays_are_is_the_label(tmp_path):
    header, *rows = write_columns(tmp_path / "t.csv").read_text().splitlines()
    lines = [header.replace("label", "sex,y"), *(f"{n % 2},{row}" for n, row in enumerate(rows))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    options = complete_options(str(tmp_path / "t.csv"), IngestOptions(pixel_shape=SHAPE))
    assert options.columns["label"] == "y" and options.column_types == {"sex": "int"}
