"""The pictures that README shows: real, of this pipeline, small, and of nobody's machine."""

import collections
import html
import re

import pytest
from PIL import Image

from tests.docs.tools import ROOT

pytestmark = pytest.mark.unit

IMAGES = ROOT / "docs" / "images"
CHARACTER_PX = 12.2  # the width of each, as rich draws them


@pytest.fixture(scope="module")
def terminal():
    """The text of the terminal's picture, a line of the screen each."""
    drawn = (IMAGES / "terminal.svg").read_text()
    lines = collections.defaultdict(str)
    pattern = r'<text class="terminal-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>'
    for left, top, text in re.findall(pattern, drawn):
        shown = html.unescape(text).replace("\xa0", " ").rstrip("\n")
        lines[float(top)] = lines[float(top)].ljust(round(float(left) / CHARACTER_PX)) + shown
    return [lines[top].rstrip() for top in sorted(lines)]


def test_the_terminal_shows_two_commands_and_what_they_say(terminal):
    commands = [line for line in terminal if line.startswith("$ ")]
    assert commands == ["$ image-pipeline demo", "$ image-pipeline report demo-output/run"]
    assert terminal[1] == "1,797 files, 10 classes; --runner=FnApiRunner"
    said = dict(re.findall(r"^(\w[\w ]*?)  +(\S.*)$", "\n".join(terminal), re.MULTILINE))
    assert said["written"] == "1,797 (train 1,434, eval 363)"
    assert said["model"] == "blessed"
    assert terminal[-1] == "report.html"


def test_the_terminal_shows_the_components_that_a_run_has(terminal):
    """A pipeline of other components needs new pictures: `make pictures`."""
    source = (ROOT / "pipeline" / "pipeline.py").read_text()
    shown = re.findall(r"^  (\w+) +[\d.,]+ s +[\d,]+ MB peak$", "\n".join(terminal), re.MULTILINE)
    assert len(shown) == 8
    assert [name for name in shown if not re.search(rf"\b{name}\(", source)] == []


def test_the_pictures_name_no_folder_of_a_machine_and_no_server(terminal):
    assert [line for line in terminal if re.search(r"(^|\s)/\w", line)] == []
    drawn = (IMAGES / "terminal.svg").read_text()
    assert re.findall(r"url\((?!#)[^)]*\)|https?://[^\s\"]+", drawn) == [
        "http://www.w3.org/2000/svg",
        "https://www.textualize.io",
    ]


def test_the_pictures_are_small():
    files = list(IMAGES.iterdir())
    assert {path.name for path in files} == {"terminal.svg", "report.webp"}
    assert max(path.stat().st_size for path in files) <= 200_000
    with Image.open(IMAGES / "report.webp") as report:
        assert report.size == (1650, 1200)
