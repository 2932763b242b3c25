import io
import os
import shutil

import numpy as np
import pytest
from PIL import Image

from image_pipeline.browse.catalogue import Catalogue, Query
from image_pipeline.browse.pictures import NoPicture, Originals
from image_pipeline.components.dataset.manifest import read_manifest
from tests.drawings import draw, encode_png, write_folder
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam


def open_both(data, images):
    manifest = read_manifest(str(data))
    given = None if images is None else str(images)
    return Catalogue(str(data), manifest), Originals(str(data), manifest, given)


def read(catalogue, originals, path):
    (number,) = catalogue.find(Query(path=path))
    return originals.read(catalogue.read([int(number)])[0])


def test_the_file_of_a_record_is_read_as_it_is(browsed):
    both = open_both(browsed.data, browsed.images)
    for path in ("cat/04.png", "cat/copy.png", "about.txt"):
        assert read(*both, path) == (browsed.images / path).read_bytes()


def test_a_rejected_file_is_shown_as_it_was(browsed):
    """From the copy that ingest keeps, wherever the images are by now."""
    assert read(*open_both(browsed.data, None), "dog/<b>.png") == b"no picture"


def test_what_is_not_there_says_so(browsed, tmp_path):
    with pytest.raises(NoPicture, match="is not known; give it with --images"):
        read(*open_both(browsed.data, None), "cat/04.png")
    shutil.copytree(browsed.images, tmp_path / "images")
    (tmp_path / "images" / "cat" / "04.png").unlink()
    with pytest.raises(NoPicture, match=r"cannot be read from .*: No such file"):
        read(*open_both(browsed.data, tmp_path / "images"), "cat/04.png")


@pytest.mark.parametrize("is_link", [True, False])
def test_no_copy_leads_out_of_the_data_set(browsed, tmp_path, is_link):
    """Whoever made the data set wrote its list, and its links."""
    (tmp_path / "secret").write_bytes(b"TOP-SECRET")
    shutil.copytree(browsed.data, tmp_path / "data")
    catalogue, originals = open_both(tmp_path / "data", None)
    (number,) = catalogue.find(Query(path="dog/<b>.png"))
    row = catalogue.read([int(number)])[0]
    copy = tmp_path / "data" / "quarantine" / row["sha256"]
    if is_link:
        copy.unlink()
        copy.symlink_to(tmp_path / "secret")
    else:
        row["sha256"] = "../../secret"
    with pytest.raises(NoPicture, match=r"cannot be read from .quarantine/.*: a link that leaves"):
        originals.read(row)


def test_no_link_and_no_path_leads_out_of_the_folder(browsed, tmp_path):
    secret = tmp_path / "secret.png"
    secret.write_bytes(encode_png(draw(1)))
    shutil.copytree(browsed.images, tmp_path / "images")
    (tmp_path / "images" / "cat" / "04.png").unlink()
    (tmp_path / "images" / "cat" / "04.png").symlink_to(secret)
    catalogue, originals = open_both(browsed.data, tmp_path / "images")
    with pytest.raises(NoPicture, match="leaves the images folder"):
        read(catalogue, originals, "cat/04.png")
    for path in ("../secret.png", str(secret)):
        with pytest.raises(NoPicture, match="leaves the images folder"):
            originals.read({"state": "stored", "source": path})


def test_names_that_are_not_utf8_are_found(tmp_path):
    images = write_folder(tmp_path / "images", per_class=3)
    data = encode_png(draw(77))
    with open(os.fsencode(images / "cat") + b"/\xe9t\xe9.png", "wb") as file:
        file.write(data)
    ingest(images, tmp_path / "data")
    assert read(*open_both(tmp_path / "data", images), r"cat/\xe9t\xe9.png") == data


def test_rows_of_a_table_and_members_of_an_archive_are_found(tmp_path):
    images = write_folder(tmp_path / "images", per_class=3)
    shutil.make_archive(str(tmp_path / "packed"), "zip", images)
    ingest(tmp_path / "packed.zip", tmp_path / "a")
    expected = (images / "dog" / "002.png").read_bytes()
    assert read(*open_both(tmp_path / "a", tmp_path / "packed.zip"), "dog/002.png") == expected
    (tmp_path / "t.csv").write_text(
        "path,label\n" + "".join(f"images/dog/00{n}.png,dog\n" for n in range(3))
    )
    ingest(tmp_path / "t.csv", tmp_path / "b")
    both = open_both(tmp_path / "b", tmp_path / "t.csv")
    assert read(*both, "images/dog/002.png") == expected
    (tmp_path / "t.csv").write_text("path,label\nimages/dog/000.png,dog\n")
    with pytest.raises(NoPicture, match="there is no such image any more"):
        read(*open_both(tmp_path / "b", tmp_path / "t.csv"), "images/dog/002.png")


def test_browsers_get_files_as_they_are_and_others_as_ingest_reads_them(browsed):
    _, originals = open_both(browsed.data, browsed.images)
    pixels = draw(5, 30, 40)
    png = encode_png(pixels)
    assert originals.draw(png) == ("image/png", png)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "TIFF")
    drawn = originals.draw(file.getvalue())
    assert drawn.kind == "image/png"
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(drawn.data))), pixels)
    script = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    for content in (b"no picture", script):
        with pytest.raises(NoPicture, match="cannot be decoded"):
            originals.draw(content)


def test_a_file_that_has_grown_too_large_is_not_shown(tmp_path):
    images = write_folder(tmp_path / "images", per_class=3)
    ingest(images, tmp_path / "data", prepare={"max_file_bytes": 2000})
    (images / "cat" / "001.png").write_bytes(encode_png(draw(1, 100, 100)))
    with pytest.raises(NoPicture, match=r"more than prepare\.max_file_bytes=2000 bytes"):
        read(*open_both(tmp_path / "data", images), "cat/001.png")
