import pytest

from image_pipeline.components.ingest.prepare import prepare_source
from image_pipeline.components.ingest.work_folder import WorkFolder
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.folder import Folder
from image_pipeline.components.sources.references import ImageRef
from tests.drawings import draw, encode_png, write_folder
from tests.ingest.test_prepare import prepare_folder

pytestmark = pytest.mark.unit


def test_a_row_tells_where_an_image_came_from(tmp_path):
    (tmp_path / "images" / "cat").mkdir(parents=True)
    data = encode_png(draw(1, height=8, width=10))
    (tmp_path / "images" / "cat" / "1.png").write_bytes(data)
    options = IngestOptions(group_pattern=r"(?P<group>[^/]+)/", threads=1)
    _, (row,), _ = prepare_folder(tmp_path / "images", tmp_path / "work", options)
    expected = {
        "label": "cat",
        "group": "cat",
        "forced_split": None,
        "reason": None,
        "source_bytes": len(data),
        "format": "jpeg",
        "height": 8,
        "width": 10,
        "channels": 3,
        "source_format": "png",
        "orientation": 1,
    }
    assert {name: row[name] for name in expected} == expected
    assert len(row["record_id"]) == 16


def test_the_record_id_depends_on_content_and_path(tmp_path):
    for name, seed in [("a/1.png", 1), ("a/2.png", 1), ("b/1.png", 2)]:
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / name).write_bytes(encode_png(draw(seed)))
    _, rows, _ = prepare_folder(tmp_path / "images", tmp_path / "work")
    assert len({row["record_id"] for row in rows}) == 3
    assert len({row["sha256"] for row in rows}) == 2


@pytest.mark.parametrize(
    ("ref", "options", "reason"),
    [
        (ImageRef("cat/gone.png", 5, 0), {}, "vanished"),
        (ImageRef("cat/broken.png", 0, 0, "not_a_file"), {}, "not_a_file"),
        (ImageRef("cat/link.png", 0, 0, "outside"), {}, "outside"),
        (ImageRef("cat/text.png", 5, 0), {}, "not_an_image"),
        (ImageRef("top.png", 5, 0), {}, "no_label"),
        (ImageRef("cat/text.png", 10**12, 0), {}, "too_large_file"),
        (ImageRef("cat", 0, 0), {}, "not_a_file"),
        (
            ImageRef("cat/text.png", 5, 0),
            {"split_pattern": "(?P<split>[^/]+)/"},
            "unknown_split",
        ),
    ],
)
def test_what_cannot_be_written_says_why(tmp_path, ref, options, reason):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "text.png").write_bytes(b"hello")
    (tmp_path / "top.png").write_bytes(encode_png(draw(1)))
    row, payload = prepare_source(
        ref,
        Folder(str(tmp_path), options.get("follow_links", False)),
        WorkFolder(str(tmp_path)),
        IngestOptions(**options),
    )
    assert (row["reason"], payload) == (reason, b"")
    assert row["message"]


def test_a_bad_files_bytes_are_kept(tmp_path):
    (tmp_path / "images" / "cat").mkdir(parents=True)
    (tmp_path / "images" / "cat" / "1.png").write_bytes(b"hello")
    prepared, (row,), _ = prepare_folder(tmp_path / "images", tmp_path / "work")
    assert prepared.bad == 1
    assert (tmp_path / "work" / "quarantine" / row["sha256"].hex()).read_bytes() == b"hello"


@pytest.mark.parametrize(("names", "split"), [({}, "train"), ({"train": "eval"}, "eval")])
def test_a_path_names_the_split_or_its_other_name(tmp_path, names, split):
    images = write_folder(tmp_path / "train", per_class=1).parent
    patterns = {"split_pattern": "(?P<split>train)/", "label_pattern": "[^/]+/(?P<label>[^/]+)/.+"}
    options = IngestOptions(**patterns, split_names=names, threads=1)
    _, rows, _ = prepare_folder(images, tmp_path / "work", options)
    assert [(row["forced_split"], row["label"]) for row in rows] == [(split, "cat"), (split, "dog")]


def test_a_large_archive_is_skipped_by_its_first_bytes(tmp_path):
    (tmp_path / "images.zip").write_bytes(b"PK\3\4" + bytes(5000))
    options = IngestOptions(prepare={"max_file_bytes": 1000})
    ref = ImageRef("images.zip", 5004, 0)
    row, _ = prepare_source(ref, Folder(str(tmp_path)), WorkFolder(str(tmp_path)), options)
    assert (row["reason"], row["is_skipped"]) == ("archive", True)
    assert "unpack it" in row["message"]
