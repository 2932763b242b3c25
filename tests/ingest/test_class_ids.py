"""`ingest.class_ids`: records number their class, for parsers that read numbers only."""

import json

import pytest
import tensorflow as tf
from PIL import Image

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import read_table
from image_pipeline.components.dataset.manifest import read_manifest, seal
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from tests.drawings import write_folder
from tests.ingest_runs import ingest, update

pytestmark = pytest.mark.beam


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder of ten cats and ten dogs."""
    return write_folder(tmp_path_factory.mktemp("class_ids") / "images", per_class=10)


def _read(data_dir):
    """Class name and number of every record, as TensorFlow parses them."""
    paths = sorted(map(str, data_dir.glob("Split-*/*")))
    features = {
        record.LABEL: tf.io.FixedLenFeature([], tf.string),
        record.LABEL_ID: tf.io.FixedLenFeature([], tf.int64, -1),
    }
    parsed = tf.data.TFRecordDataset(paths).map(lambda e: tf.io.parse_single_example(e, features))
    return {(r[record.LABEL].decode(), int(r[record.LABEL_ID])) for r in parsed.as_numpy_iterator()}


def test_a_class_s_number_is_its_place_among_the_sorted_names(images, tmp_path):
    manifest = ingest(images, tmp_path / "data", class_ids=True)
    names = manifest.class_names
    assert names == tuple(sorted(path.name for path in images.iterdir()))
    assert _read(tmp_path / "data") == {(name, number) for number, name in enumerate(names)}
    assert verify_data_set(str(tmp_path / "data")) == []


def test_given_classes_number_in_their_order_whatever_occurs(images, tmp_path):
    names = sorted(path.name for path in images.iterdir())
    given = (names[1], "zebra", names[0])
    manifest = ingest(images, tmp_path / "data", class_ids=True, classes=given)
    assert manifest.class_names == given
    assert _read(tmp_path / "data") == {(names[1], 0), (names[0], 2)}
    assert verify_data_set(str(tmp_path / "data")) == []


def test_without_the_option_no_byte_changes(images, tmp_path):
    before = ingest(images, tmp_path / "without")
    after = ingest(images, tmp_path / "with", class_ids=True)
    assert "class_ids" not in before.options and after.options["class_ids"] is True
    assert {number for _, number in _read(tmp_path / "without")} == {-1}
    lengths = []
    for folder in ("without", "with"):
        paths = sorted(map(str, (tmp_path / folder).glob("Split-train/*")))
        lengths.append(read_table(paths, ["record_length"])["record_length"].to_pylist())
    # The key's 17 bytes, an int64 list of one byte, and what frames them; the lengths before it
    # may need a byte more.
    assert {b - a for a, b in zip(*lengths, strict=True)} <= {28, 29, 30}


def test_images_are_taken_though_a_new_class_renumbers_them(tmp_path):
    folder = tmp_path / "images"
    write_folder(folder, per_class=10)
    (folder / "ant").mkdir()
    (folder / "ant" / "a.png").write_bytes(b"\x89PNG\r\n\x1a\ndamaged")
    options = {"class_ids": True, "max_bad_fraction": 0.2}
    ingest(folder, tmp_path / "data", **options)
    assert min(number for _, number in _read(tmp_path / "data")) == 0
    Image.new("RGB", (16, 12), (9, 80, 7)).save(folder / "ant" / "a.png")
    assert update(folder, tmp_path / "data", tmp_path / "more", **options) == 20
    assert ("ant", 0) in _read(tmp_path / "more")


def test_a_wrong_number_is_found(images, tmp_path):
    ingest(images, tmp_path / "data", class_ids=True)
    manifest = tmp_path / "data" / "manifest.json"
    said = json.loads(manifest.read_bytes())
    # The other class is the first now.
    said["options"]["classes"] = list(reversed(read_manifest(str(tmp_path / "data")).class_names))
    del said["manifest_sha256"]
    manifest.write_text(json.dumps(seal(said)))
    findings = verify_data_set(str(tmp_path / "data"))
    assert len(findings) == 20
    assert {finding.problem for finding in findings} == {
        "the index says otherwise: image/class/label"
    }


def test_images_without_a_class_are_refused(images, tmp_path):
    with pytest.raises(UserError, match=r"ingest\.class_ids numbers each image's class, but the"):
        ingest(images, tmp_path / "data", class_ids=True, label_pattern=None)
