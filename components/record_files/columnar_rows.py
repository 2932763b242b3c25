"""The rows of Parquet and Arrow files, and where images are that these hold.

An image is a binary cell, or as in Hugging Face's data sets a structure of `bytes` and `path`. It
is not read here: of a Parquet file the other columns are, and an Arrow file is mapped into memory.
"""

import collections
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.kind import tell_kind
from image_pipeline.components.json_text import parse_json
from image_pipeline.components.record_files.columnar_locations import (
    BYTES,
    open_arrow,
    open_parquet,
    read_arrow_cell,
    read_chunk_header,
    read_parquet_cell,
    split_column,
)
from image_pipeline.components.sources.file_names import Files
from image_pipeline.components.sources.folder import leads_out
from image_pipeline.components.sources.rows import (
    NAME,
    EmbeddedImage,
    Location,
    Row,
    Unusable,
    check_rows,
    is_text,
    plain,
)
from image_pipeline.components.sources.source_kinds import Asked, SourceKind, read_rows

_ROWS_AT_ONCE = 4096
_LOOKED_AT = 16  # rows by which binary cells are recognised as images
_FEATURES = b"huggingface"  # the key of a schema's metadata
_Cells = Iterator[dict[str, Any]]
_STATE, _SPLITS = "state.json", "dataset_dict.json"  # of `datasets`
_PATH = "path"  # The field of a structure that says what its image is called.
# Views are how Polars writes bytes.
_BINARIES = (
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
    pa.types.is_fixed_size_binary,
)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_SEVERAL = Unusable(
    "a row may have one image, but it holds a list of them; write a row for each", is_images=True
)
_OPAQUE = Unusable(
    "its bytes are neither text nor the file of an image; write pixels as PNG or .npy files"
)


@dataclasses.dataclass(frozen=True)
class Columns:
    """What some columns are.

    Attributes:
      images: those of embedded images, and where in them the bytes are, such as `image.bytes`.
      unusable: those that nothing can be made of; they are not read.
    """

    images: dict[str, str] = dataclasses.field(default_factory=dict)
    unusable: dict[str, Unusable] = dataclasses.field(default_factory=dict)

    def fields_beside(self, field: pa.Field) -> list[str]:
        """The fields of a structure with an image that are read with the other columns."""
        inside = self.images[field.name]
        if not pa.types.is_struct(field.type):
            return []
        return [
            each.name
            for each in field.type
            if f"{field.name}.{each.name}" != inside and not _is_binary(each.type)
        ]


def read_parquet(path: str, columns: Asked) -> Iterator[Row]:
    """Reads a Parquet file's rows; images stay where they are."""
    modified_ns = files.stat_file(path)[1]
    with files.open_input(path) as file:
        # A damaged page of images is theirs alone, so that it is no matter for the whole file.
        parquet = open_parquet(file, is_checked=False)
        checked = open_parquet(file, metadata=parquet.metadata)
        found = find_columns(parquet.schema_arrow, lambda name: _first_of_parquet(parquet, name))
        check_rows(path, parquet.metadata.num_rows, lambda: files.stat_file(path)[0])
        features = _read_features(parquet.schema_arrow)
        start = 0
        for group in range(parquet.num_row_groups):
            count = parquet.metadata.row_group(group).num_rows
            if not 0 <= count <= parquet.metadata.num_rows - start:
                raise OSError(f"its row groups do not have its {parquet.metadata.num_rows:,} rows")
            images = {
                name: _hold(path, "parquet", inside, start, modified_ns, sizes)
                for name, inside in found.images.items()
                for sizes in [_sizes_of_group(parquet, group, inside)]
            }
            rows = _read_others(checked, group, found, count)
            yield from _join(rows, images, found, start, features)
            start += count


def read_arrow(path: str, columns: Asked) -> Iterator[Row]:
    """Reads the rows of an Arrow file, a stream or a file of batches; images stay where they are.

    Raises:
      UserError: if it is not on this machine.
    """
    if not files.is_local(path):
        raise UserError(f"Arrow files are read from a local disk only, got {path!r}; copy it.")
    modified_ns = os.stat(path).st_mtime_ns
    table = open_arrow(path)
    counts = collections.Counter(table.schema.names)
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise UserError(f"The table {path!r} has two columns {repeated[0]!r}; rename one.")
    check_rows(path, table.num_rows, lambda: os.stat(path).st_size)
    found = find_columns(table.schema, lambda name: table[name].slice(0, _LOOKED_AT))
    features = _read_features(table.schema)
    start = 0
    for batch in table.to_batches(_ROWS_AT_ONCE):
        images = {
            name: _hold(path, "arrow", inside, start, modified_ns, _lengths(batch, inside))
            for name, inside in found.images.items()
        }
        yield from _join(_leave_out(batch, found), images, found, start, features)
        start += batch.num_rows


def _first_of_parquet(parquet: pq.ParquetFile, name: str) -> Any:
    batches = parquet.iter_batches(_LOOKED_AT, columns=[name])
    return next((batch.column(0) for batch in batches), pa.array([], pa.binary()))


def _sizes_of_group(parquet: pq.ParquetFile, group: int, inside: str) -> Sequence[int | None]:
    """About how many bytes each image of a row group has; None where there is none."""
    found = parquet.metadata.row_group(group)
    if not found.num_rows:
        return []
    try:
        chunk = read_chunk_header(parquet, group, inside)
    except OSError:  # Each of its images says so when it is read.
        return [max(1, found.total_byte_size // found.num_rows)] * found.num_rows
    mean = max(1, chunk.total_uncompressed_size // found.num_rows)
    if chunk.statistics is not None and chunk.statistics.null_count == 0:
        return [mean] * found.num_rows
    batches = parquet.iter_batches(_LOOKED_AT, row_groups=[group], columns=[inside])
    valid = (pc.is_valid(_bytes_of(batch, inside)).to_pylist() for batch in batches)
    return [mean if is_there else None for each in valid for is_there in each]


def _lengths(batch: pa.RecordBatch, inside: str) -> Sequence[int | None]:
    cells = _bytes_of(batch, inside)
    if pa.types.is_dictionary(cells.type):
        return pc.binary_length(cells.dictionary).take(cells.indices).to_pylist()
    if not pa.types.is_binary_view(cells.type):
        return pc.binary_length(cells).to_pylist()
    # A view is 16 bytes that begin with the length, for which Arrow has no function.
    views = np.frombuffer(cells.buffers()[1], np.int32).reshape(-1, 4)[cells.offset :]
    lengths, valid = views[: len(cells), 0].tolist(), cells.is_valid().to_pylist()
    return [n if is_there else None for n, is_there in zip(lengths, valid, strict=True)]


def _bytes_of(batch: pa.RecordBatch, inside: str) -> pa.Array:
    """The bytes in a column; null wherever the structure around them is."""
    name, below = split_column(inside, batch.schema)
    return pc.struct_field(batch.column(name), below) if below else batch.column(name)


def _hold(
    path: str, kind: str, inside: str, start: int, modified_ns: int, sizes: Sequence[int | None]
) -> Iterator[EmbeddedImage | None]:
    for row, size in enumerate(sizes, start):
        location = Location(path, kind, row, 1, inside)
        yield None if size is None else EmbeddedImage(location, size, modified_ns)


def _read_others(parquet: pq.ParquetFile, group: int, found: Columns, count: int) -> _Cells:
    """A row group's cells without the images; of structures with one, what else they have."""
    names = []
    for field in parquet.schema_arrow:
        if field.name in found.images:
            names += [f"{field.name}.{each}" for each in found.fields_beside(field)]
        elif field.name not in found.unusable:
            names.append(field.name)
    if not names:
        yield from ({} for _ in range(count))
        return
    for batch in parquet.iter_batches(_ROWS_AT_ONCE, row_groups=[group], columns=names):
        yield from batch.to_pylist()


def _leave_out(batch: pa.RecordBatch, found: Columns) -> _Cells:
    """A batch's cells without the images; of structures with one, what else they have."""
    kept = {}
    for field in batch.schema:
        column = batch.column(field.name)
        if field.name not in found.images and field.name not in found.unusable:
            kept[field.name] = column
        elif field.name in found.images and (names := found.fields_beside(field)):
            parts = [pc.struct_field(column, name) for name in names]
            kept[field.name] = pa.StructArray.from_arrays(parts, names)
    yield from pa.RecordBatch.from_pydict(kept).to_pylist() if kept else [{}] * batch.num_rows


def _join(
    rows: _Cells,
    images: Mapping[str, Iterator[EmbeddedImage | None]],
    found: Columns,
    start: int,
    features: Mapping[str, Any],
) -> Iterator[Row]:
    """Rows with the images, and with the names of classes for their numbers."""
    for line, cells in enumerate(rows, start + 1):
        made = {n: plain(_name(c, features.get(n))) for n, c in cells.items() if n not in images}
        for name, embedded in images.items():
            beside = cells.get(name) or {}
            stated, image = beside.pop(_PATH, None), next(embedded)
            made[name] = stated if image is None else image
            if image is not None and stated and NAME not in made:
                made[NAME] = stated
            if made[name] is not None:
                made |= {f"{name}.{below}": plain(cell) for below, cell in beside.items()}
        yield Row(line, made | found.unusable)


def _read_features(schema: pa.Schema) -> Mapping[str, Any]:
    """What `datasets` says of the columns; nothing of another's file."""
    try:
        stated = parse_json((schema.metadata or {}).get(_FEATURES, b"{}").decode())
        found = stated["info"]["features"]
    except (ValueError, LookupError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _name(cell: Any, feature: Any) -> Any:
    """A cell with names for numbers of classes, at any depth."""
    if isinstance(feature, list) and feature:  # as older versions write a sequence
        feature = {"feature": feature[0]}
    if cell is None or not isinstance(feature, dict):
        return cell
    if feature.get("_type") == "ClassLabel":
        stated = feature.get("names")
        names = stated if isinstance(stated, list) else []
        is_known = isinstance(cell, int) and 0 <= cell < len(names)
        return names[cell] if is_known else "" if cell == -1 else cell
    inner = feature.get("feature", feature)
    if isinstance(cell, list):
        return [_name(each, inner) for each in cell] if "feature" in feature else cell
    if isinstance(cell, dict):
        # A sequence of structures is stored as a structure of lists.
        wrap = (lambda each: {"feature": each}) if "feature" in feature else (lambda each: each)
        return {
            key: _name(each, wrap(inner[key]) if isinstance(inner, dict) and key in inner else None)
            for key, each in cell.items()
        }
    return cell


def find_columns(schema: pa.Schema, read_first: Callable[[str], Any]) -> Columns:
    """Looks at a file's columns."""
    found = Columns()
    for field in schema:
        if pa.types.is_struct(field.type):
            if below := _find_field(field, read_first):
                found.images[field.name] = f"{field.name}.{below}"
        elif any(is_list(field.type) for is_list in _LISTS):
            item = field.type.value_type
            if (_is_binary(item) or pa.types.is_struct(item)) and any(
                map(_is_image, _list_bytes(read_first(field.name).to_pylist()))
            ):
                found.unusable[field.name] = _SEVERAL
        elif _is_binary(field.type):
            heads = [cell for cell in read_first(field.name).to_pylist() if cell]
            if any(map(_is_image, heads)):
                found.images[field.name] = field.name
            elif heads and not any(map(is_text, heads)):
                found.unusable[field.name] = _OPAQUE
    return found


def _find_field(field: pa.Field, read_first: Callable[[str], Any]) -> str:
    """The field of a structure that has an image's bytes; "" if none has.

    That of Hugging Face's is one whatever its first cells are: all may be paths.
    """
    if {each.name for each in field.type} == {BYTES, _PATH}:
        return BYTES
    names = [each.name for each in field.type if _is_binary(each.type)]
    cells = [cell for cell in read_first(field.name).to_pylist() if cell] if names else []
    return next((name for name in names if any(_is_image(cell[name]) for cell in cells)), "")


def _list_bytes(cell: Any) -> Iterator[bytes]:
    """All bytes in a cell, at any depth."""
    if isinstance(cell, bytes):
        yield cell
    elif isinstance(cell, list | dict):
        for each in cell.values() if isinstance(cell, dict) else cell:
            yield from _list_bytes(each)


def _is_binary(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return any(is_kind(type_) for is_kind in _BINARIES)


def _is_image(data: bytes | None) -> bool:
    return bool(data) and tell_kind(data or b"").group in ("image", "unsupported_image")


def _list_saved(folder: str) -> Files:
    if not os.path.isfile(f"{folder}/{_SPLITS}"):
        return [(path, None) for path in _list_split(folder)]
    splits = json.loads(files.read_file(f"{folder}/{_SPLITS}"))["splits"]
    return [(path, s) for s in splits for path in _list_split(_name_below(folder, s))]


def _list_split(folder: str) -> list[str]:
    state = json.loads(files.read_file(f"{folder}/{_STATE}"))
    return [_name_below(folder, each["filename"]) for each in state["_data_files"]]


def _name_below(folder: str, name: str) -> str:
    """A file that a data set's own list names."""
    if leads_out(folder, name):
        raise UserError(
            f"The data set {folder!r} names {name!r}, which leads out of it; save it again, or "
            "give that file itself."
        )
    return f"{folder}/{name}"


SAVED = SourceKind(
    name="a data set that Hugging Face's datasets saved",
    recognise=lambda images: any(os.path.isfile(f"{images}/{n}") for n in (_STATE, _SPLITS)),
    files=_list_saved,
    rows=read_rows,
)
PARQUET = SourceKind(
    name="a table",
    endings=(".parquet", ".pq"),
    fills_folders=True,
    rows=read_parquet,
    locations={"parquet": read_parquet_cell},
)
ARROW = SourceKind(
    name="a table of Arrow files",
    endings=(".arrow", ".feather"),
    fills_folders=True,
    rows=read_arrow,
    locations={"arrow": read_arrow_cell},
)
