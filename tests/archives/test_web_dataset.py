"""WebDatasets: a row for each sample, of whatever is beside its image, and what is damaged."""

import json

import pytest

from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.open_source import open_source
from image_pipeline.components.meaning.options import IngestOptions
from tests.data_set_files import write_tar
from tests.drawings import draw, encode_png

pytestmark = pytest.mark.unit

IMAGES = [encode_png(draw(number)) for number in range(8)]


def _members(numbers, folder=""):
    members = {}
    for number in numbers:
        key = f"{folder}{number:04d}"
        members[f"{key}.png"] = IMAGES[number]
        members[f"{key}.cls"] = b"%d\n" % (number % 2)
        members[f"{key}.json"] = json.dumps({"n": number, "site": f"s{number}"}).encode()
        members[f"{key}.txt"] = f"Nr. {number}\n".encode()
    return members


def _open(images, **options):
    options = complete_options(str(images), IngestOptions(**options))
    return open_source(str(images), options), options


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz"])
def test_members_of_a_key_are_a_row(tmp_path, name):
    write_tar(tmp_path / name, _members(range(4)))
    source, options = _open(tmp_path / name)
    refs = list(source.list())
    assert {ref.path: source.read(ref, 10**9) for ref in refs} == {
        f"{number:04d}.png": IMAGES[number] for number in range(4)
    }
    assert [ref.annotations.label for ref in refs] == ["0", "1", "0", "1"]
    assert (
        refs[2].annotations.further == (2, "s2", "Nr. 2") and refs[2].annotations.row == f"{name}:3"
    )
    assert options.columns == {
        **{"image": "image", "path": "__name__", "label": "cls"},
        **{"n": "n", "site": "site", "txt": "txt"},
    }


def test_several_archives_are_one_data_set(tmp_path):
    for shard in range(3):
        write_tar(tmp_path / f"s-{shard:03d}.tar", _members(range(2 * shard, 2 * shard + 2)))
    source, _ = _open(f"{tmp_path}/s-{{000..002}}.tar")
    assert [source.read(ref, 10**9) for ref in source.list()] == IMAGES[:6]


def test_equal_keys_in_several_archives_are_several_images(tmp_path):
    for shard in range(2):
        write_tar(tmp_path / f"{shard}.tar", {"k.png": IMAGES[shard], "k.cls": b"1"})
    source, _ = _open(f"{tmp_path}/*.tar")
    assert {ref.path: source.read(ref, 10**9) for ref in source.list()} == {
        "0.tar/00000001": IMAGES[0],
        "1.tar/00000001": IMAGES[1],
    }


def test_further_images_are_columns_of_their_endings(tmp_path):
    members = {"k.seg.png": IMAGES[1], "k.png": IMAGES[0], "k.cls": b"a", "k.depth.png": IMAGES[2]}
    write_tar(tmp_path / "a.tar", members)
    source, options = _open(tmp_path / "a.tar", columns={"mask": "seg.png"})
    (ref,) = source.list()
    assert (source.read(ref, 10**9), source.read(ref.mask, 10**9)) == (IMAGES[0], IMAGES[1])
    assert options.columns["mask"] == "seg.png" and "depth_png" not in options.columns


def test_keys_end_at_the_first_dot_of_the_file_and_not_of_a_folder(tmp_path):
    write_tar(tmp_path / "a.tar", {"v1.0/k.png": IMAGES[0], "v1.0/k.cls": b"cat"})
    (ref,) = _open(tmp_path / "a.tar")[0].list()
    assert (ref.path, ref.annotations.label) == ("v1.0/k.png", "cat")


def test_damaged_samples_are_named_and_the_rest_goes_on(tmp_path):
    members = _members(range(4)) | {"0001.json": b"{", "0002.txt": b"x" * (2**20 + 1)}
    del members["0003.png"]
    write_tar(tmp_path / "a.tar", members)
    found = {ref.path: ref.message for ref in _open(tmp_path / "a.tar")[0].list()}
    assert found["0000.png"] == ""
    assert found["a.tar:2"].startswith("a.tar:2: '0001.json' is not valid JSON")
    assert "a text may have 1048576" in found["a.tar:3"]
    assert found["a.tar:4"] == "a.tar:4: the column 'image' is empty"


def test_a_cut_archive_names_its_end(tmp_path):
    write_tar(tmp_path / "a.tar", _members(range(8)))
    size = (tmp_path / "a.tar").stat().st_size
    (tmp_path / "a.tar").write_bytes((tmp_path / "a.tar").read_bytes()[: size // 2])
    source, _ = _open(tmp_path / "a.tar")
    refs = list(source.list())
    good = [ref for ref in refs if ref.problem is None]
    assert 1 < len(good) < 8
    assert [source.read(ref, 10**9) for ref in good] == IMAGES[: len(good)]
    assert "is not read: " in refs[-1].message


def test_fields_that_have_fields_stay_json(tmp_path):
    text = b'{"exif": {"a": [1]}, "all": [{"b": 2}], "tags": ["x"]}'
    write_tar(tmp_path / "a.tar", {"k.png": IMAGES[0], "k.json": text})
    source, _ = _open(tmp_path / "a.tar")
    (ref,) = source.list()
    assert set(map(str, ref.annotations.further)) == {'{"a": [1]}', '[{"b": 2}]', "['x']"}
