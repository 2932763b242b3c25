"""Data sets of TensorFlow Datasets: names of labels, boxes, splits, versions, what is missing."""

import json

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.boxes import BoxAnnotation
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.open_source import open_source
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.path_patterns import split_of
from image_pipeline.components.sources.source_kinds import kind_of, list_tables
from tests.data_set_files import write_tfrecord
from tests.drawings import draw, encode_png

pytestmark = pytest.mark.unit

IMAGES = [encode_png(draw(number)) for number in range(6)]
FEATURES = {
    "image": {"image": {"encodingFormat": "png"}},
    "label": {"classLabel": {"numClasses": "2"}},
    "objects": {
        "sequence": {
            "feature": {
                "featuresDict": {
                    "features": {
                        "bbox": {"boundingBox": {"bboxFormat": "REL_YXYX"}},
                        "label": {"classLabel": {"numClasses": "2"}},
                        "is_crowd": {"tensor": {"dtype": "bool"}},
                    }
                }
            }
        }
    },
}


def _example(number):
    count = number % 3
    boxes = {"objects/bbox": [0.125, 0.25, 0.5, 1.0] * count, "objects/label": [1, 0][:count]}
    return {
        "image": IMAGES[number],
        "label": number % 2,
        "objects/is_crowd": [0, 1][:count],
        **boxes,
    }


def write_tfds(folder, shards=(("train", 2), ("test", 1)), **info):
    """A data set of one version; two images a shard."""
    folder.mkdir(parents=True)
    (folder / "features.json").write_text(json.dumps({"featuresDict": {"features": FEATURES}}))
    (folder / "label.labels.txt").write_text("cat\ndog\n")
    (folder / "objects-label.labels.txt").write_text("zebra\napple\n")
    splits = [{"name": name, "shardLengths": ["2"] * count} for name, count in shards]
    info = {"fileFormat": "tfrecord", "splits": splits} | info
    (folder / "dataset_info.json").write_text(json.dumps(info))
    number = 0
    for name, count in shards:
        for shard in range(count):
            path = folder / f"tiny-{name}.tfrecord-{shard:05d}-of-{count:05d}"
            write_tfrecord(path, [_example(number), _example(number + 1)])
            number += 2


def _open(images, **options):
    options = complete_options(images, IngestOptions(**options))
    return open_source(images, options), options


def test_labels_and_boxes_have_their_names(tmp_path):
    write_tfds(tmp_path / "tiny" / "1.0.0")
    source, options = _open(str(tmp_path / "tiny" / "1.0.0"))
    refs = list(source.list())
    assert [source.read(ref, 10**9) for ref in refs] == IMAGES
    assert [ref.annotations.label for ref in refs] == ["cat", "dog"] * 3
    assert [split_of(ref, options) for ref in refs] == ["train"] * 4 + ["eval"] * 2
    numbers = (0.125, 0.25, 0.5, 1.0)
    boxes = [BoxAnnotation(numbers, "apple"), BoxAnnotation(numbers, "zebra", True)]
    assert [ref.annotations.further[-1][1] for ref in refs[:3]] == [[], boxes[:1], boxes]
    assert (options.boxes.format, options.boxes.classes) == ("rel_yxyx", ("zebra", "apple"))
    assert options.columns == {"image": "image", "path": None, "label": "label", "boxes": "objects"}


def test_a_pattern_of_its_files_has_the_names_too(tmp_path):
    write_tfds(tmp_path / "1.0.0")
    source, _ = _open(f"{tmp_path}/1.0.0/*-test.tfrecord-*")
    assert [ref.annotations.label for ref in source.list()] == ["cat", "dog"]


def test_a_name_stands_for_the_newest_version(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    for version in ("1.0.0", "1.9.0", "1.10.0"):
        write_tfds(tmp_path / "tiny" / version)
    assert kind_of("tfds:tiny").is_table
    assert {path.split("/")[-2] for path, _ in list_tables("tfds:tiny")} == {"1.10.0"}
    assert {path.split("/")[-2] for path, _ in list_tables("tfds:tiny:1.0.0")} == {"1.0.0"}
    source, _ = _open("tfds:tiny")
    assert source.root == f"{tmp_path}/tiny/1.10.0"
    assert len(list(source.list())) == 6
    with pytest.raises(UserError, match=r"No data set 'tfds:tiny:3.0.0' .*\(there is 1.0.0, 1.9.0"):
        list_tables("tfds:tiny:3.0.0")
    with pytest.raises(UserError, match=r"No data set 'tfds:other' .*set TFDS_DATA_DIR"):
        list_tables("tfds:other")


def test_configs_are_named_or_the_only_one(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    write_tfds(tmp_path / "coco" / "2014" / "1.0.0")
    assert len(list_tables("tfds:coco")) == 3
    write_tfds(tmp_path / "coco" / "2017" / "1.0.0")
    assert len(list_tables("tfds:coco/2017")) == len(list_tables("tfds:coco/2017:1.0.0")) == 3
    with pytest.raises(UserError, match=r"has several configs; name one, as in tfds:coco/2014"):
        list_tables("tfds:coco")


def test_missing_shards_and_other_formats_are_refused(tmp_path):
    write_tfds(tmp_path / "a")
    (tmp_path / "a" / "tiny-train.tfrecord-00001-of-00002").unlink()
    with pytest.raises(UserError, match=r"The split 'train' of the data set .* has 1 of 2 files"):
        list_tables(str(tmp_path / "a"))
    write_tfds(tmp_path / "b", fileFormat="array_record")
    with pytest.raises(UserError, match="files of the format array_record, which are not read"):
        list_tables(str(tmp_path / "b"))
    write_tfds(tmp_path / "c")
    (tmp_path / "c" / "features.json").write_text("{")
    with pytest.raises(UserError, match=r"features.json' is not valid JSON .*; prepare the data"):
        _open(str(tmp_path / "c"))
