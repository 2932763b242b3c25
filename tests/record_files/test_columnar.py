"""Parquet and Arrow files: images where they are, names of classes, splits, and what is damaged."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.labels.boxes import BoxAnnotation
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.open_source import open_source
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.record_files import columnar_locations
from image_pipeline.components.record_files.columnar_locations import read_parquet_cell
from image_pipeline.components.sources.source_kinds import read_rows
from tests.data_set_files import make_table, write_arrow, write_parquet
from tests.drawings import draw, encode_png

pytestmark = pytest.mark.unit

COUNT = 30
IMAGES = [encode_png(draw(number)) for number in range(COUNT)]
WRITERS = {"a.parquet": write_parquet, "a.arrow": write_arrow, "a.feather": write_arrow}
FEATURES = {
    "image": {"_type": "Image"},
    "label": {"_type": "ClassLabel", "names": ["cat", "dog", "cow"]},
    "objects": {
        "bbox": {"_type": "Sequence", "feature": {"_type": "Sequence", "length": 4}},
        "category": {"_type": "Sequence", "feature": {"_type": "ClassLabel", "names": ["a", "b"]}},
    },
    "kinds": [{"_type": "ClassLabel", "names": ["x", "y"]}],
}
METADATA = json.dumps({"info": {"features": FEATURES}})


def _open(path, **options):
    options = complete_options(str(path), IngestOptions(**options))
    return open_source(str(path), options), options


def _read(path, **options):
    source, _ = _open(path, **options)
    return {
        ref.path: ref.message if ref.problem else source.read(ref, 10**9) for ref in source.list()
    }


@pytest.mark.parametrize("name", WRITERS)
def test_images_are_read_from_where_they_are(tmp_path, name):
    WRITERS[name](tmp_path / name, make_table(IMAGES, label=[n % 3 for n in range(COUNT)]))
    assert _read(tmp_path / name) == {f"{name}/{n + 1:08d}": d for n, d in enumerate(IMAGES)}
    source, _ = _open(tmp_path / name)
    assert [ref.annotations.label for ref in source.list()][:4] == ["0", "1", "2", "0"]


@pytest.mark.parametrize("name", WRITERS)
def test_numbers_of_classes_get_their_names_at_any_depth(tmp_path, name):
    objects = [{"bbox": [[1.0, 2.0, 3.0, 4.0]] * n, "category": [1, 0][:n]} for n in (0, 2, 1)]
    table = make_table(
        IMAGES[:3], METADATA, label=[1, -1, 2], objects=objects, kinds=[[0], [1, 0], []]
    )
    WRITERS[name](tmp_path / name, table)
    source, options = _open(tmp_path / name)
    refs = list(source.list())
    assert [ref.annotations.label for ref in refs] == ["dog", "", "cow"]
    assert [ref.annotations.further[0] for ref in refs] == [["x"], ["y", "x"], []]
    box = (1.0, 2.0, 3.0, 4.0)
    assert refs[1].annotations.further[1] == (
        [],
        [BoxAnnotation(box, "b"), BoxAnnotation(box, "a")],
    )
    assert options.boxes.classes == ("a", "b")


@pytest.mark.parametrize("name", WRITERS)
def test_paths_beside_the_bytes_are_what_images_are_called(tmp_path, name):
    cells = [(IMAGES[0], "x/a.png"), (IMAGES[1], None), (IMAGES[2], "same.png")]
    WRITERS[name](tmp_path / name, make_table([*cells, (IMAGES[3], "same.png")]))
    called = ["x/a.png", f"{name}/00000002", f"{name}/00000003", f"{name}/00000004"]
    assert _read(tmp_path / name) == dict(zip(called, IMAGES, strict=False))


@pytest.mark.parametrize("name", WRITERS)
def test_a_row_without_an_image_is_named(tmp_path, name):
    WRITERS[name](tmp_path / name, make_table([IMAGES[0], None, IMAGES[2]]))
    found = _read(tmp_path / name)
    assert found[f"{name}:2"] == f"{name}:2: the column 'image' is empty"
    assert found[f"{name}/00000003"] == IMAGES[2]


@pytest.mark.parametrize("name", WRITERS)
def test_paths_without_bytes_are_files(tmp_path, name):
    """As `datasets` writes them if it is told not to embed files."""
    (tmp_path / "x.png").write_bytes(IMAGES[0])
    WRITERS[name](tmp_path / name, make_table([(None, "x.png")]))
    assert _read(tmp_path / name) == {"x.png": IMAGES[0]}


@pytest.mark.parametrize("name", WRITERS)
def test_binary_columns_are_images_if_they_begin_as_such(tmp_path, name):
    table = pa.table({"png": IMAGES, "mask": IMAGES[::-1], "note": [b"text"] * COUNT})
    WRITERS[name](tmp_path / name, table)
    source, options = _open(tmp_path / name)
    assert options.columns == {**{"image": "png", "path": None, "mask": "mask", "note": "note"}}
    first = next(iter(source.list()))
    assert source.read(first, 10**9) == IMAGES[0]
    assert source.read(first.mask, 10**9) == IMAGES[-1]
    assert first.annotations.further == ("text",)


@pytest.mark.parametrize("order", [range(COUNT), reversed(range(COUNT)), [29, 3, 17, 2, 28]])
def test_rows_of_parquet_may_be_read_in_any_order(tmp_path, monkeypatch, order):
    monkeypatch.setattr(columnar_locations, "_MOST_ROWS", 4)
    write_parquet(tmp_path / "a.parquet", make_table(IMAGES), rows=11)
    source, _ = _open(tmp_path / "a.parquet")
    refs = list(source.list())
    for number in order:
        assert source.read(refs[number], 10**9) == IMAGES[number]


def test_few_blocks_of_a_parquet_file_are_held(tmp_path, monkeypatch):
    monkeypatch.setattr(columnar_locations, "_MOST_ROWS", 2)
    write_parquet(tmp_path / "a.parquet", make_table(IMAGES), rows=30)
    source, _ = _open(tmp_path / "a.parquet")
    refs = list(source.list())
    for ref in refs:
        source.read(ref, 10**9)
    place = refs[0].location
    column = columnar_locations._open_column(place.file, place.inside, refs[0].modified_ns)
    assert len(column._blocks) == columnar_locations._BLOCKS


def test_a_damaged_part_of_a_parquet_file_is_the_images_problem(tmp_path):
    path = tmp_path / "a.parquet"
    table = make_table(IMAGES, label=[n % 3 for n in range(COUNT)])
    pq.write_table(table, path, row_group_size=10, compression="gzip")
    source, _ = _open(path)
    refs = list(source.list())
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(0)
    data = bytearray(path.read_bytes())
    at = chunk.data_page_offset
    data[at : at + 40] = bytes(40)
    path.write_bytes(data)
    os.utime(path, ns=(refs[0].modified_ns, refs[0].modified_ns))
    for number, ref in enumerate(refs):
        if 10 <= number < 20:
            with pytest.raises(BadImage, match=r"its part of .*a.parquet' cannot be read"):
                read_parquet_cell(ref, 10**9)
        else:
            assert read_parquet_cell(ref, 10**9) == IMAGES[number]


@pytest.mark.parametrize("name", WRITERS)
def test_a_cut_file_is_refused(tmp_path, name):
    WRITERS[name](tmp_path / name, make_table(IMAGES))
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:2000])
    with pytest.raises(UserError, match=rf"The table .*{name}' cannot be read"):
        _open(tmp_path / name)


def test_a_page_whose_checksum_is_wrong_is_the_images_problem(tmp_path):
    path = tmp_path / "a.parquet"
    table = make_table(IMAGES, label=["a"] * COUNT)
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(table, path, write_page_checksum=True, **options)
    data = bytearray(path.read_bytes())
    data[data.index(IMAGES[4]) + len(IMAGES[4]) // 2] ^= 1
    path.write_bytes(data)
    source, _ = _open(path)
    refs = {ref.path: ref for ref in source.list()}
    with pytest.raises(BadImage, match=r"cannot be read .*CRC checksum"):
        source.read(refs["a.parquet/00000005"], 10**9)


def test_a_label_whose_page_has_a_wrong_checksum_is_not_used(tmp_path):
    path = tmp_path / "a.parquet"
    table = make_table(IMAGES, label=["cat"] * COUNT)
    options = {"use_dictionary": False, "write_statistics": False, "compression": "none"}
    pq.write_table(table, path, write_page_checksum=True, **options)
    path.write_bytes(path.read_bytes().replace(b"\3\0\0\0cat", b"\3\0\0\0bat", 1))
    with pytest.raises(UserError, match="CRC checksum"):
        _read(path)


def test_damaged_offsets_of_an_arrow_file_are_refused(tmp_path):
    path = tmp_path / "a.arrow"
    write_arrow(path, make_table(IMAGES, label=["cat"] * COUNT), rows=COUNT)
    offsets = np.arange(0, 3 * COUNT + 1, 3, dtype=np.int32)
    data = path.read_bytes()
    assert data.count(offsets.tobytes()) == 1
    path.write_bytes(
        data.replace(offsets[:9].tobytes(), offsets[:8].tobytes() + b"\xff\xff\xff\x7f")
    )
    with pytest.raises(UserError, match=r"a\.arrow' cannot be read: "):
        _read(path)


def test_an_arrow_stream_with_something_behind_its_end_is_refused(tmp_path):
    path = tmp_path / "a.arrow"
    write_arrow(path, make_table(IMAGES, label=["cat"] * COUNT))
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(UserError, match=r"it ends at byte .* several were joined"):
        _read(path)


def test_arrow_files_of_batches_are_read_too(tmp_path):
    table = make_table(IMAGES)
    with (
        pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file,
        pa.ipc.new_file(file, table.schema) as w,
    ):
        w.write_table(table)
    assert list(_read(tmp_path / "a.arrow").values()) == IMAGES


def test_arrow_files_elsewhere_are_refused():
    with pytest.raises(UserError, match="Arrow files are read from a local disk only"):
        _open("s3://bucket/a.arrow")


def test_a_table_of_paths_stays_what_it_was(tmp_path):
    table = pa.table({"path": ["x.png"], "bytes": [b"no image"]})
    pq.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "x.png").write_bytes(IMAGES[0])
    assert _read(tmp_path / "a.parquet") == {"x.png": IMAGES[0]}


@pytest.mark.parametrize("name", WRITERS)
def test_names_of_columns_of_images_may_have_dots(tmp_path, name):
    cells = pa.array([*IMAGES[:2], None])
    WRITERS[name](tmp_path / name, pa.table({"photo.png": cells, "label": ["a", "b", "c"]}))
    source, options = _open(tmp_path / name)
    refs = list(source.list())
    assert options.columns["image"] == "photo.png"
    assert [source.read(ref, 10**9) for ref in refs[:2]] == IMAGES[:2]
    assert refs[2].problem == "no_path"


def test_views_of_bytes_in_arrow_files_are_images_too(tmp_path):
    cells = pa.array([None, *IMAGES, None], pa.binary_view())
    table = pa.table({"image": cells, "label": ["a"] * len(cells)})
    write_arrow(tmp_path / "a.arrow", table.slice(1))
    source, _ = _open(tmp_path / "a.arrow")
    *refs, last = source.list()
    assert [source.read(ref, ref.size_bytes) for ref in refs] == IMAGES
    assert last.problem == "no_path"


def _dictionary(type_):
    indices = pa.array([0, 1, None, 1], pa.int8())
    return pa.DictionaryArray.from_arrays(indices, pa.array(IMAGES[:2], type_))


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(
    "cells",
    [
        _dictionary(pa.binary()),
        _dictionary(pa.large_binary()),
        pa.array([*IMAGES[:2], None, IMAGES[1]], pa.large_binary()),
        pa.array([{"data": data} for data in (*IMAGES[:2], None, IMAGES[1])]),
        pa.array([{"bytes": IMAGES[0]}, {"bytes": IMAGES[1]}, None, {"bytes": IMAGES[1]}]),
    ],
)
def test_images_are_read_from_columns_of_any_type_of_bytes(tmp_path, name, cells):
    table = pa.table({"image": cells, "label": pa.array(list("abab")).dictionary_encode()})
    WRITERS[name](tmp_path / name, table)
    source, _ = _open(tmp_path / name)
    refs = list(source.list())
    read = [None if ref.problem else source.read(ref, 10**9) for ref in refs]
    assert read == [IMAGES[0], IMAGES[1], None, IMAGES[1]]
    assert [ref.annotations.label for ref in refs if not ref.problem] == ["a", "b", "b"]


@pytest.mark.parametrize("name", WRITERS)
def test_bytes_of_one_size_may_be_images(tmp_path, name):
    padded = [data.ljust(400, b"\0") for data in IMAGES[:3]]
    WRITERS[name](tmp_path / name, pa.table({"image": pa.array([*padded, None], pa.binary(400))}))
    source, _ = _open(tmp_path / name)
    *refs, last = source.list()
    assert [source.read(ref, 10**9) for ref in refs] == padded
    assert last.problem == "no_path"


@pytest.mark.parametrize("name", WRITERS)
def test_what_a_structure_has_beside_its_image_is_kept(tmp_path, name):
    cells = [{"path": "x.png", "bytes": IMAGES[0], "width": 10, "site": "A", "other": b"?"}, None]
    WRITERS[name](tmp_path / name, pa.table({"image": cells, "label": ["a", "b"]}))
    source, options = _open(tmp_path / name)
    assert options.column_types == {"image_site": "string", "image_width": "int"}
    ref, empty = source.list()
    assert (ref.path, ref.annotations.further) == ("x.png", ("A", 10))
    assert source.read(ref, 10**9) == IMAGES[0]
    assert empty.problem == "no_path"


@pytest.mark.whole
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([IMAGES[:2]], "a row may have one image, but it holds a list of them; write a row for"),
        ([[{"bytes": IMAGES[0], "path": None}]], "a row may have one image, but it holds a list"),
        ([draw(0).tobytes()], "its bytes are neither text nor the file of an image; write pixels"),
        ([draw(0).tolist()], "is not a number, a text, or a list of these"),
        ([{"x": b"\xff" * 99}], r"\{'x': <99 bytes>\} is not a number"),
        ([[1, 2, 3]], "The column 'image' .* has lists, but must have a path a row"),
    ],
)
def test_what_is_no_image_is_refused_and_not_printed(tmp_path, name, cells, message):
    WRITERS[name](tmp_path / name, pa.table({"image": cells, "label": ["a"]}))
    with pytest.raises(UserError, match=message) as refused:
        _open(tmp_path / name)
    assert str(refused.value).isprintable() and len(str(refused.value)) < 500
    # Left out, it does no harm.
    WRITERS[name](tmp_path / name, pa.table({"path": ["x.png"], "image": cells}))
    (tmp_path / "x.png").write_bytes(IMAGES[0])
    assert _read(tmp_path / name, columns={"image": "path", "table_image": None}) == {
        "x.png": IMAGES[0]
    }


def test_an_arrow_file_with_two_columns_of_one_name_is_refused(tmp_path):
    columns = [pa.array(["x"]), pa.array(["y"])]
    write_arrow(tmp_path / "a.arrow", pa.Table.from_arrays(columns, ["path", "path"]))
    with pytest.raises(UserError, match=r"a.arrow' has two columns 'path'; rename one"):
        list(read_rows(f"{tmp_path}/a.arrow"))


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
@pytest.mark.parametrize("now", ["no table", "fewer rows", "other columns"])
def test_a_file_that_was_replaced_since_it_was_listed_is_the_images_problem(tmp_path, name, now):
    path = tmp_path / name
    WRITERS[name](path, make_table(IMAGES, label=["a"] * COUNT))
    source, _ = _open(path)
    *_, last = source.list()
    path.unlink()
    if now == "no table":
        path.write_bytes(bytes(100))
    else:
        table = make_table(IMAGES[:2], label=["a"] * 2)
        WRITERS[name](path, table if now == "fewer rows" else table.drop_columns(["image"]))
    with pytest.raises(BadImage, match=r"its part of .* cannot be read"):
        source.read(last, 10**9)
