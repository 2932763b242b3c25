"""Gathers the pages of the site: links to those that mkdocs.yml names, and to what they link to.

The folder has the project's own layout, so that a link which works between files works on the site.
Called as `python docs/tools/pages.py gather FOLDER`, which removes what was in the folder, and as
`… check SITE` when the site is made.
"""

import pathlib
import re
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A Markdown link or picture, or an HTML picture, that leads to another file of the project.
_LINK = re.compile(r"""(?:\]\(|src=")(?![a-z]+:|#)([^)#"\s]+)""")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def read_nav(root: pathlib.Path = ROOT) -> list[str]:
    """The pages that mkdocs.yml lists, in its order, as paths from the project's folder."""
    config = yaml.safe_load((root / "mkdocs.yml").read_text(encoding="utf-8"))
    return list(_walk(config["nav"]))


def _walk(entry: Any) -> Iterator[str]:
    """The paths in a part of the nav: a path, a list of parts, or parts with their titles."""
    if isinstance(entry, str):
        yield entry
        return
    for part in entry.values() if isinstance(entry, dict) else entry:
        yield from _walk(part)


def find_links(text: str) -> list[str]:
    """The files that a page links to, relative to its own folder; blocks of code have none."""
    return _LINK.findall(_CODE.sub("", text))


def find_files(root: pathlib.Path, pages: list[str]) -> list[str]:
    """The pages, and every file that one of them links to, as paths from `root`.

    Raises:
      ValueError: if a link leads to no file, or out of the project, or to a page that is not in
        `pages`.
    """
    found = dict.fromkeys(pages)
    for page in pages:
        for link in find_links((root / page).read_text(encoding="utf-8")):
            path = (root / page).parent.joinpath(link).resolve()
            if not path.is_file() or not path.is_relative_to(root):
                raise ValueError(
                    f"{page}: a link must lead to a file in the project, not {link!r}."
                )
            name = path.relative_to(root).as_posix()
            if name.endswith(".md") and name not in pages:
                raise ValueError(f"{page}: links to {name}; list that under nav in mkdocs.yml.")
            found[name] = None
    return list(found)


def gather(root: pathlib.Path, folder: pathlib.Path) -> None:
    """Makes `folder` again, with a link to each file of the site."""
    names = find_files(root, read_nav(root))
    shutil.rmtree(folder, ignore_errors=True)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(root / name)


def check(root: pathlib.Path, site: pathlib.Path) -> None:
    """Sees that the generator made every page: Zensical 0.0.73 may make none and report success.

    Raises:
      ValueError: if a page of mkdocs.yml is not in the site.
    """
    for page in read_nav(root):
        made = site / page
        folder = made.parent if made.name == "README.md" else made.with_suffix("")
        if not (folder / "index.html").is_file():
            raise ValueError(
                f"The site must have every page of mkdocs.yml, and has no {page}; make it again. "
                "Zensical needs a free inotify instance (fs.inotify.max_user_instances)."
            )


def main(what: str, folder: str) -> None:
    """Does what the command line asks for; an error is one line."""
    try:
        {"gather": gather, "check": check}[what](ROOT, pathlib.Path(folder))
    except ValueError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main(*sys.argv[1:])
