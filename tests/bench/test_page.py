"""RESULTS.md and its plots are what the generator makes of the raw results."""

import re

import pytest

from benchmarks.bench import page

pytestmark = [pytest.mark.unit, pytest.mark.wide]


def _read_texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_page_is_that_of_the_raw_results():
    assert page.make_page(page.load_raw()) == page.PAGE.read_text(), "run make bench-page"


@pytest.mark.parametrize("name", page.PLOTS)
def test_plot_is_that_of_the_raw_results(name):
    made = page.make_plots(page.load_raw())[name]
    committed = (page.RESULTS_DIR / f"{name}.svg").read_text()
    assert _read_texts(made) == _read_texts(committed), "run make bench-page"
    assert len(_read_texts(made)) > 5


def test_page_says_where_and_when_it_was_measured():
    raw = {
        "order": {
            "date": "2030-01-02",
            "commit": "abc1234+",
            "machine": {"processor": "P", "cores": 3, "memory_gib": 4.5, "system": "Linux"},
            "versions": {"python": "3.11.1"},
            "arguments": {"records": 7, "readers": ["ours"], "seed": None},
            "results": {"quality": {}},
        }
    }
    text = page.make_page(raw)
    assert "2030-01-02, commit abc1234+; P, 3 cores, 4.5 GiB, Linux. python 3.11.1." in text
    assert "With records 7.\n" in text
    assert "## Order" in text and "## Reading" not in text


def test_writes_page_and_plots_from_a_folder(tmp_path):
    for name in ("read", "write"):
        (tmp_path / f"{name}.json").write_text((page.RESULTS_DIR / f"{name}.json").read_text())
    page.write_page(tmp_path, tmp_path / "PAGE.md")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("PAGE.md", "read.json", "read.svg", "write.json", "write.svg")
    ]
    assert "## Growth" not in (tmp_path / "PAGE.md").read_text()
