"""The site's list of pages, the index and the folder have the same pages, in the same groups."""

import pathlib
import re

import pytest
import yaml

import image_pipeline
from image_pipeline.cli import cli
from tests.docs.tools import ROOT, load_tool

pytestmark = pytest.mark.unit

NAV = load_tool("pages").read_nav()


def _groups_of_the_site():
    """The pages of docs/ in each group of mkdocs.yml."""
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    groups = {name: pages for entry in nav for name, pages in entry.items()}
    return {
        name: [pathlib.Path(page).name for page in pages if str(page).startswith("docs/")]
        for name, pages in groups.items()
        if isinstance(pages, list)
    }


def _groups_of_the_index():
    """The pages of docs/ under each heading of docs/README.md."""
    text = (ROOT / "docs" / "README.md").read_text()
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)[1:]
    links = (re.findall(r"^\| \[[^]]*\]\(([a-z-]+\.md)\) \|", part, re.M) for part in parts[1::2])
    return dict(zip(parts[::2], links, strict=True))


def test_the_site_has_each_page_once():
    assert len(NAV) == len(set(NAV))
    listed = {page for page in NAV if page.startswith("docs/")}
    assert listed == {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert NAV[0] == "README.md"


def test_the_index_has_the_sites_groups():
    groups = _groups_of_the_index()
    assert groups == _groups_of_the_site()
    assert groups["Serving"] == ["serving.md"]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_pages_are_plain_markdown(page):
    """What only a site's generator understands stands on the page of the API alone."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    if page.name != "api.md":
        assert not re.search(r"^(:::|!!!|\?\?\?|===)|^\s*--8<--|\{:|\]\{", text, re.MULTILINE)


def test_the_reference_has_every_public_name_once():
    named = re.findall(r"^::: (.*)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    prefix = "image_pipeline."
    of_package = sorted(name.removeprefix(prefix) for name in named if name.count(".") == 1)
    assert of_package == sorted(image_pipeline.__all__)
    functions = re.findall(r"^def ([a-z]\w*)\(", (ROOT / "pipeline" / "api.py").read_text(), re.M)
    in_reference = {name.rsplit(".", 1)[1] for name in named}
    assert set(functions) <= in_reference and len(named) == len(in_reference)


def test_the_page_of_the_commands_has_each_of_them_once():
    text = (ROOT / "docs" / "command-line.md").read_text()
    table = re.findall(r"^\| `([a-z]+)` \|", text, re.MULTILINE)
    assert sorted(table) == sorted(cli.commands)
