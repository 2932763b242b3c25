"""Hostile inputs in real processes: their exit codes, messages, and how much memory they took.

What is refused of such inputs otherwise, the unit tests of this folder show.
"""

import html.parser
import re

import pytest
from PIL import Image

from tests.hostile.inputs import write_inputs
from tests.hostile.measured import run_measured

pytestmark = pytest.mark.e2e

# A good input's peak differs by some tens of MiB from run to run.
_MORE_MB = 300
_ALLOWED = ("--set", "ingest.max_bad_fraction=0.5")
# By the images: further arguments, the exit code, and what is printed somewhere.
ROWS = {
    "good": (("--config", "aliases.yaml"), 1, "1,000,000 values, those of aliases"),
    "scans": (_ALLOWED, 0, r"rejected +1 \(unsupported 1\)"),
    "many": (_ALLOWED, 0, r"rejected +4 \(unsupported 4\)"),
    "zeros_64MB.tfrecord.gz": ((), 1, "If the 67,108,864 values of 'image' are an image, state"),
    "numbers_64MB.tfrecord.gz": (
        (),
        1,
        "it is not a tf.Example .it has too many fields or numbers",
    ),
    "rows_1e12.h5": ((), 1, r"says that it has 1,000,000,000,000 rows, in [\d,]+ bytes"),
    "huge_chunk.h5": ((), 1, r"X: in chunks of \[2, 20000, 20000, 3\], 2,400,000,000 bytes each"),
    "unpacks.h5": ((), 1, "a chunk of '/y' has more than 10,000 bytes"),
    "unpacks.zarr": ((), 1, "4 corrupt, .*'/X' cannot be read .it takes far more memory"),
    "bomb.npz": ((), 1, "2 too_large_file, .*768000128 bytes; prepare.max_file_bytes=268435456"),
    "tables/wide.csv": ((), 1, "the first line names 100,002 columns; a table may have 10,000"),
    "tables/polygons.csv": ((), 0, "written +16"),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    write_inputs(folder)
    return folder


def _ingest(inputs, images, output, *more):
    return run_measured(("ingest", "--images", images, "--output", output, *more), inputs)


@pytest.fixture(scope="module")
def peak_mb_of_good(inputs, tmp_path_factory):
    ran = _ingest(inputs, "good", tmp_path_factory.mktemp("good") / "out")
    assert ran.code == 0, ran.output
    return ran.peak_mb


@pytest.mark.parametrize("images", ROWS)
def test_a_hostile_input_is_refused_in_a_sentence_and_in_bounded_memory(
    images, inputs, peak_mb_of_good, tmp_path
):
    more, code, says = ROWS[images]
    ran = _ingest(inputs, images, tmp_path / "out", *more)
    assert ran.code == code, ran.output
    assert re.search(says, ran.output), ran.output
    assert "Traceback" not in ran.output
    assert ran.peak_mb < peak_mb_of_good + _MORE_MB


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
