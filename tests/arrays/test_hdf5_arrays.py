"""HDF5: data sets of every layout, texts and files; what is not read is named."""

import zlib

import h5py
import numpy as np
import pytest

from image_pipeline.components.arrays.arrays import reopen_arrays
from image_pipeline.components.arrays.hdf5_arrays import open_hdf5
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.sources.understood import collect
from tests.array_files import IMAGES, write_files, write_hdf5
from tests.arrays.test_array_tables import list_refs

pytestmark = pytest.mark.unit

RNG = np.random.default_rng(1)
DEEP = (IMAGES.astype(np.int32) * 7919).astype(">i4")


def _open(path):
    return {array.name: array for array in open_hdf5(str(path))}


@pytest.mark.parametrize("userblock_size", [0, 512])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"chunks": (7, 4, 5, 2)},
        {"chunks": (1, 6, 5, 3)},
        {"chunks": (7, 4, 5, 2), "compression": "gzip", "shuffle": True},
        {"chunks": (64, 6, 5, 3), "maxshape": (None, 6, 5, 3), "compression": "gzip"},
        {"chunks": (7, 4, 5, 2), "compression": "lzf", "fletcher32": True},
        {"chunks": (7, 4, 5, 2), "scaleoffset": 0},
    ],
)
def test_any_rows_are_those_that_hdf5_reads(tmp_path, settings, userblock_size):
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=userblock_size) as file:
        file.create_dataset("x", data=DEEP, **settings)
    array = _open(tmp_path / "a.h5")["x"]
    assert array.rows_at_once == settings.get("chunks", (1,))[0]
    for start, stop in [(0, 50), (3, 9), (6, 8), (49, 50), (7, 14)]:
        assert np.array_equal(array.read(start, stop), DEEP[start:stop])


@pytest.mark.e2e
def test_a_changed_bit_in_what_is_packed_is_damage(tmp_path):
    images = np.random.default_rng(1).integers(0, 40, (40, 16, 16, 3), np.uint8)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        place = file.create_dataset("x", data=images, chunks=(1, 16, 16, 3), compression="gzip")
        chunks = [place.id.get_chunk_info(row) for row in range(len(images))]
    data = bytearray((tmp_path / "a.h5").read_bytes())
    for row, chunk in enumerate(chunks):
        data[chunk.byte_offset + 20 + (chunk.size - 20) * row // len(chunks)] ^= 16
    (tmp_path / "a.h5").write_bytes(data)
    array = reopen_arrays(str(tmp_path / "a.h5"))["x"]
    for row in range(len(images)):
        with pytest.raises(BadImage, match=r"'/x' cannot be read .*filter returned"):
            array.read(row, row + 1)


def _pack_lzf(data):
    return b"".join(bytes([31]) + data[at : at + 32] for at in range(0, len(data), 32))


@pytest.mark.parametrize(
    ("settings", "pack"),
    [
        ({"compression": "gzip"}, zlib.compress),
        ({"compression": "gzip", "shuffle": True}, zlib.compress),
        ({"compression": "lzf"}, _pack_lzf),
    ],
)
@pytest.mark.parametrize("size", [64, 512, 544, 4096])
def test_a_chunk_of_another_size_than_its_values_is_damage(tmp_path, settings, pack, size):
    """HDF5 itself would go on with what lies behind it in memory."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        item = file.create_dataset("x", (6, 16, 32), "u1", chunks=(1, 16, 32), **settings)
        for row in range(5):
            item.id.write_direct_chunk(
                (row, 0, 0), pack(bytes([row]) * (size if row == 3 else 512))
            )
    read = _open(tmp_path / "a.h5")["x"].read
    for row in (0, 1, 2, 4, 5):  # The last one was never written.
        assert np.array_equal(read(row, row + 1), np.full((1, 16, 32), row % 5, np.uint8))
    if size == 512:
        assert np.array_equal(read(3, 4), np.full((1, 16, 32), 3, np.uint8))
    else:
        with pytest.raises(BadImage, match=r"a chunk of '/x' has (more|fewer) than 512 bytes"):
            read(3, 4)


@pytest.mark.parametrize("settings", [{"compression": "gzip"}, {"compression": "lzf"}])
def test_a_packed_chunk_that_says_it_is_not_is_damage(tmp_path, settings):
    images = np.arange(2 * 16 * 32, dtype=np.uint8).reshape(2, 16, 32) // 16
    with h5py.File(tmp_path / "a.h5", "w") as file:
        whole = file.create_dataset("y", data=images, chunks=(1, 16, 32), **settings)
        _, packed = whole.id.read_direct_chunk((1, 0, 0))
        item = file.create_dataset("x", images.shape, "u1", chunks=(1, 16, 32), **settings)
        item.id.write_direct_chunk((0, 0, 0), images[0].tobytes(), filter_mask=1)
        item.id.write_direct_chunk((1, 0, 0), packed, filter_mask=1)
    read = _open(tmp_path / "a.h5")["x"].read
    assert np.array_equal(read(0, 1), images[:1])  # As HDF5 stores what packing makes no smaller.
    with pytest.raises(BadImage, match=r"a chunk of '/x' has (more|fewer) than 512 bytes"):
        read(1, 2)


def test_what_was_never_written_has_its_fill_value(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, settings in {"late": {}, "chunked": {"chunks": (7, 6, 5, 3)}}.items():
            file.create_dataset(name, IMAGES.shape, np.uint8, fillvalue=9, **settings)
        file["chunked"][:7] = IMAGES[:7]
        rows = file.create_dataset("jpeg", (5,), h5py.vlen_dtype(np.uint8), chunks=(2,))
        rows[0] = [1, 2, 3]
    arrays = _open(tmp_path / "a.h5")
    assert (arrays["late"].read(0, 50) == 9).all()
    assert np.array_equal(arrays["chunked"].read(5, 9), [*IMAGES[5:7], *np.full((2, 6, 5, 3), 9)])
    assert arrays["jpeg"].count_bytes(0, 5) == [3, 0, 0, 0, 0]


@pytest.mark.e2e
def test_a_filter_that_is_not_installed_is_named(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["y"] = np.arange(50)
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((7, 6, 5, 3))
        properties.set_filter(32001, h5py.h5z.FLAG_OPTIONAL, (2, 2, 1, 630))  # Blosc's number
        space = h5py.h5s.create_simple(IMAGES.shape)
        h5py.h5d.create(file.id, b"x", h5py.h5t.STD_U8LE, space, dcpl=properties)
    with pytest.raises(UserError, match=r"x: packed by .* not installed; repack it: h5repack"):
        list_refs(tmp_path / "a.h5")


@pytest.mark.e2e
def test_the_file_may_be_changed_while_it_is_open(tmp_path):
    for chunks in (None, (1, 6, 5, 3)):
        path = write_hdf5(tmp_path / f"{chunks}.h5", {"x": IMAGES}, chunks=chunks)
        held = reopen_arrays(str(path))["x"]
        with h5py.File(path, "a") as file:
            file["x"][3] = 0
        assert not held.read(3, 4).any()


@pytest.mark.e2e
def test_values_that_lie_in_other_files_are_not_read(tmp_path):
    layout = h5py.VirtualLayout(IMAGES.shape, np.uint8)
    for start in range(0, 50, 10):
        source = h5py.VirtualSource(f"other{start}.h5", "x", (10, *IMAGES.shape[1:]))
        layout[start : start + 10] = source
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("external", IMAGES.shape, np.uint8, external=[("raw", 0, 4500)])
        file["group/link"] = h5py.ExternalLink("gone.h5", "/x")
        file["group/nowhere"] = h5py.SoftLink("/none")
    found = {name: array.problem for name, array in _open(tmp_path / "a.h5").items()}
    rule = "elsewhere: its values lie in another file, {}; give that, or copy them into this one"
    assert found == {
        "external": rule.format("'raw'"),
        "group/link": rule.format("'gone.h5'"),
        "group/nowhere": (
            "a soft link to '/none', and arrays are read by their own names; name that one"
        ),
        "virtual": rule.format("'other0.h5', 'other10.h5', 'other20.h5' …"),
    }
    with pytest.raises(
        UserError, match=r"no images \(external: elsewhere: its values lie in .*'raw'"
    ):
        list_refs(tmp_path / "a.h5")


@pytest.mark.e2e
def test_labels_in_other_files_are_named(tmp_path):
    path = write_hdf5(tmp_path / "a.h5", {"x": IMAGES})
    with h5py.File(path, "a") as file:
        file["y"] = h5py.ExternalLink("labels.h5", "/y")
    with pytest.raises(UserError, match=r"labels 'y' cannot be read: they are .*'labels.h5'"):
        list_refs(path)
    with pytest.raises(UserError, match=r"names 'y' as label, but in .* it is .*'labels.h5'"):
        list_refs(path, columns={"label": "y"})
    assert len(list_refs(path, columns={"label": None})) == 50


@pytest.mark.e2e
def test_soft_links_are_named_and_arrays_read_once_by_their_own_names(tmp_path):
    """Also where one leads into another file, which is not opened."""
    write_hdf5(tmp_path / "other.h5", {"x": IMAGES})
    path = write_hdf5(tmp_path / "a.h5", {"x": IMAGES, "y": np.arange(50), "raw": -np.arange(50)})
    with h5py.File(path, "a") as file:
        file["other"], file["via"] = h5py.ExternalLink("other.h5", "/"), h5py.SoftLink("/other/x")
        file["all"], file["label"] = h5py.SoftLink("/"), h5py.SoftLink("/raw")
    with collect() as notes:
        assert [ref.annotations.label for ref in list_refs(path)[:2]] == ["0", "1"]
    links = {name: array.problem for name, array in _open(path).items() if array.problem}
    rule = "a soft link to {!r}, and arrays are read by their own names; name that one"
    assert list(links) == ["all", "label", "other", "via"]
    assert links["all"] == rule.format("/")
    assert links["via"] == rule.format("/other/x")
    assert notes.noticed == [
        f"a.h5: 'all' is not read, as 3 others are not: it is {rule.format('/')}"
    ]
    with pytest.raises(UserError, match=r"'label' as label, but in .* it is a soft link to '/raw'"):
        list_refs(path, columns={"label": "label"})
    with h5py.File(path, "a") as file:
        del file["y"]
    with pytest.raises(UserError, match=r"labels 'label' cannot be .* are a soft link to '/raw'"):
        list_refs(path)
    assert [ref.annotations.label for ref in list_refs(path, columns={"label": "raw"})[:2]] == [
        "0",
        "-1",
    ]


@pytest.mark.e2e
def test_links_beside_single_images_are_refused(tmp_path):
    path = write_hdf5(tmp_path / "a.h5", {"cat/0": IMAGES[0], "cat/1": IMAGES[1]})
    with h5py.File(path, "a") as file:
        file["test/cat/0"] = h5py.SoftLink("/cat/0")
    with pytest.raises(UserError, match=r"beside 'test/cat/0' \(a soft link to '/cat/0', and arr"):
        list_refs(path)


@pytest.mark.e2e
def test_a_damaged_file_is_refused_in_a_sentence(tmp_path):
    path = write_hdf5(tmp_path / "a.h5", {"x": IMAGES})
    data = path.read_bytes()
    path.write_bytes(data.replace(b"SNOD", b"SNOX"))
    said = (
        r"a.h5' cannot be read: it is damaged, or of a newer form than HDF5 [\d.]+ .*\(.*bad symbol"
    )
    with pytest.raises(UserError, match=said):
        list_refs(path)


@pytest.mark.e2e
def test_a_name_that_is_no_text_is_damage(tmp_path):
    path = write_hdf5(tmp_path / "a.h5", {"name": IMAGES})
    path.write_bytes(path.read_bytes().replace(b"name\0", b"n\xffme\0"))
    with pytest.raises(UserError, match=r"a.h5' cannot be read: it is damaged"):
        list_refs(path)


def test_references_to_other_data_sets_are_no_images(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = IMAGES
        kinds = {"pointers": h5py.ref_dtype, "lists": h5py.vlen_dtype(np.float32)}
        for name, dtype in kinds.items():
            file.create_dataset(name, (len(IMAGES),), dtype)
    problems = {name: array.problem for name, array in _open(tmp_path / "a.h5").items()}
    rule = "; save files as one array [N] of variable-length uint8, and pixels as arrays of numbers"
    assert problems == {
        "lists": "of lists of float32" + rule,
        "pointers": "of references" + rule,
        "x": "",
    }


@pytest.mark.parametrize("settings", [{}, {"chunks": (7, 4), "compression": "gzip"}])
def test_elements_that_are_arrays_are_further_sides(tmp_path, settings):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        pixel = np.dtype((DEEP.dtype, DEEP.shape[2:]))
        file.create_dataset("x", DEEP.shape[:2], pixel, **settings)[...] = DEEP
    array = _open(tmp_path / "a.h5")["x"]
    assert (array.shape, array.dtype) == (DEEP.shape, DEEP.dtype)
    assert (array.offset is None) == bool(settings)
    for start, stop in [(0, 50), (3, 9), (49, 50)]:
        assert np.array_equal(array.read(start, stop), DEEP[start:stop])


def test_what_is_neither_numbers_texts_nor_files_says_how_to_save_it(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["records"] = np.zeros(3, [("image", "u1", (8, 9, 3)), ("label", "i4")])
        file["opaque"], file["one"] = np.array([np.void(b"abc")] * 3), np.void(b"abc")
        file.create_dataset("files", (3, 1), h5py.vlen_dtype(np.uint8))
        file["number"] = np.int16(7)
    arrays = _open(tmp_path / "a.h5")
    how = "; save files as one array [N] of variable-length uint8, and pixels as arrays of numbers"
    assert {name: array.problem for name, array in arrays.items()} == {
        "files": "of files [3, 1]" + how,
        "number": "",
        "one": "of opaque bytes" + how,
        "opaque": "of opaque bytes" + how,
        "records": "of records of image, label; save each of these as an array of its own",
    }
    assert (arrays["number"].shape, arrays["number"].dtype) == ((), np.int16)


# Of several collections of HDF5's; empty ones; and a zero within.
FILES = [RNG.bytes(int(size)) for size in (*RNG.integers(0, 9_000, 400), 0, 3_000_000, 5)]
TEXTS = [f"{'é' * (row % 50)} {row}" for row in range(len(FILES))]


@pytest.mark.e2e
@pytest.mark.parametrize("userblock_size", [0, 512])
@pytest.mark.parametrize("settings", [{}, {"chunks": (7,), "compression": "gzip"}])
def test_texts_and_files_are_those_that_were_written(tmp_path, settings, userblock_size):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", userblock_size=userblock_size) as file:
        file.create_dataset("text", data=TEXTS, **settings)
        file.create_dataset("deep", data=np.array(TEXTS[:50], object).reshape(10, 5))
    write_files(path, "file", FILES, **settings)
    arrays = reopen_arrays(str(path))
    for start, stop in [(0, len(FILES)), (5, 6), (398, 403)]:
        assert list(arrays["file"].read(start, stop)) == FILES[start:stop]
        assert arrays["file"].count_bytes(start, stop) == list(map(len, FILES[start:stop]))
        assert [text.decode() for text in arrays["text"].read(start, stop)] == TEXTS[start:stop]
    assert arrays["deep"].read(3, 4).tolist() == [[text.encode() for text in TEXTS[15:20]]]


def test_texts_that_were_never_written_are_empty_or_the_fill_value(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, settings in {"late": {}, "chunked": {"chunks": (2,)}, "own": {}}.items():
            fill = {"fillvalue": "none"} if name == "own" else {}
            rows = file.create_dataset(name, (5,), h5py.string_dtype(), **settings, **fill)
            rows[0] = "a b" if name == "chunked" else "a"
    # Other programs' texts may end in a zero.
    data = (tmp_path / "a.h5").read_bytes()
    (tmp_path / "a.h5").write_bytes(data.replace(b"a b", b"a\0b"))
    arrays = _open(tmp_path / "a.h5")
    assert arrays["late"].read(0, 5).tolist() == [b"a", *[b""] * 4]
    assert arrays["chunked"].read(0, 5).tolist() == [b"a", *[b""] * 4]
    assert arrays["own"].read(0, 5).tolist() == [b"a", *[b"none"] * 4]
