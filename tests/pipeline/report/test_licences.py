"""Licences and attribution that a table says: in the report, conditions, `diff`, and exports."""

import json

import pytest
import yaml

import image_pipeline
from image_pipeline.cli import call
from image_pipeline.components.dataset.changes import find_changes
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.report.data_set import open_data_set
from image_pipeline.report.shapes import Licences, describe_licences
from tests.drawings import draw, encode_png
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam

LICENCES = ["CC-BY-4.0", "CC0-1.0", ""]
PLACES = ["https://a.org/{}", "http://[b.org/{}", "A. Painter"]


def write_rows(folder, name, **said):
    rows = [
        {
            **{"path": f"{n:02d}.png", "label": "cat", "split": ("train", "eval")[n % 4 == 3]},
            **{"license": LICENCES[n % 3], "source": PLACES[n % 3].format(n % 2)},
            **(said if n == 0 else {}),
        }
        for n in range(12)
    ]
    (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder / name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("licences")
    for number in range(12):
        (folder / f"{number:02d}.png").write_bytes(encode_png(draw(number)))
    ingest(write_rows(folder, "rows.jsonl"), folder / "data")
    return folder


def test_images_of_each_licence_and_those_without(folder):
    manifest = read_manifest(str(folder / "data"))
    data = open_data_set(str(folder / "data"), manifest)
    found = describe_licences(manifest, data)
    assert isinstance(found, Licences) and found.table is not None
    counts = {row.name: row.counts for row in found.table.rows}
    assert (found.column, found.table.splits) == ("license", ["train", "eval"])
    assert counts == {"CC-BY-4.0": [3, 1], "CC0-1.0": [3, 1], "": [3, 1]}
    assert found.missing == 4
    named = {data.name_source(row) for row in found.without}
    assert named == {"02.png", "05.png", "08.png", "11.png"}
    counts = [("A. Painter", 4), ("a.org", 4), ("http://[b.org/0", 2), ("http://[b.org/1", 2)]
    assert found.attribution == {"table_source": counts}


def test_the_page_has_them(folder, capsys):
    page = folder / "report.html"
    assert call(["report", str(folder / "data"), "--output", str(page)]) == 0
    text = page.read_text()
    assert "4 images without a licence" in text
    assert "(no licence)" in text and "Images of each table_source" in text
    capsys.readouterr()
    assert call(["report", str(folder / "data"), "--output", str(page), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["licences"]["missing"] == 4


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_condition_reads_some_of_them_only(folder, mode):
    """As `feeding.select` of a run, which has one for both of its splits."""
    data = image_pipeline.batches(
        *(str(folder / "data"), mode),
        mode=mode,
        view={"height_px": 8, "width_px": 8},
        select={"where": 'license != "" and table_source != "https://a.org/0"'},
        columns=["image/filename", "license"],
    )
    names = {n: (n % 4 == 3) == (mode == "eval") for n in range(12) if n % 3 == 1 or n in (3, 9)}
    fed = [name.decode() for batch in data for name in batch["image/filename"]]
    assert sorted(fed) == [f"{n:02d}.png" for n, is_in in names.items() if is_in]


def test_a_licence_that_changed_is_a_difference(folder):
    ingest(write_rows(folder, "later.jsonl", license="CC0-1.0"), folder / "later")
    (found,) = find_changes(str(folder / "data"), str(folder / "later")).files
    assert (found.path, found.kinds) == ("00.png", ("other columns",))
    assert found.values == {"license": ("CC-BY-4.0", "CC0-1.0")}


def test_what_is_handed_on_states_them(folder):
    for name, more in (("hub", []), ("own", ["--licence", "https://a.org/terms"])):
        arguments = ["export", str(folder / "data"), "--format", "parquet", *more]
        assert call([*arguments, "--output", str(folder / name)]) == 0
    card = (folder / "hub" / "README.md").read_text()
    assert yaml.safe_load(card.split("---")[1])["license"] == ["cc-by-4.0", "cc0-1.0"]
    table = "licence, as the column license says | images |\n|---|---:|\n"
    _, _, rows = card.partition(table)
    assert {*rows.splitlines()[:3]} == {"| (none) | 4 |", "| CC-BY-4.0 | 4 |", "| CC0-1.0 | 4 |"}
    described = json.loads((folder / "hub" / "croissant.json").read_text())
    assert described["license"] == ["CC-BY-4.0", "CC0-1.0"]
    # One that is given is the data set's.
    card = (folder / "own" / "README.md").read_text()
    assert yaml.safe_load(card.split("---")[1])["license"] == "other"
    assert table in card
    described = json.loads((folder / "own" / "croissant.json").read_text())
    assert described["license"] == "https://a.org/terms"
