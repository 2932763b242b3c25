"""What TFDS reads beside the shards. `make interop` reads it by TFDS itself."""

import json

import pytest

from image_pipeline.api import write_tfds_metadata
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.record_files import tfds
from tests.drawings import write_folder
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam

# As TFDS 4.9.10 writes it for FeaturesDict({"image/class/label": ClassLabel(num_classes=2), …}).
_MODULE = "tensorflow_datasets.core.features"
TEXT = {"pythonClassName": f"{_MODULE}.text_feature.Text", "text": {}}
IMAGE = {
    "pythonClassName": f"{_MODULE}.image_feature.Image",
    "image": {"shape": {"dimensions": ["-1", "-1", "3"]}, "dtype": "uint8"},
}
CLASS = {
    "pythonClassName": f"{_MODULE}.class_label_feature.ClassLabel",
    "classLabel": {"numClasses": "2"},
}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder of images of two classes."""
    return write_folder(tmp_path_factory.mktemp("as_tfds") / "images", per_class=6)


def _read(folder):
    return [json.loads((folder / n).read_bytes()) for n in ("dataset_info.json", "features.json")]


def test_splits_shards_and_features_are_described(images, tmp_path):
    manifest = ingest(images, tmp_path / "data", class_ids=True)
    written = write_tfds_metadata(str(tmp_path / "data"), "pets", "2.0.1")
    assert written == ["dataset_info.json", "features.json", "image.class.label.labels.txt"]
    info, features = _read(tmp_path / "data")
    keys = [{"featureKey": "image/encoded"}, {"featureKey": "image/class/label"}]
    assert info == {
        "name": "pets",
        "version": "2.0.1",
        "fileFormat": "tfrecord",
        "supervisedKeys": {"tuple": {"items": keys}},
        "splits": [
            {
                "name": split,
                "filepathTemplate": "Split-{SPLIT}/data_tfrecord-{SHARD_X_OF_Y}",
                "numBytes": str(listed.bytes),
                "shardLengths": [str(shard.records) for shard in listed.shards],
            }
            for split, listed in manifest.splits.items()
        ],
    }
    assert features["pythonClassName"] == f"{_MODULE}.features_dict.FeaturesDict"
    assert features["featuresDict"]["features"] == {
        "image/class/label": CLASS,
        "image/class/text": TEXT,
        "image/encoded": IMAGE,
        "image/filename": TEXT,
        "image/source_id": TEXT,
    }
    names = (tmp_path / "data" / "image.class.label.labels.txt").read_text().split()
    assert tuple(names) == manifest.class_names
    # It is not part of the data set, and does not disturb it.
    assert verify_data_set(str(tmp_path / "data")) == []
    assert tfds.is_tfds(str(tmp_path / "data"))


def test_the_template_names_the_shards(images, tmp_path):
    manifest = ingest(images, tmp_path / "data")
    write_tfds_metadata(str(tmp_path / "data"))
    for split in _read(tmp_path / "data")[0]["splits"]:
        count = len(split["shardLengths"])
        named = [
            split["filepathTemplate"].format(
                SPLIT=split["name"], SHARD_X_OF_Y=f"{shard:05d}-of-{count:05d}"
            )
            for shard in range(count)
        ]
        assert named == [shard.file for shard in manifest.splits[split["name"]].shards]


def test_without_class_ids_there_is_only_the_class_s_name(images, tmp_path):
    ingest(images, tmp_path / "data")
    assert write_tfds_metadata(str(tmp_path / "data")) == ["dataset_info.json", "features.json"]
    info, features = _read(tmp_path / "data")
    assert "supervisedKeys" not in info
    assert features["featuresDict"]["features"]["image/class/text"] == TEXT
    assert "image/class/label" not in features["featuresDict"]["features"]


def test_a_table_s_columns_are_features_too(images, tmp_path):
    first, second = sorted(images.rglob("*.png"))[:2]
    rows = [
        {"path": str(first), "label": ["a", "b"], "camera": 3, "weight": 0.5},
        {"path": str(second), "label": [], "camera": 4, "weight": 1.5},
    ]
    table = tmp_path / "t.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest(table, tmp_path / "data", splits={"train": 1.0}, shards=1, root_dir=str(images))
    write_tfds_metadata(str(tmp_path / "data"))
    features = _read(tmp_path / "data")[1]["featuresDict"]["features"]
    assert "image/class/text" not in features
    assert features["image/tags"] == {
        "pythonClassName": f"{_MODULE}.sequence_feature.Sequence",
        "sequence": {"feature": TEXT, "length": "-1"},
    }
    for key, dtype in (("camera", "int64"), ("weight", "float32")):
        assert features[key]["tensor"] == {"shape": {}, "dtype": dtype, "encoding": "none"}


def test_masks_are_images_of_one_channel(tmp_path):
    from PIL import Image

    folder = tmp_path / "pairs"
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True)
    for number in range(2):
        Image.new("RGB", (4, 3), (number, 0, 0)).save(folder / f"images/{number}.png")
        Image.new("L", (4, 3), number + 1).save(folder / f"masks/{number}.png")
    masks = {"images": "images/{key}.png", "masks": "masks/{key}.png"}
    ingest(folder, tmp_path / "data", masks=masks, splits={"train": 1.0}, shards=1)
    write_tfds_metadata(str(tmp_path / "data"))
    features = _read(tmp_path / "data")[1]["featuresDict"]["features"]
    mask = features["image/segmentation/class/encoded"]["image"]
    assert mask["shape"]["dimensions"] == ["-1", "-1", "1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "My data"}, r"name must be lower-case letters, digits and _, .*got 'My data'"),
        ({"version": "1"}, r"version must be three numbers such as 1\.0\.0, got '1'"),
    ],
)
def test_names_that_tfds_refuses_are_refused(data_set, arguments, message):
    with pytest.raises(UserError, match=message):
        write_tfds_metadata(str(data_set), **arguments)


def test_images_that_tfds_cannot_decode_are_refused(images, tmp_path):
    ingest(images, tmp_path / "data", prepare={"encoding": "raw", "resize": "none"})
    with pytest.raises(UserError, match=r"decodes JPEG and PNG only, but the images of .* pixels"):
        write_tfds_metadata(str(tmp_path / "data"))
