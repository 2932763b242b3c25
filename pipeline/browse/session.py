"""What the page asks for, without HTTP: searches and links, records, pictures and marks."""

import dataclasses
import functools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pydantic

from image_pipeline.browse.catalogue import ORDERS, Catalogue, Query, Side
from image_pipeline.browse.marks import Marks
from image_pipeline.browse.pictures import (
    Content,
    NoPicture,
    Originals,
    Report,
    decode_stored,
    make_png,
    make_thumbnail,
)
from image_pipeline.browse.views import Views
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.analysis import read_graph
from image_pipeline.components.feeding.certificate import Part
from image_pipeline.components.generators.own_rows import OWN_ROWS
from image_pipeline.components.labels.kinds import find_kind
from image_pipeline.components.messages import show, suggest
from image_pipeline.components.names import printable
from image_pipeline.components.sources.own_source import OWN_SOURCE
from image_pipeline.named_folder import find_graph, find_whole_run
from image_pipeline.named_model import find_certificate
from image_pipeline.run.source_note import read_source
from image_pipeline.run_config import read_config
from image_pipeline.show.html import fill_template
from image_pipeline.show.overlays import show_values
from image_pipeline.show.words import describe_steps, format_fact

PAGE_SIZE = 60
# As `names.printable` shows a character that is unsafe to show.
_SHOWN = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})")


class Link(Query):
    """What an address may ask for: a page of a search, or a batch; and what is opened over it.

    Attributes:
      page: of the search, from 0.
      epoch, step: the batch of training that has these numbers, instead of a search.
      record: the number of a record or rejected file that is opened.
      file: the path of one.
    """

    page: pydantic.NonNegativeInt = 0
    epoch: Side | None = None
    step: Side | None = None
    record: Side | None = None
    file: str = ""


class MarkRequest(pydantic.BaseModel):
    """What the page sends to mark a record, or to take its mark away."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    number: int
    marked: bool


class Session:
    """A data set that is looked at; threads may share it."""

    def __init__(
        self,
        folder: str,
        images: str | None = None,
        graph: str | None = None,
        config_path: str | None = None,
        overrides: Sequence[str] = (),
        epochs: int = 3,
        seed: int | None = None,
        marks_path: str = "marks.txt",
        model: str | None = None,
    ):
        """Opens a data set.

        Args:
          folder: of a data set, or of a run.
          images: what it was ingested from; None for what ingest noted.
          graph: the folder of a transform graph, or of a run; None for the run's own.
          config_path: a YAML file.
          overrides: `key.key=value`.
          epochs: how many views of training are shown of a record.
          seed: of training; None for that of the options.
          marks_path: the list of marks.
          model: one whose certificate says how views are made, instead of all options.

        Raises:
          UserError: if there is none, it was changed, or an option does not fit it.
        """
        source = find_whole_run(folder)
        if graph is not None:
            source = dataclasses.replace(source, graph_dir=find_graph(graph)[0], run=None)
        elif source.graph_dir is None:
            source = dataclasses.replace(source, run=None)  # It has no options of training yet.
        self.title, manifest = folder, source.manifest
        self.catalogue = Catalogue(source.data_dir, manifest)
        # How views are made is said by a model's certificate, or by the run, the graph or the
        # options, if one of them is there.
        self.views = None
        if model is not None:
            part = self._find_part(model)
            made_with = part.read_options({part.data[0][0]: source.data_dir})
            self.views = Views(self.catalogue, *made_with, None, epochs, part.seed, part)
        elif source.graph_dir is not None or config_path is not None or overrides:
            given = list(overrides)
            if source.graph_dir is not None and source.run is None and config_path is None:
                given.insert(0, f"view={read_graph(source.graph_dir).view.model_dump_json()}")
            config = read_config(source, config_path, given)
            seed = config.training.seed if seed is None else seed
            shared = (config.view, config.feeding, source.graph_dir, epochs, seed)
            self.views = Views(self.catalogue, *shared)
        noted = read_source(source.data_dir, manifest)
        # Looking at others' data sets runs no code that these name.
        runs_code = noted is not None and (OWN_SOURCE.matches(noted) or OWN_ROWS.matches(noted))
        self.originals = Originals(
            source.data_dir, manifest, images or (None if runs_code else noted)
        )
        self.marks = Marks(marks_path)

    def _find_part(self, model: str) -> Part:
        """The last part of what a model was fed, if that was this data set's train split alone."""
        part = find_certificate(model).parts[-1]
        if list(part.data) != [(self.catalogue.manifest.checksum, "train")]:
            data = ", ".join(f"{split} of {checksum[:16]}…" for checksum, split in part.data)
            raise UserError(
                f"{model!r} was last fed {data} (checksums of manifests), but the page shows only "
                f"batches of train of {str(self.catalogue.manifest.checksum)[:16]}…; "
                "`image-pipeline seen` names any other."
            )
        return part

    @functools.cached_property
    def page(self) -> Content:
        """The HTML page."""
        html = fill_template(
            "image_pipeline.browse",
            "page.html.jinja",
            title=self.title,
            choices=self.catalogue.choices,
            orders=ORDERS,
            marks=self.marks.path,
            moved=next(iter(find_kind(self.catalogue.manifest.columns).moves), ""),
            steps=self.views and describe_steps(self.views.feeding.steps),
        )
        return Content("text/html; charset=utf-8", html.encode())

    def report(self) -> Report:
        """The page of `image-pipeline report`, made again."""
        from image_pipeline.report.page import make_report

        _, page = make_report(self.title)
        return Report("text/html; charset=utf-8", page)

    def search(self, asked: dict[str, str]) -> dict[str, Any]:
        """A page of what a link asks for.

        Raises:
          ValueError: if there is no such field, or a value is wrong.
          IndexError: if there is no such record or file.
          UserError: if there is no such batch, or it cannot be made.
        """
        if unknown := [name for name in asked if name not in Link.model_fields]:
            hint, known = suggest(unknown[0], Link.model_fields), ", ".join(Link.model_fields)
            raise ValueError(f"a link has no {show(unknown[0])}; {hint}known: {known}.")
        link = Link.model_validate({name: text for name, text in asked.items() if text})
        marks, opened = self.marks.paths, link.record
        if link.file:
            meant = _SHOWN.sub(lambda found: chr(int(found[1] or found[2], 16)), link.file)
            indices = self.catalogue.find_values("source", [link.file, meant])
            opened = indices.get(link.file, indices.get(meant))
            if opened is None:
                raise IndexError(
                    f"no record or rejected file of the data set is called {show(link.file)}; "
                    "give its path as the page shows it."
                )
        if opened is not None:
            self.catalogue.read([opened], ["source"])  # There may be none.
        found: Sequence[int] | np.ndarray
        batch = None
        if link.epoch is not None or link.step is not None:
            epoch, page = link.epoch or 0, link.step or 0
            batch = self._find_views().read_batch(epoch, page)
            found, pages, numbers = batch.numbers, batch.steps, batch.numbers
        else:
            query = Query.model_validate(link.model_dump(include=set(Query.model_fields)))
            found = self.catalogue.find(query, marks)
            pages = max(1, -(-len(found) // PAGE_SIZE))
            page = link.page
            if opened is not None and len(at := np.flatnonzero(np.asarray(found) == opened)):
                page = int(at[0]) // PAGE_SIZE
            page = min(page, pages - 1)
            numbers = [int(each) for each in found[page * PAGE_SIZE : (page + 1) * PAGE_SIZE]]
        entries = self.catalogue.list_entries(numbers, marks)
        state: dict[str, Any] = {
            "found": len(found),
            "of": len(self.catalogue),
            "page": page,
            "pages": pages,
        }
        state |= {"marked": len(marks), "entries": entries}
        if batch is not None:
            state |= {"epoch": epoch}
            for index, entry in enumerate(entries):
                entry["picture"] = f"batch/{epoch}/{page}/{index}.picture"
        return state if opened is None else state | {"opened": opened}

    def describe(self, number: int) -> dict[str, Any]:
        """All that is known of a record or a rejected file; raises IndexError if there is none."""
        (row,) = self.catalogue.read([number])
        is_stored = row["state"] == "stored"
        named = {name: value for name, value in row.items() if name != "state"}
        if not is_stored:
            named["reason"] = named.pop("notes")
        facts = [(name, _say(value)) for name, value in named.items()]
        return {
            "entry": self.catalogue.list_entries([number], self.marks.paths)[0],
            "facts": [fact for fact in facts if fact[1]],
            "pictures": ["original", *(["stored"] if is_stored else [])],
            "has_views": is_stored and self.views is not None,
        }

    def draw(self, number: int, name: str, drawn: bool) -> Content:
        """One of the pictures of a record or a rejected file that are there at once.

        Args:
          number: its number.
          name: `original`, `stored` or `thumbnail`.
          drawn: whether masks and boxes lie over it.

        Raises:
          IndexError: if there is no such number.
          NoPicture: if there is no such picture, or the original cannot be shown.
          UserError: if the record is damaged.
        """
        (row,) = self.catalogue.read([number])
        if name == "original" or (name == "thumbnail" and row["state"] != "stored"):
            return self.originals.draw(self.originals.read(row))
        if row["state"] != "stored":
            raise NoPicture(f"It is not stored: {row['state']}.")
        labelled = self.catalogue.manifest if drawn else None
        pixels = decode_stored(self.catalogue.read_record(row), labelled)
        return make_thumbnail(pixels) if name == "thumbnail" else make_png(pixels)

    def list_views(self, number: int, drawn: bool) -> list[dict[str, Any]]:
        """A record's views: their titles, the lines below them, and pictures as data URIs.

        Raises:
          IndexError: if there is no such record.
          UserError: as `Views.list_pictures`, or if it is not known how views are made.
        """
        if not 0 <= number < self.catalogue.records:
            raise IndexError(f"only records have views, 0 to {self.catalogue.records - 1}.")
        return [
            {
                "title": each.title,
                # The page itself says how large the picture is that it gets.
                "captions": [
                    printable(line) for line in each.captions if not re.fullmatch(r"\d+×\d+", line)
                ],
                "picture": make_png(each.pixels).as_uri(),
            }
            for each in self._find_views().list_pictures(number, drawn)
        ]

    def draw_fed(self, epoch: int, step: int, index: int) -> Content:
        """A picture of a batch as it is fed; raises as `search`, or IndexError if it has none."""
        pixels = self._find_views().read_batch(epoch, step).pixels
        if index >= len(pixels):
            raise IndexError(f"the batch has {len(pixels)} pictures, 0 to {len(pixels) - 1}.")
        return make_png(show_values(pixels[index]))

    def mark(self, body: bytes) -> dict[str, int]:
        """Does what a `MarkRequest` asks for; raises ValueError, IndexError and as `Marks.set`."""
        asked = MarkRequest.model_validate_json(body)
        (row,) = self.catalogue.read([asked.number], ["source"])
        return {"marked": self.marks.set(row["source"], asked.marked)}

    def _find_views(self) -> Views:
        if self.views is None:
            raise UserError(
                "How training makes its views is not known; start with --graph, --config or --set, "
                "or give a run's folder."
            )
        return self.views


def _say(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_say, value))
    return "" if value is None else printable(format_fact(value))
