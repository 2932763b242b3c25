"""A data set as others read it: Parquet as Hugging Face has it, and Croissant that describes it.

`datasets.load_dataset(folder)` reads the files, whose schema says what each column is; so does
`mlcroissant` by `croissant.json` (Croissant 1.1, https://docs.mlcommons.org/croissant). `README.md`
is a data card. The images' bytes are those of the shards, and the order is theirs.
"""

import collections
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index_file import index_name, scan_index
from image_pipeline.components.dataset.licences import find_licence
from image_pipeline.components.dataset.manifest import ListedShard, Manifest, read_whole_manifest
from image_pipeline.components.dataset.tfrecord import CorruptRecord, read_records
from image_pipeline.components.errors import UserError

CROISSANT, CARD = "croissant.json", "README.md"
_IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9.+-]*")  # of a licence
_ROWS = 256  # of a row group: as many images are held in memory
_CROISSANT_OWN = (
    *("arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field"),
    *("fileObject", "fileProperty", "fileSet", "format", "includes", "isArray", "isLiveDataset"),
    *("jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex"),
    *("repeated", "replace", "samplingRate", "separator", "source", "subField", "transform"),
)
_CONTEXT = {
    **{"@language": "en", "@vocab": "https://schema.org/", "sc": "https://schema.org/"},
    **{"cr": "http://mlcommons.org/croissant/", "dct": "http://purl.org/dc/terms/"},
    **{"rai": "http://mlcommons.org/croissant/RAI/", "conformsTo": "dct:conformsTo"},
    **{name: {"@container": "@language"} for name in ("name", "description")},
    **{name: {"@id": f"cr:{name}", "@type": "@json"} for name in ("data", "examples")},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    **{name: f"cr:{name}" for name in _CROISSANT_OWN},
}
"""What names mean in a Croissant file, as its specification asks for it."""
_PLAIN = {"bytes": ("string", "sc:Text"), "int64": ("int64", "cr:Int64")}
_PLAIN |= {"float32": ("float32", "cr:Float32")}
_IMAGE = {"_type": "Image"}
_FILE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_NAMES = {record.LABEL: "label", record.MASK: "mask", record.SOURCE_ID: "record_id"}
_NAMES |= {record.SHA256: "sha256"}


def write_parquet(
    data_dir: str, folder: str, name: str = "images", licence: str | None = None
) -> list[str]:
    """Writes a data set as Parquet files, with a data card and a description in Croissant.

    Columns are `image` and, where there are such, `label` (a class's number), `tags`, `value`,
    `mask`, the boxes' lists and a table's further columns, then `record_id` and `sha256`, of the
    source's bytes. Each shard becomes a file.

    Args:
      data_dir: the folder that ingest wrote.
      folder: where the files go; it may not hold any.
      name: of the data set.
      licence: of the data set, an identifier of SPDX or an address; None for those that a column of
        the images says, if there is one.

    Returns:
      The files' names, below the folder.

    Raises:
      UserError: if there is no such data set, the folder is not empty, or images are not stored as
        files.
    """
    manifest = read_whole_manifest(data_dir)
    if manifest.options.get("prepare", {}).get("encoding") == "raw" or manifest.options.get(
        "in_place"
    ):
        raise UserError(
            f"Parquet holds images as files, but those of {data_dir!r} are stored as pixels, or "
            "lie elsewhere; ingest them with ingest.prepare.encoding=png, without ingest.in_place."
        )
    # What an export that was killed left is in `data`; a store has no other folder to show for it.
    if any(files.list_files(folder, name) for name in ("*", "data/*")):
        raise UserError(f"{folder!r} must be a new folder or an empty one; name another.")
    columns = _describe_columns(manifest)
    written = {
        f"data/{split}-{number:05d}-of-{len(manifest.splits[split].shards):05d}.parquet": shard
        for split, number, shard in manifest.list_shards()
    }
    for file, shard in written.items():
        _write_file(files.join(folder, file), data_dir, shard, manifest, columns)
    column = find_licence(manifest.further)
    licensed = {} if column is None else _count_values(data_dir, column)
    licences = [licence] if licence else sorted(filter(None, licensed))
    texts = {
        CARD: _make_card(manifest, name, licences, licensed),
        CROISSANT: json.dumps(_describe(manifest, name, licences, columns), indent=2) + "\n",
    }
    for file, text in texts.items():
        files.write_file(files.join(folder, file), text.encode())
    return sorted([*written, *texts])


class _Described:
    """A column of the files: of which record's it is made, as what, and what it is to others."""

    def __init__(self, name: str, column: record.Column, classes: Sequence[str] = ()):
        self.name, self.column = name, column
        is_image = column.key in (record.IMAGE, record.MASK)
        plain, self.croissant = ("", "sc:ImageObject") if is_image else _PLAIN[column.dtype]
        self.feature: dict[str, Any] = _IMAGE if is_image else {"dtype": plain, "_type": "Value"}
        type_ = _FILE if is_image else pa.type_for_alias(plain)
        if classes:
            self.feature, type_ = {"names": list(classes), "_type": "ClassLabel"}, pa.int64()
            self.croissant = "cr:Int64"
        if column.is_list:
            self.feature = {"feature": self.feature, "_type": "Sequence"}
            type_ = pa.list_(type_)
        self.type = type_
        self._numbers = {class_.encode(): number for number, class_ in enumerate(classes)}

    def read(self, values: Mapping[str, Any]) -> Any:
        """The column's value of a record."""
        value = values[self.column.key]
        if self.type == _FILE:
            is_mask = self.column.key == record.MASK
            path = _decode(values[record.FILENAME])
            return {"bytes": value, "path": f"{path}.mask.png" if is_mask else path}
        if self._numbers:
            return (
                [self._numbers[each] for each in value]
                if self.column.is_list
                else (self._numbers.get(value, -1))
            )
        if self.column.dtype == "bytes":
            return list(map(_decode, value)) if self.column.is_list else _decode(value)
        return value


def _decode(text: bytes) -> str:
    return text.decode(errors="backslashreplace")


def _describe_columns(manifest: Manifest) -> list[_Described]:
    """The columns of the files, in their order."""
    known = {column.key: column for column in manifest.columns}
    columns = [_Described("image", record.IMAGE_COLUMN)]
    if manifest.class_names:
        columns.append(_Described("label", known[record.LABEL], manifest.class_names))
    if record.MASK in known:
        columns.append(_Described("mask", known[record.MASK]))
    taken = {"image", *_NAMES.values()}
    for column in manifest.further:
        name = index_name(column)
        columns.append(_Described(f"column_{name}" if name in taken else name, column))
    more = (record.SOURCE_ID, record.SHA256)
    return columns + [_Described(_NAMES[key], known[key]) for key in more]


def _write_file(
    path: str, data_dir: str, shard: ListedShard, manifest: Manifest, columns: Sequence[_Described]
) -> None:
    """Writes the records of a shard, in their order, each with its checksums verified."""
    features = {each.name: each.feature for each in columns}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    schema = pa.schema([(each.name, each.type) for each in columns], metadata)
    source = files.join(data_dir, shard.file)
    try:
        with (
            files.open_input(source) as records,
            files.write_atomically(path) as file,
            pq.ParquetWriter(file, schema, compression="none") as writer,
        ):
            count = 0
            for rows in _read_rows(records, manifest, columns):
                writer.write_table(pa.Table.from_pylist(rows, schema), row_group_size=_ROWS)
                count += len(rows)
            if count != shard.records:
                raise ValueError(f"it has {count:,} records, not {shard.records:,}")
    except (CorruptRecord, ValueError, FileNotFoundError) as error:
        raise UserError(
            f"{source!r} is damaged ({error}); `image-pipeline verify` lists all damage. Run "
            "ingest again."
        ) from error


def _read_rows(
    records: Any, manifest: Manifest, columns: Sequence[_Described]
) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    for data in read_records(records):
        values = record.decode_example(data, manifest.columns)
        rows.append({each.name: each.read(values) for each in columns})
        if len(rows) == _ROWS:
            yield rows
            rows = []
    if rows:
        yield rows


def _count_values(data_dir: str, column: str) -> dict[str, int]:
    """How many images have each text of a column of the index; "" is none."""
    counts: collections.Counter[str] = collections.Counter()
    for rows in scan_index(data_dir, [column]):
        counts.update(text or "" for text in rows[column].to_pylist())
    return dict(counts.most_common())


def _make_card(
    manifest: Manifest, name: str, licences: Sequence[str], licensed: Mapping[str, int]
) -> str:
    """The data card: what Hugging Face reads at its head, and what people want to know.

    `licensed` counts the images of each licence, if a column says that; "" is none.
    """
    head: dict[str, Any] = {"pretty_name": name}
    if licences:
        named = [text.lower() for text in licences]
        # What is not an identifier, such as an address, is one of others to Hugging Face.
        known = sorted({text if _IDENTIFIER.fullmatch(text) else "other" for text in named})
        head["license"] = known[0] if len(known) == 1 else known
    data_files = [
        {"split": split, "path": f"data/{split}-*"}
        for split, listed in manifest.splits.items()
        if listed.shards
    ]
    head["configs"] = [{"config_name": "default", "data_files": data_files}]
    books = manifest.books
    lines = [
        "---",
        yaml.safe_dump(head, sort_keys=False).rstrip(),
        "---",
        f"# {_cell(name)}",
        "",
        f"{books.found:,} files were found: {books.written:,} are records, {books.duplicates:,} "
        f"copies of others, {books.quarantined:,} not usable, {books.skipped:,} not images.",
        "",
    ]
    if manifest.class_names:
        splits = list(manifest.splits)
        lines += [f"| class | {' | '.join(splits)} |", f"|---|{'---:|' * len(splits)}"]
        for class_ in manifest.class_names:
            counts = [books.classes.get(split, {}).get(class_, 0) for split in splits]
            cells = " | ".join(f"{count:,}" for count in counts)
            lines.append(f"| {_cell(class_)} | {cells} |")
    else:
        lines += ["| split | records |", "|---|---:|"]
        for split, listed in manifest.splits.items():
            lines.append(f"| {split} | {listed.records:,} |")
    if licensed:
        column = find_licence(manifest.further)
        lines += ["", f"| licence, as the column {column} says | images |", "|---|---:|"]
        lines += [f"| {_cell(text) or '(none)'} | {count:,} |" for text, count in licensed.items()]
    options = json.dumps(manifest.options, indent=1)
    lines += ["", "Made with these options:", "", "```json", options, "```", ""]
    lines.append(f"Its manifest's checksum is `{manifest.checksum}`.")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _describe(
    manifest: Manifest, name: str, licences: Sequence[str], columns: Sequence[_Described]
) -> dict[str, Any]:
    """The content of `croissant.json`."""
    described: dict[str, Any] = {
        "@context": _CONTEXT,
        **{"@type": "sc:Dataset", "conformsTo": "http://mlcommons.org/croissant/1.1"},
        **{"name": name, "description": f"{manifest.books.written:,} images.", "version": "1.0.0"},
    }
    if licences:
        described["license"] = licences[0] if len(licences) == 1 else list(licences)
    described["distribution"] = [
        {
            **{"@type": "cr:FileSet", "@id": "parquet", "name": "parquet"},
            **{"encodingFormat": "application/x-parquet", "includes": "data/*.parquet"},
        }
    ]
    in_path = {"regex": r"data/(.+)-\d{5}-of-\d{5}\.parquet$"}
    of_file = {"extract": {"fileProperty": "fullpath"}, "transform": in_path}
    fields = [_describe_field("split", "sc:Text", of_file)]
    for each in columns:
        made = {"extract": {"column": each.name}}
        if each.type == _FILE:
            made["transform"] = {"jsonPath": "bytes"}
        shape = {"isArray": True, "arrayShape": "-1"} if each.column.is_list else {}
        fields.append(_describe_field(each.name, each.croissant, made) | shape)
    named = {"@type": "cr:RecordSet", "@id": "default", "name": "default"}
    described["recordSet"] = [named | {"field": fields}]
    return described


def _describe_field(name: str, type_: str, made: Mapping[str, Any]) -> dict[str, Any]:
    source = {"fileSet": {"@id": "parquet"}, **made}
    named = {"@type": "cr:Field", "@id": f"default/{name}", "name": name}
    return {**named, "dataType": type_, "source": source}
