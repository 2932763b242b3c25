"""WebDatasets: tar files in which the members of one name, but for their endings, are a sample.

`a/0017.jpg`, `a/0017.cls` and `a/0017.json` are a row: what a name has up to the first dot of its
file is the key (https://github.com/webdataset/webdataset).
"""

import collections
import functools
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.archives.archive_members import list_members, names_damage
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.json_text import parse_json
from image_pipeline.components.sources.file_names import find_matching
from image_pipeline.components.sources.reading import IMAGE_ENDINGS
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.rows import LOST, NAME, EmbeddedImage, Row
from image_pipeline.components.sources.source_kinds import Asked, SourceKind, read_location

IMAGE = "image"
"""The column of the sample's image, which has its member's name."""

_ENDING, _OBJECT = ".tar", ".json"
_TEXTS = (".cls", ".txt", ".text", ".caption", ".cap", ".id", ".index")
_BESIDE = (_OBJECT, *_TEXTS)
_MOST_BYTES = 2**20  # of what is beside an image
_LOOKED_AT = 100  # members by which an archive is recognised


class _Damaged(ValueError):
    """Why a sample cannot be used."""


def _is_web_dataset(images: str) -> bool:
    """Whether samples have a text, a class or an object beside an image, by the first ones."""
    if not (found := find_matching(images)):
        return False
    try:
        return _look_at(found[0], files.stat_file(found[0])[1])
    except (FileNotFoundError, NotADirectoryError):
        return False  # Whoever lists it will say so.


@functools.lru_cache(maxsize=16)
def _look_at(path: str, modified_ns: int) -> bool:
    try:
        members = list(itertools.islice(list_members(path, modified_ns), _LOOKED_AT))
    except UserError:
        return False  # Whoever lists it will say what is wrong.
    endings = [{_type_of(ref.path) for ref in sample} for sample in _group(members)]
    return any(IMAGE_ENDINGS & own and own.intersection(_BESIDE) for own in map(set, endings))


def read_samples(path: str, columns: Asked) -> Iterator[Row]:
    """Reads an archive's samples in their order.

    Raises:
      UserError: if there is no such file, or it cannot be read.
    """
    modified_ns = files.stat_file(path)[1]
    for number, sample in enumerate(_group(list_members(path, modified_ns)), 1):
        try:
            yield Row(number, _make_cells(sample))
        except _Damaged as error:
            yield Row(number, {}, str(error))


def _group(members: Iterable[ImageRef]) -> Iterator[list[ImageRef]]:
    """The members of each sample, which are one after another."""
    for _, sample in itertools.groupby(members, key=lambda ref: _split(ref.path)[0]):
        yield list(sample)


def _split(path: str) -> tuple[str, str]:
    """The key and the ending, which begins at the first dot of the file's name."""
    folder, slash, name = path.rpartition("/")
    stem, dot, ending = name.partition(".")
    return f"{folder}{slash}{stem}", dot + ending


def _type_of(path: str) -> str:
    """What of an ending says what a member is: `.jpg` of `s1.input.jpg`."""
    return f".{_split(path)[1].lower().rpartition('.')[2]}"


def _make_cells(sample: list[ImageRef]) -> dict[str, Any]:
    """A column a member, called by its ending; `.input.jpg` as `.jpg` is, if there is no such."""
    cells: dict[str, Any] = {}
    types = collections.Counter(_type_of(ref.path) for ref in sample)
    plain = {_split(ref.path)[1].lower() for ref in sample}
    for ref in sample:
        ending, type_ = _split(ref.path)[1].lower(), _type_of(ref.path)
        if types[type_] == 1 and type_ not in plain:
            ending = type_
        if ref.problem is not None:
            rest = f"; {LOST}" if names_damage(ref.path) else ""
            raise _Damaged(f"{ref.path!r} is not read: {ref.message or ref.problem}{rest}")
        if ending == _OBJECT:
            cells = _read_object(ref) | cells
        elif type_ in _TEXTS:
            cells[ending[1:]] = _read_text(ref).strip()
        elif type_ in IMAGE_ENDINGS and ref.location is not None:
            is_first = ending in IMAGE_ENDINGS and not isinstance(cells.get(IMAGE), EmbeddedImage)
            embedded = EmbeddedImage(ref.location, ref.size_bytes, ref.modified_ns)
            cells |= {IMAGE: embedded, NAME: ref.path} if is_first else {ending[1:]: embedded}
    return cells


def _read_text(ref: ImageRef) -> str:
    if ref.size_bytes > _MOST_BYTES:
        raise _Damaged(f"{ref.path!r} has {ref.size_bytes} bytes; a text may have {_MOST_BYTES}")
    try:
        return os.fsdecode(read_location(ref, ref.size_bytes))
    except (BadImage, OSError) as error:
        raise _Damaged(f"{ref.path!r} cannot be read: {error}") from error


def _read_object(ref: ImageRef) -> dict[str, Any]:
    text = _read_text(ref)
    try:
        found = parse_json(text)
    except ValueError as error:
        raise _Damaged(f"{ref.path!r} is not valid JSON ({error})") from error
    fields = found if isinstance(found, dict) else {_OBJECT[1:]: found}
    return {name: _plain(value) for name, value in fields.items()}


def _plain(value: Any) -> Any:
    """A field as a column can have it: what has fields itself stays JSON."""
    items = value if isinstance(value, list) else []
    is_nested = isinstance(value, dict) or any(isinstance(each, dict | list) for each in items)
    return json.dumps(value, ensure_ascii=False) if is_nested else value


WEB_DATASET = SourceKind(
    name="a WebDataset",
    endings=(_ENDING,),
    recognise=_is_web_dataset,
    fills_folders=True,
    rows=read_samples,
)
