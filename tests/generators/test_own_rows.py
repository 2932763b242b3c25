"""A source of somebody's own that gives rows: labels of every kind, as a table has them."""

import json

import pyarrow.parquet as pq
import pytest

from image_pipeline.api import ingest
from image_pipeline.components.dataset.paths import INDEX
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.earlier import count_taken
from image_pipeline.components.ingest.prepare_chunk import name_chunk
from image_pipeline.components.ingest.work_folder import WorkFolder
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.listing import list_images
from image_pipeline.components.meaning.open_source import open_complete
from image_pipeline.components.meaning.options import IngestOptions
from tests.contracts.kinds import KINDS
from tests.drawings import draw, encode_png

pytestmark = pytest.mark.beam

MODULE = '''
import json
import pathlib

import numpy as np
from image_pipeline import BadImage, ImageRef


class Rows:
    """The rows of a table as objects that somebody's own code makes."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def rows(self):
        for line in (self.folder / "t.jsonl").read_text().splitlines():
            cells = json.loads(line)
            yield {"image": cells.pop("path"), **cells}

    def read(self, name, most_bytes):
        if name == "gone.png":
            raise BadImage("gone", "it is no longer in the database")
        with (self.folder / name).open("rb") as file:
            return file.read(most_bytes)


class Dated(Rows):
    def rows(self):
        for row in super().rows():
            yield {**row, "image": ImageRef(row["image"], 70, 5)}


class Wrong:
    read = None.__eq__

    def __init__(self, text):
        self.text = text

    def rows(self):
        return eval(self.text)


def fail(error):
    yield {"image": "a.png", "label": "a"}
    raise error


def inner(text):
    class Text(str):
        pass

    return Text(text)


endless = []
endless.append(endless)
'''


LISTED = """
class Listed(Rows):
    def list(self):
        yield ImageRef("a.png", 0, 0)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    name = f"rows_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def _write(folder, rows):
    folder.mkdir()
    for n, row in enumerate(rows):
        if row["path"] != "gone.png":
            (folder / row["path"]).write_bytes(encode_png(draw(n)))
    (folder / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def _ingest(images, output, **options):
    splits = {"train": 0.5, "eval": 0.5}
    ingest(str(images), str(output), splits=splits, max_bad_fraction=0.5, **options)
    shards = {str(p.relative_to(output)): p.read_bytes() for p in output.glob("*/data*")}
    return pq.read_table(output / INDEX).to_pylist(), shards


@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_every_kind_are_those_of_the_table(tmp_path, module, kind):
    (tmp_path / "in").mkdir()
    table = KINDS[kind].write(tmp_path / "in")
    options = {"label_pattern": None} if kind == "unlabelled" else {}
    rows, shards = _ingest(f"rows:{module}:Rows:{table.parent}", tmp_path / "own", **options)
    assert len(rows) > 10 and len(shards) == 2
    assert (rows, shards) == _ingest(table, tmp_path / "out", **options)


def test_splits_groups_and_further_columns_are_said_too(tmp_path, module):
    rows = [
        {"path": f"{n}.png", "label": "ab"[n % 2], "split": ["train", "eval"][n // 3], "age": n / 2}
        for n in range(6)
    ]
    folder = _write(tmp_path / "in", rows)
    index, _ = _ingest(f"rows:{module}:Rows:{folder}", tmp_path / "out")
    said = {row["source"]: (row["label"], row["split"], row["age"]) for row in index}
    assert said == {row["path"]: (row["label"], row["split"], row["age"]) for row in rows}


def test_what_it_says_is_bad_is_quarantined_and_all_is_read_again(tmp_path, module):
    rows = [{"path": f"{n}.png", "label": "ab"[n % 2]} for n in range(4)]
    folder = _write(tmp_path / "in", [*rows, {"path": "gone.png", "label": "a"}])
    source = f"rows:{module}:Rows:{folder}"
    index, _ = _ingest(source, tmp_path / "out")
    assert sorted(row["source"] for row in index) == [row["path"] for row in rows]
    (line,) = map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines())
    assert (line["path"], line["reason"]) == ("gone.png", "gone")
    (folder / "0.png").write_bytes(encode_png(draw(9)))  # Nobody says when.
    assert _ingest(source, tmp_path / "out") == _ingest(source, tmp_path / "fresh")
    assert count_taken(str(tmp_path / "out")) == 3


def test_sizes_and_times_are_known_where_they_are_given(tmp_path, module):
    folder = _write(tmp_path / "in", [{"path": "a.png", "label": "a"}])
    for opener, known in (("Rows", (0, 0)), ("Dated", (70, 5))):
        source, _ = open_complete(f"rows:{module}:{opener}:{folder}", IngestOptions())
        (ref,) = source.list()
        assert (ref.path, ref.size_bytes, ref.modified_ns) == ("a.png", *known)
        assert source.read(ref, 8) == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Wrong:None", r"rows\(\) of rows:.*:Wrong:None must yield, but gave NoneType; yield each"),
        ("Wrong:[3]", r"must give a dict of cells for each image.* but gave 3 \(number 0\)"),
        ("Wrong:[{1: 2}]", r"must give a dict of cells"),
        ("Wrong:1/0", r"rows\(\) of rows:.* fails: ZeroDivisionError"),
        ("Wrong:[]", "has no row that can be read"),
        ("Wrong:[dict(label='a')]", "No column of .*rows:.* looks like an image path"),
        ("Wrong:[dict(image=7)]", r"'image' must be a name, of which read\(\) .* or .* got int"),
        ("Wrong:[dict(image=np.ones((2, 2)))]", r"'image' must be a name, .* got numpy.ndarray"),
        ("Wrong:[dict(image=ImageRef('a', '7', 0))]", "'image' must have size_bytes as int, but"),
        ("Wrong:[dict(image=ImageRef('', 7, 0))]", "'image' must have an ImageRef with a path"),
        ("Wrong:[dict(image='\\ud800')]", "'image' must be text, got .*, which has half a char"),
        ("Wrong:[dict(image='a', t=endless)]", "'t' is nested too deeply"),
        ("Wrong:fail(BadImage('bad', 'it is cut'))", r"rows\(\) of rows:.* fails: .* it is cut"),
        ("Wrong:fail(FileNotFoundError('x.db'))", r"rows\(\) of rows:.* FileNotFoundError: x.db"),
        ("Wrong:[dict(image='a.png', label=open)]", r"'label' must be an array, a number, text"),
        ("Nothing", "has no 'Nothing'"),
        (
            "",
            r"is given as rows:MODULE:FUNCTION or rows:MODULE:FUNCTION:TEXT, such as rows:my_",
        ),
    ],
)
def test_its_mistakes_are_told_in_a_sentence(module, text, message):
    with pytest.raises(UserError, match=message):
        complete_options(f"rows:{module}:{text}", IngestOptions())


def test_cells_may_be_numpys(module):
    text = "Wrong:[dict(image='a.png', label=__import__('numpy').float32(0.5), t=[1, 2])]"
    source, options = open_complete(f"rows:{module}:{text}", IngestOptions())
    (ref,) = source.list()
    assert options.column_types == {"label": "float", "t": "ints"}
    assert ref.annotations.further == (0.5, [1, 2])


def test_text_may_be_of_a_type_that_this_process_alone_knows(module):
    text = "Wrong:[{'image': inner('a.png'), 'label': inner('x'), inner('note'): inner('y')}]"
    source, _ = open_complete(f"rows:{module}:{text}", IngestOptions())
    (ref,) = source.list()
    assert (ref.path, ref.annotations.label, ref.annotations.further) == ("a.png", "x", ("y",))


@pytest.mark.parametrize("empty", ["None", "''"])
def test_the_first_row_may_have_no_image_and_no_mask(module, empty):
    rows = [f"dict(image={empty}, mask={empty})", f"dict(image='b', mask={empty})"]
    text = f"Wrong:[{rows[0]}, {rows[1]}, dict(image='c', mask='m')]"
    source, _ = open_complete(f"rows:{module}:{text}", IngestOptions(label_pattern=None))
    none, without, with_mask = source.list()
    assert none.problem == "no_path" and without.problem is None
    assert (without.path, without.mask) == ("b", None)
    assert (with_mask.path, with_mask.mask.path) == ("c", "m")


def test_a_name_that_is_called_otherwise_is_no_file(module):
    source, _ = open_complete(
        f"rows:{module}:Wrong:[dict(path='a.png', label='x')]", IngestOptions()
    )
    (ref,) = source.list()
    assert ref.problem == "no_path"
    assert ref.message.endswith("read() takes must be called 'image', not 'path'")


@pytest.mark.parametrize("given", ["rows:{}:Rows:{}", "source:{}:Listed:{}"])
def test_what_was_made_by_other_code_is_made_anew(tmp_path, module, given):
    images = given.format(module, _write(tmp_path / "in", [{"path": "a.png", "label": "a"}]))
    code = tmp_path / f"{module}.py"
    code.write_text(f"{MODULE}{LISTED}")
    options = IngestOptions(label_pattern=None)
    known = set()
    for further in ("", "", "# It reads otherwise."):
        code.write_text(f"{code.read_text()}{further}")
        listing = list_images(images, options)
        (chunk,) = listing.chunks
        key = name_chunk(chunk, [], images, WorkFolder(str(tmp_path)), listing.options)
        known.add((listing.fingerprint, key))
    (one, one_s_chunk), (other, other_s_chunk) = known
    assert one != other and one_s_chunk != other_s_chunk
