"""Images with boxes, from a table or a COCO file to shards: exact records, books, retries."""

import json

import numpy as np
import pyarrow.parquet as pq
import pydantic
import pytest
from PIL import Image

from image_pipeline import api
from image_pipeline.components.dataset import record, tfrecord
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.forecast import forecast_ingest
from image_pipeline.components.labels.kinds import BOXES
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.named_folder import find_whole_run
from image_pipeline.report.data_set import open_data_set
from image_pipeline.report.figures import gather_figures
from image_pipeline.show.ingest_summary import ingest_rows
from tests.drawings import draw, encode_png
from tests.ingest_runs import ingest, read_lines

pytestmark = pytest.mark.beam

HEIGHT, WIDTH, COUNT = 8, 10, 24
CLASSES = ("ant", "bee", "cat")
COLUMNS = record.all_columns(record.BOX_COLUMNS)


def boxes_of(number):
    """0 to 3 boxes in pixels: left, top, width, height and class."""
    random = np.random.default_rng(number)
    for place in range(number % 4):
        left, top = random.integers(0, 5, 2).tolist()
        width, height = random.integers(1, 4, 2).tolist()
        yield [left, top, width, height], CLASSES[(number + place) % 3]


def make_row(number, **changes):
    boxes = [{"bbox": box, "category": name} for box, name in boxes_of(number)]
    return {"path": f"images/{number:03d}.png", "boxes": boxes} | changes


def write_table(folder, rows):
    table = folder / "images.jsonl"
    table.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return table


def write_coco(folder):
    """The same images and boxes; classes have ids that are not in the order of their names."""
    ids = {"cat": 3, "ant": 17, "bee": 20}
    images = [
        {"id": 900 - n, "file_name": f"{n:03d}.png", "height": HEIGHT, "width": WIDTH}
        for n in range(COUNT)
    ]
    annotations = [
        {"id": 10 * n + i, "image_id": 900 - n, "bbox": box, "category_id": ids[name], "iscrowd": 0}
        for n in range(COUNT)
        for i, (box, name) in enumerate(boxes_of(n))
    ]
    categories = [{"id": id_, "name": name} for name, id_ in ids.items()]
    path = folder / "instances.json"
    parts = {"images": images, "annotations": annotations, "categories": categories}
    path.write_text(json.dumps(parts))
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boxes")
    (folder / "images").mkdir()
    for number in range(COUNT):
        (folder / "images" / f"{number:03d}.png").write_bytes(encode_png(draw(number)))
    write_coco(folder)
    write_table(folder, map(make_row, range(COUNT)))
    return folder


@pytest.fixture(scope="module")
def output(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("output") / "data"
    ingest(source / "images.jsonl", folder)
    return folder


def read_records(output, columns=COLUMNS):
    for path in sorted(output.glob("Split-*/*")):
        with path.open("rb") as file:
            for data in tfrecord.read_records(file):
                values = record.decode_example(data, columns)
                yield int(values[record.FILENAME][-7:-4]), values


def expected_boxes(number, classes=CLASSES):
    found = [(*box, name) for box, name in boxes_of(number)]
    return {
        "bbox/xmin": [np.float32(x / WIDTH) for x, _, _, _, _ in found],
        "bbox/xmax": [np.float32((x + w) / WIDTH) for x, _, w, _, _ in found],
        "bbox/ymin": [np.float32(y / HEIGHT) for _, y, _, _, _ in found],
        "bbox/ymax": [np.float32((y + h) / HEIGHT) for _, y, _, h, _ in found],
        "class/text": [name.encode() for *_, name in found],
        "class/label": [classes.index(name) + 1 for *_, name in found],
        "is_crowd": [0] * len(found),
    }


def test_tensorflow_reads_them_as_the_model_garden_does(output):
    """The features of `official/vision/dataloaders/tf_example_decoder.py`."""
    import tensorflow as tf

    floats = [f"bbox/{side}" for side in ("xmin", "xmax", "ymin", "ymax")] + ["area"]
    spec = {f"image/object/{key}": tf.io.VarLenFeature(tf.float32) for key in floats} | {
        "image/encoded": tf.io.FixedLenFeature((), tf.string),
        "image/height": tf.io.FixedLenFeature((), tf.int64, -1),
        "image/width": tf.io.FixedLenFeature((), tf.int64, -1),
        "image/source_id": tf.io.FixedLenFeature((), tf.string),
        "image/object/class/label": tf.io.VarLenFeature(tf.int64),
        "image/object/is_crowd": tf.io.VarLenFeature(tf.int64),
    }
    paths = sorted(map(str, output.glob("Split-*/*")))
    for serialized, (number, _) in zip(
        tf.data.TFRecordDataset(paths), read_records(output), strict=True
    ):
        parsed = tf.io.parse_single_example(serialized, spec)
        wanted = expected_boxes(number)
        for key in wanted:
            if key != "class/text":
                found = tf.sparse.to_dense(parsed[f"image/object/{key}"])
                np.testing.assert_array_equal(found, wanted[key])
        area = tf.sparse.to_dense(parsed["image/object/area"])
        np.testing.assert_allclose(area, [w * h for (_, _, w, h), _ in boxes_of(number)], rtol=1e-6)


def test_a_coco_file_gives_the_same_boxes(source, output, tmp_path):
    ingest(source / "instances.json", tmp_path / "data", root_dir="images")
    manifest = read_manifest(str(tmp_path / "data"))
    assert BOXES.class_names(manifest) == ("cat", "ant", "bee")  # in the order of its ids
    columns = record.all_columns(manifest.further)
    found = dict(read_records(tmp_path / "data", columns))
    for number, values in read_records(output):
        wanted = expected_boxes(number, BOXES.class_names(manifest))
        assert {key: found[number][f"image/object/{key}"] for key in wanted} == wanted
        assert found[number]["image_id"] == 900 - number
        assert found[number][record.IMAGE] == values[record.IMAGE]


def test_a_csv_has_boxes_as_json(source, output, tmp_path):
    lines = ["path,objects"]
    for number in range(COUNT):
        cell = json.dumps([[*box, name] for box, name in boxes_of(number)]).replace('"', '""')
        lines.append(f'images/{number:03d}.png,"{cell}"')
    (source / "images.csv").write_text("\n".join(lines))
    ingest(source / "images.csv", tmp_path / "data")
    assert dict(read_records(tmp_path / "data")) == dict(read_records(output))


def test_rows_with_bad_boxes_are_quarantined_by_name(source, tmp_path):
    bad = {
        3: [{"bbox": [1, 1, 0, 2], "category": "ant"}],
        5: [{"bbox": [1, 1, 2], "category": "ant"}],
        7: "no JSON",
        9: [{"bbox": [50, 1, 2, 2], "category": "ant"}],
    }
    rows = [make_row(n, **({"boxes": bad[n]} if n in bad else {})) for n in range(COUNT)]
    table = write_table(tmp_path, rows)
    options = {"root_dir": str(source), "max_bad_fraction": 1}
    ingest(table, tmp_path / "data", **options)
    found = {
        line["path"]: (line["reason"], line["message"])
        for line in read_lines(tmp_path / "data" / "quarantine.jsonl")
    }
    assert found == {
        "images/003.png": (
            "bad_box",
            "images.jsonl:4: box 0, ant [1.0, 1.0, 0.0, 2.0], has no area",
        ),
        "images.jsonl:6": (
            "wrong_type",
            "images.jsonl:6: the column 'boxes' must be of type boxes: a box must have four "
            "numbers, got [1, 1, 2]",
        ),
        "images.jsonl:8": (
            "wrong_type",
            "images.jsonl:8: the column 'boxes' must be of type boxes: 'no JSON' is not valid JSON",
        ),
        "images/009.png": (
            "bad_box",
            "images.jsonl:10: box 0, ant [50.0, 1.0, 2.0, 2.0], lies outside of the image",
        ),
    }
    ingest(table, tmp_path / "dropped", boxes={"bad_boxes": "drop"}, **options)
    kept = {number: values for number, values in read_records(tmp_path / "dropped")}
    assert sorted(kept) == sorted(set(range(COUNT)) - {5, 7})
    assert kept[3]["image/object/class/text"] == kept[9]["image/object/class/text"] == []
    notes = pq.read_table(tmp_path / "dropped" / "index.parquet", columns=["source", "notes"])
    noted = {row["source"]: row["notes"] for row in notes.to_pylist() if row["notes"]}
    assert noted == {f"images/{n}.png": ["dropped_boxes:1"] for n in ("003", "009")}
    with pytest.raises(UserError, match=r"images.jsonl:(4|6|8|10).*ingest.bad_rows=error"):
        ingest(table, tmp_path / "strict", bad_rows="error", **options)


def test_the_first_row_may_be_wrong(source):
    lines = ["path,boxes", 'images/000.png,"[[1,2,"', 'images/001.png,"[[1,2,3,4,""ant""]]"']
    (source / "wrong.csv").write_text("\n".join(lines))
    options = complete(source / "wrong.csv")
    assert options.label_kind is BOXES and options.boxes.classes == ("ant",)
    content = json.loads((source / "instances.json").read_text())
    content["annotations"].append({"image_id": 900, "category_id": 3})
    (source / "wrong.json").write_text(json.dumps(content))
    assert complete(source / "wrong.json").boxes.classes == ("cat", "ant", "bee")


def complete(table, **options):
    return complete_options(str(table), IngestOptions.model_validate(options))


def test_options_say_what_the_column_of_boxes_is(source, tmp_path):
    options = complete(source / "images.jsonl")
    assert options.label_kind is BOXES and options.columns == {"boxes": "boxes", "image": "path"}
    assert options.boxes.classes == CLASSES and options.path_label_pattern is None
    assert complete(source / "images.jsonl", boxes={"classes": ["bee"]}).boxes.classes == ("bee",)
    again = IngestOptions.model_validate(options.model_dump(mode="json"))
    assert complete_options(str(source / "images.jsonl"), again) == options
    left_out = complete(source / "images.jsonl", columns={"boxes": None})
    assert left_out.label_kind is not BOXES and left_out.columns["boxes"] is None
    rows = [{"path": "a.png", "where": [[1, 2, 3, 4, 10]], "boxes": 3}, {"path": "b.png"}]
    named = complete(write_table(tmp_path, rows), columns={"boxes": "where"})
    assert named.boxes.classes == ("10",)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"path": "a.png"}], {"boxes": {"format": "xyxy"}}, "ingest.boxes is set, but no column"),
        ([{"path": "a.png", "boxes": []}], {}, "No row of the table has a box that can be read"),
        (
            [{"path": "a.png", "mask": "m.png", "boxes": [[1, 2, 3, 4, "a"]]}],
            {},
            "with boxes or with masks, but .* has both",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, rows, options, message):
    with pytest.raises(UserError, match=message):
        complete(write_table(tmp_path, rows), **options)


@pytest.mark.parametrize("types", [{"boxes": "string"}, {"places": "boxes"}])
def test_only_boxes_are_of_the_type_boxes(types):
    with pytest.raises(pydantic.ValidationError, match="the type boxes is that of the column"):
        IngestOptions(column_types=types)


def test_photos_that_are_turned_are_placed_by_the_size_that_is_stated(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(draw(1)).save(tmp_path / "a.jpg", exif=exif)
    box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}
    stated = {"id": 1, "file_name": "a.jpg", "width": WIDTH, "height": HEIGHT}
    parts = {"annotations": [box], "categories": [{"id": 1, "name": "ant"}]}
    (tmp_path / "c.json").write_text(json.dumps({"images": [stated], **parts}))
    ingest(tmp_path / "c.json", tmp_path / "data", splits={"train": 1})
    ((_, values),) = _first(tmp_path / "data")
    # Left 1 of 10, top 2 of 8: turned to the right, the top is the left, the bottom the ... left.
    assert values[record.BOX_XMIN.key] == [np.float32(1 - 6 / HEIGHT)]
    assert values[record.BOX_XMAX.key] == [np.float32(1 - 2 / HEIGHT)]
    assert values[record.BOX_YMIN.key] == [np.float32(1 / WIDTH)]
    assert values[record.BOX_YMAX.key] == [np.float32(4 / WIDTH)]


def _first(output):
    columns = record.all_columns(read_manifest(str(output)).further)
    for path in sorted(output.glob("Split-*/*")):
        with path.open("rb") as file:
            for data in tfrecord.read_records(file):
                yield 0, record.decode_example(data, columns)


def test_boxes_that_most_images_cut_are_told_at_every_door(tmp_path):
    (tmp_path / "images").mkdir()
    for number in range(12):
        (tmp_path / "images" / f"{number:03d}.png").write_bytes(encode_png(draw(number)))
    # Left, top, right, bottom, which are taken for left, top, width and height.
    boxes = [{"bbox": [4, 3, 7, 6 if number < 8 else 5], "category": "a"} for number in range(12)]
    table = write_table(tmp_path, [make_row(n, boxes=[box]) for n, box in enumerate(boxes)])
    options = IngestOptions.model_validate({"boxes": {"format": "xywh"}})
    assert draw(0).shape == (HEIGHT, WIDTH, 3)
    told = (
        "12 of 12 images have boxes that reach beyond them, and are cut: if the four numbers are "
        "in another order, or of another size of the image, set ingest.boxes.format"
    )
    assert told in forecast_ingest(str(table), options).noticed
    summary = api.ingest(str(table), str(tmp_path / "out"), boxes={"format": "xywh"})
    assert summary["images_of_cut_boxes"] == 12
    assert ("look at", told) in ingest_rows(summary)
    source = find_whole_run(str(tmp_path / "out"))
    figures = gather_figures(source, open_data_set(source.data_dir, source.manifest))
    assert ("shapes", f"{told}.") in [(each.section, each.text) for each in figures["notices"]]
    boxes = {"format": "xyxy"}
    summary = api.ingest(str(table), str(tmp_path / "right"), boxes=boxes)
    assert summary["images_of_cut_boxes"] == 0
    assert "look at" not in dict(ingest_rows(summary))
