"""A data set as TensorFlow Datasets (TFDS) reads it: two files beside the shards, which stay.

They are what `tfds.builder_from_directory` looks for: the features' structure, and the splits with
their shards' names and lengths. (https://www.tensorflow.org/datasets/external_tfrecord) TFDS itself
would only describe shards that lie in the folder itself, not those in a folder for each split.
"""

import json
import re
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.manifest import Manifest, read_whole_manifest
from image_pipeline.components.dataset.paths import name_shard
from image_pipeline.components.errors import UserError

INFO, FEATURES = "dataset_info.json", "features.json"
_LABELS = f"{record.LABEL_ID.replace('/', '.')}.labels.txt"
_MODULE = "tensorflow_datasets.core.features"
# What of a record is a feature, besides its image, its class, its mask and a table's columns.
_SHOWN = (record.FILENAME, record.SOURCE_ID)
_TEXT = {"pythonClassName": f"{_MODULE}.text_feature.Text", "text": {}}


def write_tfds_metadata(data_dir: str, name: str = "images", version: str = "1.0.0") -> list[str]:
    """Writes what TFDS needs to read a data set: `tfds.builder_from_directory(data_dir)`.

    Its features have the names of a record's: `image/encoded` and so on. With `ingest.class_ids`,
    `image/class/label` is a `ClassLabel`, and TFDS's `as_supervised` gives pairs of it and the
    image.

    Args:
      data_dir: the folder that ingest wrote.
      name: what TFDS shall call the data set: lower-case letters, digits and `_`.
      version: what TFDS shall call its version: three numbers.

    Returns:
      The files' names.

    Raises:
      UserError: if there is no such data set, a name or version is invalid, or images are not
        stored as JPEG or PNG.
    """
    manifest = read_whole_manifest(data_dir)
    _check(manifest, data_dir, name, version)
    contents = {FEATURES: _describe_features(manifest), INFO: _describe(manifest, name, version)}
    texts = {file: json.dumps(content, indent=4) for file, content in contents.items()}
    if manifest.has_class_ids:
        texts[_LABELS] = "".join(f"{name}\n" for name in manifest.class_names)
    for file, text in sorted(texts.items(), reverse=True):  # The one that TFDS looks for is last.
        files.write_file(files.join(data_dir, file), text.encode())
    return sorted(texts)


def _check(manifest: Manifest, data_dir: str, name: str, version: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise UserError(
            f"name must be lower-case letters, digits and _, and begin with a letter, got {name!r}."
        )
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise UserError(f"version must be three numbers such as 1.0.0, got {version!r}.")
    if manifest.options.get("prepare", {}).get("encoding") == "raw" or manifest.options.get(
        "in_place"
    ):
        raise UserError(
            f"TFDS decodes JPEG and PNG only, but the images of {data_dir!r} are pixels, or lie "
            "elsewhere; ingest them with ingest.prepare.encoding=png, without ingest.in_place."
        )


def _describe(manifest: Manifest, name: str, version: str) -> dict[str, Any]:
    """The content of `dataset_info.json`: TFDS's message DatasetInfo."""
    template = name_shard("{SPLIT}", 0, 0).replace("00000-of-00000", "{SHARD_X_OF_Y}")
    splits = [
        {
            "name": split,
            "filepathTemplate": template,
            "numBytes": str(listed.bytes),
            "shardLengths": [str(shard.records) for shard in listed.shards],
        }
        for split, listed in manifest.splits.items()
        if listed.shards
    ]
    described: dict[str, Any] = {"name": name, "version": version, "fileFormat": "tfrecord"}
    described["splits"] = splits
    if manifest.has_class_ids:
        keys = [{"featureKey": key} for key in (record.IMAGE, record.LABEL_ID)]
        described["supervisedKeys"] = {"tuple": {"items": keys}}
    return described


def _describe_features(manifest: Manifest) -> dict[str, Any]:
    """The content of `features.json`: TFDS's message Feature."""
    is_gray = manifest.options.get("prepare", {}).get("color") == "gray"
    features = {record.IMAGE: _image(1 if is_gray else 3)}
    shown = [column for column in manifest.columns if column.key in _SHOWN]
    for column in (*shown, *manifest.further):
        features[column.key] = _column(column)
    if manifest.has_class_ids:
        features[record.LABEL_ID] = {
            "pythonClassName": f"{_MODULE}.class_label_feature.ClassLabel",
            "classLabel": {"numClasses": str(len(manifest.class_names))},
        }
    if manifest.class_names:
        features[record.LABEL] = _TEXT
    if record.MASK_COLUMN in manifest.columns:
        features[record.MASK] = _image(1)
    return {
        "pythonClassName": f"{_MODULE}.features_dict.FeaturesDict",
        "featuresDict": {"features": dict(sorted(features.items()))},
    }


def _image(channels: int) -> dict[str, Any]:
    shape = {"dimensions": ["-1", "-1", str(channels)]}
    return {
        "pythonClassName": f"{_MODULE}.image_feature.Image",
        "image": {"shape": shape, "dtype": "uint8"},
    }


def _column(column: record.Column) -> dict[str, Any]:
    """A feature of one value, or of a list of any length."""
    if column.is_list:
        single = record.Column(column.key, column.dtype)
        return {
            "pythonClassName": f"{_MODULE}.sequence_feature.Sequence",
            "sequence": {"feature": _column(single), "length": "-1"},
        }
    if column.dtype == "bytes":
        return _TEXT
    return {
        "pythonClassName": f"{_MODULE}.scalar.Scalar",
        "tensor": {"shape": {}, "dtype": column.dtype, "encoding": "none"},
    }
