"""Images with masks, from drawn files to shards: exact records, books, reruns, retries, tables."""

import itertools
import json
import re
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from image_pipeline.components.dataset import record, tfrecord
from image_pipeline.components.dataset.manifest import parse_manifest, read_manifest, seal
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.kinds import MASKS as KIND
from image_pipeline.components.labels.masks import encode_mask
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.options import IngestOptions
from tests.drawings import draw, encode_png
from tests.ingest_runs import ingest, read_files, read_lines, update

pytestmark = pytest.mark.beam

MASKS = {"images": "images/{key}.*", "masks": "masks/{key}.*", "classes": ["sky", "road", "car"]}
COUNT = 30


def draw_mask(seed, height=8, width=10):
    """Class ids 0 to 2 and 255: uint8 [height, width]."""
    ids = np.random.default_rng(seed).integers(0, 4, (height, width), np.uint8)
    return np.where(ids == 3, 255, ids).astype(np.uint8)


def write_pairs(folder, count=COUNT):
    """`images/s<n % 3>/<n>.png` and `masks/s<n % 3>/<n>.png`."""
    for number in range(count):
        for kind, pixels in (("images", draw(number)), ("masks", draw_mask(number))):
            path = folder / kind / f"s{number % 3}" / f"{number:03d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode_png(pixels))
    return folder


def read_shards(output):
    return {name: data for name, data in read_files(output).items() if name.startswith("Split-")}


def _records(output):
    columns = record.all_columns((), has_masks=True)
    for path in sorted(output.glob("Split-*/*")):
        with path.open("rb") as file:
            for data in tfrecord.read_records(file):
                yield path.parent.name.removeprefix("Split-"), record.decode_example(data, columns)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("source") / "pairs")


@pytest.fixture(scope="module")
def output(pairs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("output") / "data"
    ingest(pairs, folder, masks=MASKS)
    return folder


def test_tensorflow_decodes_both(output):
    import tensorflow as tf

    for _, values in itertools.islice(_records(output), 5):
        number = int(values[record.FILENAME][-7:-4])
        mask = tf.io.decode_png(values[record.MASK])
        np.testing.assert_array_equal(mask[..., 0], draw_mask(number))
        assert mask.shape == (values[record.HEIGHT], values[record.WIDTH], 1)
        assert values[record.MASK_FORMAT] == b"png" and values[record.LABEL] == b""
        assert values[record.MASK] == encode_mask(draw_mask(number))
        np.testing.assert_array_equal(tf.io.decode_png(values[record.IMAGE]), draw(number))


def test_the_index_says_where_each_image_and_mask_is(output):
    for row in pq.read_table(output / "index.parquet").to_pylist():
        number = int(row["source"][-7:-4])
        assert row["mask_source"] == row["source"].replace("images/", "masks/")
        assert row["mask_length"] == len(encode_mask(draw_mask(number)))
        assert row["payload_length"] == len(
            next(
                v[record.IMAGE]
                for _, v in _records(output)
                if v[record.FILENAME].decode() == row["source"]
            )
        )
        shard = output / f"Split-{row['split']}"
        path = sorted(shard.iterdir())[row["shard"]]
        stored = path.read_bytes()[row["payload_offset"] :][: row["payload_length"]]
        assert stored[:8] == b"\x89PNG\r\n\x1a\n" and stored[-8:-4] == b"IEND"


def test_classes_without_names_are_called_by_their_ids(pairs, tmp_path):
    manifest = ingest(pairs, tmp_path, masks=MASKS | {"classes": None})
    assert KIND.class_names(manifest) == ("0", "1", "2")
    assert read_shards(tmp_path)


def test_a_run_that_stopped_before_it_wrote_goes_on(pairs, output, tmp_path, monkeypatch):
    class Stopped(Exception):
        pass

    def stop(*args):
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr("image_pipeline.components.ingest.partition.place_sources", stop)
        with pytest.raises(Exception, match="Stopped"):
            ingest(pairs, tmp_path, masks=MASKS)
    prepared = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.payload")}
    assert prepared and not list(tmp_path.glob("Split-*/*"))
    read = "image_pipeline.components.labels.masks.prepare_mask"
    monkeypatch.setattr(read, stop)  # No mask is read again.
    ingest(pairs, tmp_path, masks=MASKS)
    assert read_files(tmp_path) == read_files(output)


def test_shrunk_images_have_shrunk_masks(pairs, tmp_path):
    ingest(pairs, tmp_path, masks=MASKS, prepare={"encoding": "png", "size_px": 4})
    for _, values in _records(tmp_path):
        assert (values[record.HEIGHT], values[record.WIDTH]) == (4, 5)
        number = int(values[record.FILENAME][-7:-4])
        assert values[record.MASK] == encode_mask(
            np.ascontiguousarray(draw_mask(number)[1::2, 1::2])
        )


def test_a_table_gives_the_bytes_of_the_folder(pairs, output, tmp_path):
    paths = [str(p.relative_to(pairs)) for p in sorted((pairs / "images").rglob("*.png"))]
    rows = [f"{path},{path.replace('images/', 'masks/', 1)}" for path in paths]
    (tmp_path / "pairs.csv").write_text("\n".join(["path,mask", *rows, ""]))
    settings = {"masks": {"classes": MASKS["classes"]}, "root_dir": str(pairs)}
    manifest = ingest(tmp_path / "pairs.csv", tmp_path / "data", **settings)
    assert read_shards(tmp_path / "data") == read_shards(output)
    index = "index.parquet"
    assert (tmp_path / "data" / index).read_bytes() == (output / index).read_bytes()
    assert manifest.splits == read_manifest(str(output)).splits
    # Without `masks`, the column says that there are masks.
    unnamed = ingest(tmp_path / "pairs.csv", tmp_path / "unnamed", root_dir=str(pairs))
    assert KIND.class_names(unnamed) == ("0", "1", "2")
    assert read_shards(tmp_path / "unnamed") == read_shards(output)


def test_a_row_whose_mask_is_not_there_is_quarantined_by_its_line(pairs, tmp_path):
    table = tmp_path / "t.csv"
    rows = [f"images/s{n % 3}/{n:03d}.png,masks/s{n % 3}/{n:03d}.png" for n in range(9)]
    rows[5] = "images/s2/005.png,masks/none.png"
    table.write_text("\n".join(["path,mask", *rows, ""]))
    settings = {"root_dir": str(pairs), "max_bad_fraction": 0.5}
    ingest(table, tmp_path / "data", bad_rows="quarantine", **settings)
    (line,) = read_lines(tmp_path / "data" / "quarantine.jsonl")
    assert (line["path"], line["reason"]) == ("images/s2/005.png", "no_mask")
    assert "its mask 'masks/none.png' - " in line["message"]
    assert "t.csv:7: there is no file 'masks/none.png'" in line["message"]


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    """Pairs of which many are bad in some way, each in another."""
    folder = write_pairs(tmp_path_factory.mktemp("bad") / "pairs")
    masks, images = folder / "masks" / "s0", folder / "images" / "s0"
    (masks / "000.png").unlink()
    (images / "003.png").unlink()
    (masks / "006.png").write_bytes(encode_png(draw_mask(6))[:60])
    (masks / "009.png").write_bytes(encode_png(draw_mask(9, 8, 9)))
    (masks / "012.png").write_bytes(encode_png(np.full((8, 10), 7, np.uint8)))
    (masks / "015.png").write_bytes(encode_png(draw(15)))
    Image.fromarray(draw_mask(18)).save(masks / "018.jpg")
    (masks / "018.png").unlink()
    (masks / "021.tif").write_bytes((masks / "021.png").read_bytes())
    (images / "024.png").write_bytes(b"text")
    (folder / "notes.txt").write_text("about these")
    (folder / "other.png").write_bytes(encode_png(draw(99)))
    (folder / "other_mask.png").write_bytes(encode_png(draw_mask(98)))
    return folder


REASONS = {
    "images/s0/000.png": ("no_mask", "no file is its mask, which masks/{key}.* would fit"),
    "masks/s0/003.png": ("mask_without_image", "called images/{key}.*"),
    "images/s0/006.png": ("bad_mask", "its mask 'masks/s0/006.png' - "),
    "images/s0/009.png": (
        "mask_size",
        "its mask 'masks/s0/009.png' has 9x8 px, but its image has 10x8",
    ),
    "images/s0/012.png": (
        "bad_mask",
        "its mask 'masks/s0/012.png' has the level 7 at row 0, column 0",
    ),
    "images/s0/015.png": ("bad_mask", "its mask 'masks/s0/015.png' is in colour"),
    "images/s0/018.png": ("bad_mask", "its mask 'masks/s0/018.jpg' is JPEG"),
    "images/s0/021.png": ("two_masks", "'masks/s0/021.png' and 'masks/s0/021.tif'"),
    "images/s0/024.png": ("not_an_image", ""),
    "other.png": (
        "no_mask",
        "its path is neither an image's, images/{key}.*, nor a mask's, masks/",
    ),
}


def test_each_bad_pair_is_quarantined_by_name(bad, tmp_path):
    manifest = ingest(bad, tmp_path, masks=MASKS, max_bad_fraction=0.6)
    lines = {line["path"]: line for line in read_lines(tmp_path / "quarantine.jsonl")}
    assert {path: line["reason"] for path, line in lines.items()} == {
        path: reason for path, (reason, _) in REASONS.items()
    }
    for path, (_, message) in REASONS.items():
        assert message in lines[path]["message"], path
    books = manifest.books
    # 29 images, an alone mask, a text and an image of no template; masks are not counted.
    assert (books.found, books.written, books.quarantined, books.skipped) == (33, 21, 10, 2)
    assert verify_data_set(str(tmp_path)) == []


def test_repaired_masks_give_the_bytes_of_a_fresh_ingest(bad, tmp_path):
    source, first = tmp_path / "pairs", tmp_path / "first"
    shutil.copytree(bad, source)
    (source / "images" / "s0" / "027.png").rename(source / "images" / "s0" / "000.png")
    (source / "masks" / "s0" / "027.png").unlink()
    ingest(source, first, masks=MASKS, max_bad_fraction=0.6)
    for number in (6, 9, 12, 15, 0):
        mask = source / "masks" / "s0" / f"{number:03d}.png"
        mask.write_bytes(encode_png(draw_mask(number)))
    (source / "masks" / "s0" / "021.tif").unlink()
    options = {"masks": MASKS, "max_bad_fraction": 0.6}
    assert update(source, first, tmp_path / "mended", **options) == 20


def test_verify_finds_a_mask_that_was_changed(output, tmp_path):
    shutil.copytree(output, tmp_path / "data")
    shard = sorted((tmp_path / "data").glob("Split-train/*"))[0]
    with shard.open("rb") as file:
        examples = list(tfrecord.read_records(file))
    columns = record.all_columns((), has_masks=True)
    values = record.decode_example(examples[1], columns)
    longer = np.arange(80, dtype=np.uint8).reshape(8, 10) % 3
    for mask, problem in (
        (encode_mask(longer), "the index says otherwise: .*mask_length|index"),
        (values[record.MASK], None),
    ):
        changed = record.encode_example(values | {record.MASK: mask}, columns)
        shard.write_bytes(b"".join(map(tfrecord.frame, [examples[0], changed, *examples[2:]])))
        findings = [str(finding) for finding in verify_data_set(str(tmp_path / "data"))]
        assert bool(findings) == (problem is not None)
    stored = bytearray(shard.read_bytes())
    stored[stored.index(values[record.MASK]) + 50] ^= 1
    shard.write_bytes(stored)
    (finding,) = verify_data_set(str(tmp_path / "data"))
    assert (finding.record, finding.source) == (1, values[record.FILENAME].decode())


def test_two_levels_are_asked_about(pairs, tmp_path):
    source = tmp_path / "pairs"
    shutil.copytree(pairs, source)
    for path in (source / "masks").rglob("*.png"):
        path.write_bytes(
            encode_png(np.where(np.asarray(Image.open(path)) > 1, 255, 0).astype("u1"))
        )
    templates = {"images": "images/{key}.*", "masks": "masks/{key}.*"}
    with pytest.raises(UserError, match=r"only levels are 0 and 255.*background: 0, foreground"):
        ingest(source, tmp_path / "data", masks=templates)
    classes = {"background": 0, "foreground": 255}
    manifest = ingest(source, tmp_path / "one", masks=templates | {"classes": classes})
    assert KIND.class_names(manifest) == ("background", "foreground")
    assert set(manifest.splits["train"].mask_pixels) == {"0", "1"}
    manifest = ingest(source, tmp_path / "two", masks=templates | {"ignored": [255]})
    assert (KIND.class_names(manifest), set(manifest.splits["train"].mask_pixels)) == (
        ("0",),
        {"0", "255"},
    )


@pytest.mark.parametrize(
    ("images", "masks", "rule"),
    [
        ("photos/{key}.*", "masks/{key}.*", r"(?s)30 mask_without_image, .*called photos/\{key\}"),
        ("images/{key}.*", "labels/{key}.*", r"(?s)no_mask, .*labels/\{key\}\.\* would fit"),
        ("a/{key}.*", "b/{key}.*", r"(?s)30 no_mask, .*neither an image's, a/\{key\}.*30 other_m"),
    ],
)
def test_templates_that_fit_nothing_are_named(pairs, tmp_path, images, masks, rule):
    with pytest.raises(UserError, match=rule):
        ingest(pairs, tmp_path, masks={"images": images, "masks": masks})


@pytest.mark.parametrize(
    ("images", "masks", "rule"),
    [
        ("images/*", "masks/*", "must have the same names in braces"),
        ("images/{a}.*", "masks/{b}.png", "must have the same names in braces"),
        ("images/{a}.*", "masks/{a}_{b}.png", "must have the same names in braces"),
        ("{key}.*", "{key}.*", "must differ"),
        ("/data/{key}.*", "masks/{key}.*", "relative to the images folder, got '/data/"),
        ("images/{key}.*", "./masks/{key}.*", r"relative to the images folder, got '\./masks"),
    ],
)
def test_templates_that_cannot_pair_are_refused(images, masks, rule):
    with pytest.raises(ValueError, match=rule):
        IngestOptions(masks={"images": images, "masks": masks})


def test_masks_need_paths_in_a_folder_and_a_column_in_a_table(pairs, tmp_path):
    with pytest.raises(UserError, match=r"must say where the masks in .* are; set"):
        complete_options(str(pairs), IngestOptions(masks={}))
    table = tmp_path / "t.csv"
    table.write_text("path\nimages/s0/000.png\n")
    with pytest.raises(UserError, match=r"no column of .* has a usual name for masks"):
        complete_options(str(table), IngestOptions(masks={}))
    with pytest.raises(UserError, match=r"are for a folder, but .* is a table"):
        complete_options(str(table), IngestOptions(masks=MASKS))


def test_manifests_with_masks_are_sealed_and_read_again(output):
    content = (output / "manifest.json").read_bytes()
    manifest = parse_manifest(content)
    assert manifest.to_bytes() == content
    said = json.loads(content)
    said["splits"]["train"]["mask_pixels"]["0"] += 1
    with pytest.raises(ValueError, match="manifest_sha256"):
        parse_manifest(json.dumps(said).encode())
    assert parse_manifest(json.dumps(seal(said)).encode()).splits != manifest.splits
    assert KIND.class_names(manifest) == ("sky", "road", "car")


def test_labels_are_read_beside_masks_if_a_pattern_says_so(pairs, tmp_path):
    pattern = r"images/(?P<label>s\d)/.+"
    ingest(pairs, tmp_path, masks=MASKS, label_pattern=pattern)
    for _, values in _records(tmp_path):
        assert values[record.LABEL] == re.match(rb"images/(s\d)", values[record.FILENAME])[1]


def test_an_update_finds_the_image_that_a_mask_was_without(tmp_path):
    pairs = write_pairs(tmp_path / "pairs", 12)
    missing = pairs / "images" / "s1" / "004.png"
    content = missing.read_bytes()
    missing.unlink()
    options = {"masks": MASKS, "max_bad_fraction": 0.5}
    manifest = ingest(pairs, tmp_path / "data", **options)
    assert manifest.books.quarantine_reasons == {"mask_without_image": 1}
    missing.write_bytes(content)
    assert update(pairs, tmp_path / "data", tmp_path / "whole", **options) == 11
    assert read_manifest(str(tmp_path / "whole")).books.written == 12
