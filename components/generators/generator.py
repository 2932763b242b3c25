"""A Python generator as a source: what it yields is known when it has run.

Its items are rows of a table that holds its images, so columns, labels, masks and boxes are a
table's. They cannot be listed; the references are the generator's shards.
"""

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from image_pipeline.components.dotted import load_named
from image_pipeline.components.errors import UserError
from image_pipeline.components.function_version import source_version
from image_pipeline.components.generators.generator_items import encode_record
from image_pipeline.components.generators.generator_worker import END, FAILED, WRONG, Failure
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.sources.options import GeneratorOptions, TableOptions
from image_pipeline.components.sources.references import Annotations, ImageRef
from image_pipeline.components.sources.rows import EmbeddedImage, Location, Row
from image_pipeline.components.sources.source_kinds import SourceKind
from image_pipeline.components.tables.column_names import USUAL_EMBEDDED, usable_name
from image_pipeline.components.tables.table import Table, check_bad_row

if TYPE_CHECKING:
    from image_pipeline.components.generators.generator_process import Sent

SHARDS_AT_ONCE = 16
"""Shards of a unit of work, whatever the number of cores: items are taken from them in turn."""

GENERATOR_FAILED = "generator_failed"

_PREFIX = "generator:"
_KIND = "generator"
_SAMPLE = 32  # items that say what the columns are


@dataclasses.dataclass(frozen=True)
class Items:
    """Items of a generator as a source: their images are in memory.

    Attributes:
      root: of the generator.
      refs: to the items.
      images: of the items, the bytes of their files.
    """

    root: str
    refs: Sequence[ImageRef]
    images: Mapping[Location, bytes]

    def list(self) -> Iterator[ImageRef]:
        """Lists the items."""
        return iter(self.refs)

    def read(self, ref: ImageRef, most_bytes: int) -> bytes:
        """Reads an item's image, or its mask; see `Source.read`."""
        if ref.location is None:
            raise BadImage("bad_row", "its image must be an array or the bytes of a file")
        return self.images[ref.location][:most_bytes]


@dataclasses.dataclass(frozen=True)
class Generator:
    """A generator function and how its items are read.

    Attributes:
      root: `generator:MODULE:FUNCTION`.
      table: with all columns and types.
      options: how it is run.
    """

    root: str
    table: TableOptions
    options: GeneratorOptions

    @functools.cached_property
    def dotted_path(self) -> str:
        """The function's; raises UserError if the root names none."""
        module, _, function = self.root.removeprefix(_PREFIX).rpartition(":")
        if not module or not function.isidentifier():
            raise UserError(
                "A generator is given as generator:MODULE:FUNCTION, such as "
                f"generator:my_data:records, got {self.root!r}."
            )
        return f"{module}.{function}"

    @property
    def version(self) -> str:
        """A hash of the function's module."""
        return source_version(self.dotted_path)

    def list(self) -> Iterator[ImageRef]:
        """Lists the shards; see `items` for what they hold."""
        of, version = self.options.shards, self.version
        for shard in range(of):
            location = Location(self.root, _KIND, shard, of, version)
            yield ImageRef(self._name(shard), 0, 0, location=location)

    def read(self, ref: ImageRef, most_bytes: int) -> bytes:
        """No item can be read on its own."""
        raise not_read_again(self.root)

    def items(
        self, shards: Iterable[ImageRef], most_items: int | None = None
    ) -> Iterator[tuple[ImageRef, Items]]:
        """Runs shards: each item, and the source that it can be read from.

        Args:
          shards: the references to them.
          most_items: how many a shard may have; the rest is not run. None: all.

        Raises:
          UserError: if a process dies, or an item does not come in time; if a generator raises, or
            an item is invalid and `bad_rows` is "error".
        """
        numbers = [ref.location.start for ref in shards if ref.location is not None]
        table = Table(self.root, self.table)
        with contextlib.closing(self._run(numbers, most_items)) as found:
            for sent in found:
                if sent.kind == END:
                    continue
                images: dict[Location, bytes] = {}
                if sent.kind == FAILED:
                    ref = self._judge_failure(sent)
                else:
                    row, images = self._row(sent)
                    if not row.problem and (problem := self._find_problem(row)):
                        row = Row(sent.item, {}, problem)
                    ref = table.reference(self._row_name(sent), None, row)
                    if ref.problem is not None:
                        check_bad_row(ref.message, self.table)
                yield ref, Items(self.root, [ref], images)

    def first_items(self) -> Items:
        """The first items of each shard, some 32 together; raises as `items` does."""
        refs: list[ImageRef] = []
        images: dict[Location, bytes] = {}
        for ref, item in self.items(self.list(), -(-_SAMPLE // self.options.shards)):
            refs.append(ref)
            images.update(item.images)
        return Items(self.root, refs, images)

    def sample(self) -> Iterator[tuple[str, Row]]:
        """The first items of the first shard that has any, as rows with their names."""
        for shard in range(self.options.shards):
            is_empty = True
            with contextlib.closing(self._run([shard], _SAMPLE)) as found:
                for sent in found:
                    if sent.kind == FAILED:
                        raise self._failed(sent)
                    if sent.kind != END:
                        is_empty = False
                        yield self._row_name(sent), self._row(sent)[0]
            if not is_empty:
                return
        raise UserError(f"{self.root} yields nothing in any of its {self.options.shards} shards.")

    def _run(self, shards: Sequence[int], most_items: int | None = None) -> Any:
        from image_pipeline.components.generators.generator_process import run_generators

        load = functools.partial(load_named, "generator", self.dotted_path)
        encode = functools.partial(encode_record, image_columns=self._image_columns)
        return run_generators(
            self.root,
            load,
            shards,
            self.options.shards,
            encode,
            self.options.timeout_s,
            most_items=most_items,
        )

    @functools.cached_property
    def _image_columns(self) -> tuple[str, ...]:
        """Columns whose bytes are images, in lower case."""
        given = [self.table.columns.get(role) for role in ("image", "mask")]
        usual = itertools.chain(USUAL_EMBEDDED["image"], USUAL_EMBEDDED["mask"])
        return tuple(dict.fromkeys([*(each.lower() for each in given if each), *usual]))

    def _name(self, shard: int) -> str:
        return f"{self.root.rpartition(':')[2]}/{shard:04d}"

    def _row_name(self, sent: "Sent") -> str:
        return f"{self._name(sent.shard)}:{sent.item}"

    def _row(self, sent: "Sent") -> tuple[Row, dict[Location, bytes]]:
        """An item as a row, and the images that it holds."""
        if sent.kind == WRONG:
            return Row(sent.item, {}, sent.body), {}
        cells, pieces = sent.body
        images: dict[Location, bytes] = {}
        for name, each in pieces.items():
            location = Location(self.root, "item", sent.shard, sent.item, name)
            images[location] = b"".join(each)
            cells[name] = EmbeddedImage(location, len(images[location]))
        return Row(sent.item, cells), images

    def _find_problem(self, row: Row) -> str | None:
        """What of an item does not fit the columns that the first items had."""
        columns = self.table.columns
        image = columns.get("image")
        if image is not None and not isinstance(row.cells.get(image), EmbeddedImage):
            found = type(row.cells.get(image)).__name__ if image in row.cells else "nothing"
            return f"{image!r} must be an array of two or more dimensions, or bytes, got {found}"
        if isinstance(row.cells.get(columns.get("path") or ""), list | dict):
            return f"{columns['path']!r} must be one name"
        for name, cell in row.cells.items():
            is_known = name in columns.values() or {name, usable_name(name)}.intersection(columns)
            if not is_known and cell not in (None, "") and not isinstance(cell, EmbeddedImage):
                return (
                    f"{name!r} is not a column of the first items; name it by ingest.columns="
                    f"{{{usable_name(name)}: {name}}}, or leave it out by null"
                )
        return None

    def _judge_failure(self, sent: "Sent") -> ImageRef:
        """A reference to the item that did not come, unless the run stops here."""
        if self.options.errors == "stop":
            raise self._failed(sent)
        row_name = self._row_name(sent)
        message = f"{row_name}: {_tell(sent.body)}; the rest of this shard is missing"
        name = f"{self._name(sent.shard)}/{sent.item:08d}"
        return ImageRef(name, 0, 0, GENERATOR_FAILED, message, Annotations(row_name))

    def _failed(self, sent: "Sent") -> UserError:
        return UserError(
            f"{self.root} failed in shard {sent.shard} at item {sent.item}: {_tell(sent.body)}; "
            "correct it, or set ingest.generator.errors=quarantine to go on without the rest of "
            "that shard."
        )


def not_read_again(root: str) -> UserError:
    """The error of whoever would read single images again, which a generator makes."""
    return UserError(
        f"No single image of {root} can be read again; correct the generator and ingest again, "
        "which runs all of its shards."
    )


def _tell(failure: Failure) -> str:
    return f"{failure.what} ({failure.where})" if failure.where else failure.what


def open_generator(images: str, options: Any) -> Generator:
    """The source of `generator:MODULE:FUNCTION`, by ingest's options."""
    return Generator(images, options, options.generator or GeneratorOptions())


GENERATOR = SourceKind(
    name="a generator",
    prefix=_PREFIX,
    open=open_generator,
    has_parts=False,
    lists_images=False,
    is_dated=True,
)
