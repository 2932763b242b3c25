"""HEIC, JPEG XL and DICOM among other images, from the folder to the record."""

import numpy as np
import pytest
from click.testing import CliRunner

from image_pipeline.cli import cli
from image_pipeline.components import extras
from image_pipeline.components.dataset.index_file import scan_index
from image_pipeline.components.dataset.lists import Skipped, read_list
from image_pipeline.components.errors import UserError
from image_pipeline.show.ingest_summary import count_unserved
from tests.images.extra_files import save_dicom, save_heic, save_jxl
from tests.images.zoo import ZOO
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam
KINDS = {"heic": save_heic, "jxl": save_jxl, "dicom": save_dicom}


def draw(seed):
    return np.random.default_rng(seed).integers(0, 256, (16, 24, 3), np.uint8)


def write_images(folder, names, per_class=12):
    for place, label in enumerate(("cat", "dog")):
        (folder / label).mkdir(parents=True)
        for number in range(per_class):
            kind, ending = names[number % len(names)]
            data = KINDS[kind](draw(place * per_class + number))
            (folder / label / f"{number}{ending}").write_bytes(data)


@pytest.mark.parametrize(
    "names",
    [
        [("heic", ".HEIC"), ("jxl", ".jxl"), ("dicom", ".dcm")],
        [("heic", ".heif"), ("heic", ".jpg"), ("dicom", ".hif")],
        [("dicom", "")],
    ],
)
def test_they_are_images_by_name_and_by_content(names, tmp_path):
    write_images(tmp_path / "images", names)
    (tmp_path / "images" / "DICOMDIR").write_bytes(
        bytes(128) + b"DICM\2\0\2\0UI\x1a\0001.2.840.10008.1.3.10\0"
    )
    output = tmp_path / "c.yaml"
    shown = CliRunner().invoke(
        cli, ["init", str(tmp_path / "images"), "--yes", "--output", str(output)]
    )
    assert shown.exit_code == 0, shown.output
    assert "class folders" in shown.output and "24" in shown.output
    assert "not read" not in shown.output

    manifest = ingest(tmp_path / "images", tmp_path / "data")
    assert (manifest.books.written, manifest.books.quarantined) == (24, 0)
    assert [line.path for line in read_list(str(tmp_path / "data"), Skipped)] == ["DICOMDIR"]
    rows = [
        row
        for batch in scan_index(str(tmp_path / "data"), ["source", "source_format", "label"])
        for row in batch.to_pylist()
    ]
    assert {row["label"] for row in rows} == {"cat", "dog"}
    expected = {kind for kind, _ in names}
    assert {row["source_format"] for row in rows} == expected
    words = {"heic": "HEIC", "jxl": "JPEG XL", "dicom": "DICOM"}
    assert count_unserved(str(tmp_path / "data")).keys() == {words[kind] for kind in expected}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_goes_on_once_the_extra_is_installed_that_it_ended_for(tmp_path, monkeypatch, kind):
    write_images(tmp_path / "images", [(kind, f".{kind}")], per_class=6)
    with monkeypatch.context() as patched:
        patched.setitem(extras._PACKAGES, kind, ("its package", "no_such_module"))
        with pytest.raises(UserError, match=r"12 unsupported, .*needs its package"):
            ingest(tmp_path / "images", tmp_path / "data")
    manifest = ingest(tmp_path / "images", tmp_path / "data")
    assert (manifest.books.written, manifest.books.quarantined) == (12, 0)


def test_records_do_not_depend_on_what_pillow_has_registered(tmp_path):
    """As if another library of the process had."""
    import pillow_heif
    from PIL import Image

    write_images(tmp_path / "images", [("heic", ".heic")], per_class=6)
    (tmp_path / "images" / "cat" / "turned.heic").write_bytes(ZOO["heic_turned"].data)
    before = ingest(tmp_path / "images", tmp_path / "before")
    pillow_heif.register_heif_opener()
    try:
        after = ingest(tmp_path / "images", tmp_path / "after")
    finally:
        del Image.OPEN["HEIF"]
        Image.ID.remove("HEIF")
    assert before.splits == after.splits
