"""Names that are HTML, scripts, templates or control characters, where people look at them."""

import html.parser
import re

import pytest
from PIL import Image

from tests.hostile.measured import run_measured

pytestmark = pytest.mark.e2e

_CLASSES = (
    "<script>alert(1)<%2fscript>",
    '" onmouseover="alert(1)',
    "' onfocus='alert(1)",
    "{{7*7}}{% raw %}",
    "<img src=x onerror=alert(1)>",
    "=HYPERLINK(1)",
    "\u202egpj.exe",
    "a\nb\x1b[31mred",
    "&lt;b&gt;&#60;",
)


class _Page(html.parser.HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.attributes: list[tuple[str, str]] = []
        self.scripts, self.words = 0, ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.attributes += [(name, value or "") for name, value in attrs]
        self.scripts += tag == "script"

    def handle_data(self, data):
        self.words += data


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """An ingest of such names, and its page."""
    root = tmp_path_factory.mktemp("names")
    for number, name in enumerate(_CLASSES):
        (root / "photos" / name).mkdir(parents=True)
        for file in range(3):
            pixels = Image.new("RGB", (24, 24), (number * 20, file * 60, 90))
            pixels.save(root / "photos" / name / f"{name}{file}.png")
        (root / "photos" / name / f"{name}.jpg").write_bytes(b"\xff\xd8\xff\xe0 no image")
    words = ("--images", "photos", "--output", "data", "--set", "ingest.max_bad_fraction=0.5")
    ran = run_measured(("ingest", *words), root)
    assert ran.code == 0, ran.output
    told = run_measured(("report", "data", "--output", "page.html"), root)
    assert told.code == 0, told.output
    return ran.output + told.output, (root / "page.html").read_text()


def test_the_report_shows_such_names_as_text(ran):
    _, text = ran
    page = _Page(text)
    assert page.scripts == 1
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert not [value for name, value in page.attributes if name == "src" and value[:5] != "data:"]
    for name in ("<script>alert(1)", '" onmouseover="alert(1)', "{{7*7}}{% raw %}", "&lt;b&gt;"):
        assert name in page.words


def test_control_characters_reach_neither_the_page_nor_the_terminal(ran):
    for text in ran:
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)
