"""A generator as a source: its shards are listed, its items come with the images in hand."""

import textwrap

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.generators.generator import GENERATOR, Generator
from image_pipeline.components.sources.options import GeneratorOptions, TableOptions
from image_pipeline.components.sources.rows import EmbeddedImage
from image_pipeline.components.tables.table_columns import complete_options

pytestmark = pytest.mark.e2e

_SOURCE = """
    def records(shard, shards):
        for item in range(40 if shard == 1 else 0):
            yield {"Photo": f"{shard}/{item}".encode(), "label": item % 2, "name": f"./x/{item}"}
"""


@pytest.fixture
def source(tmp_path, monkeypatch):
    (tmp_path / "my_items.py").write_text(textwrap.dedent(_SOURCE))
    monkeypatch.syspath_prepend(str(tmp_path))
    root, options = "generator:my_items:records", GeneratorOptions(shards=3)
    given = TableOptions(columns={"image": "Photo"})
    table = complete_options(root, given, Generator(root, given, options).sample())
    return Generator(root, table, options)


def test_what_names_a_generator():
    assert GENERATOR.matches("generator:a:b") and not GENERATOR.matches("generator/a.csv")


def test_the_shards_are_listed(source):
    refs = list(source.list())
    assert [ref.path for ref in refs] == [f"records/{shard:04d}" for shard in range(3)]
    assert {ref.location.kind for ref in refs} == {"generator"} and len(
        {ref.location.inside for ref in refs}
    ) == 1


def test_the_first_items_say_what_the_columns_are(source):
    rows = list(source.sample())
    assert [place for place, _ in rows] == [f"records/0001:{item}" for item in range(32)]
    cells = rows[3][1].cells
    assert isinstance(cells["Photo"], EmbeddedImage) and cells["Photo"].size_bytes == 3
    assert (cells["label"], cells["name"]) == (1, "./x/3")
    assert source.table.columns == {"image": "Photo", "path": "name", "label": "label"}


def test_items_come_with_their_images(source):
    items = list(source.items(source.list()))
    assert [ref.path for ref, _ in items] == [f"x/{item}" for item in range(40)]
    ref, at_hand = items[39]
    assert (ref.annotations.row, ref.annotations.label, ref.size_bytes) == (
        "records/0001:39",
        "1",
        4,
    )
    assert at_hand.read(ref, 100) == b"1/39" and at_hand.read(ref, 2) == b"1/"
    assert ref.location.kind != "generator" and list(at_hand.list()) == [ref]


def test_the_first_items_of_all_shards_are_in_memory(source):
    first = source.first_items()
    refs = list(first.list())
    assert [ref.path for ref in refs] == [f"x/{item}" for item in range(11)]  # 32 of 3 shards
    assert [first.read(ref, 100) for ref in refs[::10]] == [b"1/0", b"1/10"]


def test_no_image_can_be_read_without_its_item(source):
    with pytest.raises(UserError, match="can be read again"):
        source.read(next(source.list()), 10)


def test_the_version_is_that_of_the_code(source, tmp_path):
    before = source.version
    (tmp_path / "my_items.py").write_text("# other\n")
    assert source.version != before
