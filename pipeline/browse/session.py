"""What the page asks for, without HTTP: searches, records, pictures and marks."""

import dataclasses
import functools
import pathlib
import re
from typing import Any

import pydantic

from image_pipeline.browse.catalogue import Catalogue
from image_pipeline.browse.marks import Marks
from image_pipeline.browse.originals import NoOriginal, Originals
from image_pipeline.browse.pictures import Picture, decode_stored, make_png, make_thumbnail
from image_pipeline.browse.query import ORDERS, Query
from image_pipeline.browse.views import Views, draw_stored
from image_pipeline.components.names import printable
from image_pipeline.show.html import fill_template
from image_pipeline.show.words import format_bytes, format_fact

PAGE_SIZE = 60
# Of a rejected file all is said already; of a record these are said elsewhere on the page.
_NOT_SHOWN = {"state", "path"}


class PageQuery(Query):
    """A search, and which page of what it finds."""

    page: pydantic.NonNegativeInt = 0


@dataclasses.dataclass(frozen=True)
class Session:
    """A data set that is looked at; threads may share it.

    Attributes:
      title: what the data set is called.
      catalogue: what there is.
      originals: the files that it was made of.
      views: makes what training and evaluation see; None where it is not known how.
      marks: the list that is written.
      steps: the random steps in words.
      drawn: "masks" or "boxes", if images have some.
    """

    title: str
    catalogue: Catalogue
    originals: Originals
    views: Views | None
    marks: Marks
    steps: tuple[str, ...] = ()
    drawn: str = ""

    @functools.cached_property
    def page(self) -> str:
        """The HTML page."""
        return fill_template(
            "image_pipeline.browse",
            "page.html.jinja",
            title=self.title,
            choices=self.catalogue.choices,
            orders=ORDERS,
            marks=self.marks.path,
            moved=self.drawn,
            steps=self.steps,
            has_views=self.views is not None,
        )

    def search(self, asked: dict[str, str]) -> dict[str, Any]:
        """A page of what a search finds.

        Args:
          asked: the fields of `PageQuery`; empty ones are left out.

        Raises:
          ValueError: if there is no such field, or a value is wrong.
        """
        query = PageQuery.model_validate({name: text for name, text in asked.items() if text})
        marks = self.marks.paths
        found = self.catalogue.find(Query(**query.model_dump(exclude={"page"})), marks)
        pages = max(1, -(-len(found) // PAGE_SIZE))
        page = min(query.page, pages - 1)
        numbers = [int(each) for each in found[page * PAGE_SIZE : (page + 1) * PAGE_SIZE]]
        entries = self.catalogue.read_page(numbers)
        return {
            "found": len(found),
            "of": len(self.catalogue),
            "page": page,
            "pages": pages,
            "marked": len(marks),
            "entries": [self._finish(each, marks) for each in entries],
        }

    def describe(self, number: int) -> dict[str, Any]:
        """All that is known of a record or a rejected file; raises IndexError if there is none."""
        row = self.catalogue.read(number)
        (entry,) = self.catalogue.read_page([number])
        is_stored = row["state"] == "stored"
        named = {name: value for name, value in row.items() if name not in _NOT_SHOWN}
        if not is_stored:
            named["reason"] = named.pop("notes")
        facts = [(name, _say(value)) for name, value in named.items()]
        return {
            "entry": self._finish(entry, self.marks.paths),
            "facts": [fact for fact in facts if fact[1]],
            "pictures": ["original", *(["stored"] if is_stored else [])],
            "has_views": is_stored and self.views is not None,
        }

    def list_views(self, number: int, drawn: bool) -> list[dict[str, Any]]:
        """The titles of a record's views, and what is written below them; raises as `Views`."""
        self._check_stored(number)
        pictures = self.views.list_pictures(number, drawn) if self.views else []
        return [
            {
                "title": each.title,
                "captions": [printable(line) for line in each.captions if not _is_size(line)],
            }
            for each in pictures
        ]

    def draw(self, number: int, name: str, drawn: bool) -> Picture:
        """One of a record's pictures.

        Args:
          number: the record's.
          name: `original`, `stored`, `thumbnail`, or the place in `list_views` of a view.
          drawn: whether masks and boxes lie over it.

        Raises:
          IndexError: if there is no such number or picture.
          NoOriginal: if the original cannot be shown.
          UserError: if the record is damaged, or its views cannot be made.
        """
        row = self.catalogue.read(number)
        if name == "original" or (name == "thumbnail" and row["state"] != "stored"):
            return self.originals.draw(self.originals.read(row))
        self._check_stored(number)
        if name == "stored" and drawn:
            return make_png(draw_stored(self.catalogue, number))
        if name in ("stored", "thumbnail"):
            pixels = decode_stored(self.catalogue.rows.read_record(row))
            return make_png(pixels) if name == "stored" else make_thumbnail(pixels)
        pictures = self.views.list_pictures(number, drawn) if self.views else []
        if not (name.isdecimal() and int(name) < len(pictures)):
            raise IndexError(f"there are {len(pictures)} views, and no picture {name!r}.")
        return make_png(pictures[int(name)].pixels)

    def mark(self, numbers: list[int], marked: bool) -> dict[str, int]:
        """Marks records, or takes their marks away; raises IndexError and as `Marks.set`."""
        paths = [self.catalogue.read(number)["source"] for number in numbers]
        return {"marked": self.marks.set(paths, marked)}

    def _check_stored(self, number: int) -> None:
        state = self.catalogue.read(number)["state"]
        if state != "stored":
            raise NoOriginal(f"It is not stored: {state}.")

    def _finish(self, entry: dict[str, Any], marks: frozenset[str]) -> dict[str, Any]:
        """An entry as the page shows it."""
        sides = [entry.pop(name) for name in ("width", "height")]
        size_bytes = entry.pop("bytes")
        texts = {name: printable(value or "") for name, value in entry.items() if name != "number"}
        return {
            "number": entry["number"],
            **texts,
            "size": "" if None in sides else f"{sides[0]:,} × {sides[1]:,} px",
            "bytes": "" if size_bytes is None else format_bytes(size_bytes),
            "is_marked": entry["path"] in marks,
        }


def read_asset(name: str) -> str:
    """One of the page's own files, such as page.css."""
    return (pathlib.Path(__file__).parent / name).read_text(encoding="utf-8")


def _is_size(caption: str) -> bool:
    """Whether it is a view's size: the page shows that of the picture it gets."""
    return re.fullmatch(r"\d+×\d+", caption) is not None


def _say(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_say, value))
    return "" if value is None else printable(format_fact(value))
