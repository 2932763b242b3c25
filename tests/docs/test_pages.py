"""The pages of the site are gathered with all that they link to, and no link leads nowhere."""

import collections
import html
import pathlib
import re

import pytest
from PIL import Image

from tests.docs.tools import ROOT, load_tool

pytestmark = pytest.mark.unit

pages = load_tool("pages")
NAMING = [pathlib.Path("README.md"), pathlib.Path("CONTRIBUTING.md")]

HOME = """# Home

[a page](docs/page.md#part), [a site](https://example.org), [a part](#home), `[code](none.md)`
![a picture](docs/picture.svg) <img src="docs/other.svg">

```python
"[code](none.md)"
```
"""


@pytest.fixture
def root(tmp_path):
    """A project of two pages, which link to each other and to three files."""
    root = tmp_path / "project"
    (root / "docs").mkdir(parents=True)
    (root / "README.md").write_text(HOME)
    (root / "docs" / "page.md").write_text("[home](../README.md) [a list](../list.txt)")
    for name in ("docs/picture.svg", "docs/other.svg", "list.txt", "docs/unused.txt"):
        (root / name).write_text(name)
    (root / "mkdocs.yml").write_text("nav: [{Home: README.md}, {More: [docs/page.md]}]")
    return root


def test_links_of_text_are_found_and_those_in_code_are_not():
    links = ["docs/page.md", "docs/picture.svg", "docs/other.svg"]
    assert pages.find_links(HOME) == links


def test_the_nav_is_read_in_its_order(root):
    assert pages.read_nav(root) == ["README.md", "docs/page.md"]


def test_pages_and_what_they_link_to_are_gathered_anew(root, tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "old.md").write_text("of an earlier time")
    pages.gather(root, folder)
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink()}
    assert found == {
        *("README.md", "docs/page.md", "docs/picture.svg", "docs/other.svg", "list.txt")
    }
    assert (folder / "docs/page.md").read_text() == (root / "docs/page.md").read_text()
    assert not (folder / "old.md").exists()


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("../gone.txt", r"docs/page.md: a link must lead to a file .*, not '../gone.txt'"),
        ("../docs", r"docs/page.md: a link must lead to a file .*, not '../docs'"),
        ("../../outside.txt", r"docs/page.md: a link must lead to a file in the project"),
        ("../LATER.md", r"docs/page.md: links to LATER.md; list that under nav in mkdocs.yml"),
    ],
)
def test_a_link_that_would_lead_nowhere_is_named(root, link, message):
    (root / "LATER.md").write_text("not in the nav")
    (root.parent / "outside.txt").write_text("not of the project")
    (root / "docs" / "page.md").write_text(f"[it]({link})")
    with pytest.raises(ValueError, match=message):
        pages.find_files(root, pages.read_nav(root))


def test_a_site_without_one_of_the_pages_is_refused(root, tmp_path):
    site = tmp_path / "site"
    (site / "docs" / "page").mkdir(parents=True)
    (site / "index.html").write_text("made of README.md")
    with pytest.raises(ValueError, match=r"has no docs/page.md; make it again"):
        pages.check(root, site)
    (site / "docs" / "page" / "index.html").write_text("made of page.md")
    pages.check(root, site)
    (site / "index.html").unlink()
    with pytest.raises(ValueError, match=r"has no README.md"):
        pages.check(root, site)


def test_every_link_of_the_documentation_leads_somewhere():
    files = pages.find_files(pages.ROOT, pages.read_nav())
    assert {"README.md", "docs/images/terminal.svg", "requirements/overrides.txt"} <= set(files)


def test_every_file_of_code_that_a_page_names_is_there():
    folders = ("components", "pipeline", "tests", "benchmarks", "configs", "kubeflow", "docs")
    files = [f"/{path}" for folder in folders for path in pathlib.Path(folder).rglob("*.py")]
    texts = [path.read_text() for path in [*pathlib.Path("docs").glob("*.md"), *NAMING]]
    named = set(re.findall(r"`([\w/]+/[\w/]+\.py)`", "\n".join(texts)))
    assert len(named) > 40
    assert [each for each in sorted(named) if not any(f.endswith(f"/{each}") for f in files)] == []


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
