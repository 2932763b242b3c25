"""The versions of a data set that is updated in place: what each changed, and its index.

`.versions.json` has an entry for each version, the last one for what is there. `.versions/` has the
manifests and indices of those that were replaced, by their manifests' checksums: by these batches
can be named and data sets compared, without shards. Neither is part of the data set.
"""

import contextlib
import dataclasses
import importlib.metadata
import logging
import os
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from image_pipeline.components import files
from image_pipeline.components.dataset.changes import CONTENT, GONE, NEW
from image_pipeline.components.dataset.checksums import Count, copy_file, describe_bytes
from image_pipeline.components.dataset.index_file import INDEX_SCHEMA
from image_pipeline.components.dataset.index_rows import COLUMNS
from image_pipeline.components.dataset.manifest import (
    Manifest,
    read_manifest,
    read_whole_manifest,
)
from image_pipeline.components.dataset.paths import (
    HISTORY,
    INDEX,
    MANIFEST,
    ROWS,
    VERSIONS,
    is_kept,
    match_version,
)
from image_pipeline.components.errors import UserError
from image_pipeline.components.json_files import read_json
from image_pipeline.components.json_text import to_sealed_json

_LOG = logging.getLogger(__name__)

KEPT = 10
"""How many replaced versions are kept by default: an index has about 120 bytes a record."""

_WAY_OUT = "restore it from a copy, or delete it: versions are then counted from 1 again"
# What stays of a forgotten picture: its place in the order, and what the order depends on.
_STAYS = {"split", "shard", "payload_offset", *COLUMNS.values()} - {"label"}
_FORGOTTEN = "forgotten"  # begins the name that it has then, before its id
_BLANK = {pa.string(): "", pa.int32(): 0, pa.int64(): 0, pa.list_(pa.string()): []}


@dataclasses.dataclass(frozen=True)
class Version:
    """What a data set was after an ingest, an update or a forgetting, and how it came of another.

    Attributes:
      number: from 1 on.
      manifest: its manifest's checksum.
      parent: that of the version before; None of the first one.
      before: the records of the version before: before + added - removed = after.
      added: records of new files.
      removed: records whose files are gone.
      changed: how many of the others each kind of change is said of, see `changes.KINDS`.
      after: its records.
      package: the version of this package that wrote it; None if that is not known.
    """

    number: int
    manifest: str
    parent: str | None
    before: Count
    added: Count
    removed: Count
    changed: Mapping[str, Count]
    after: Count
    package: str | None


@dataclasses.dataclass(frozen=True)
class History:
    """What `.versions.json` holds.

    Attributes:
      kept: how many replaced versions' indices are kept.
      versions: the first one first; the last is what is there.
    """

    kept: Count = KEPT
    versions: Sequence[Version] = ()


def read_history(data_dir: str) -> History:
    """Reads the versions of a data set; none if nothing was noted.

    Raises:
      UserError: if the file is damaged.
    """
    try:
        return read_json(files.join(data_dir, HISTORY), History, _WAY_OUT)
    except FileNotFoundError:
        return History()


def list_kept(data_dir: str) -> dict[str, str]:
    """The folders of replaced versions, by their manifests' checksums."""
    folders = (
        path.rpartition("/")[0] for path in files.list_files(data_dir, f"{VERSIONS}/*/{MANIFEST}")
    )
    return {folder.rpartition("/")[2]: folder for folder in folders}


def identify(folder: str, manifest: Manifest) -> str:
    """The checksum that names a data set, or a version that was replaced; "" if it has none."""
    # Where pictures were forgotten, a manifest has another one.
    return folder.rpartition("/")[2] if is_kept(folder) else manifest.checksum or ""


def add_version(
    data_dir: str,
    written_dir: str,
    known: Manifest | None,
    manifest: Manifest,
    counts: Mapping[str, int],
    replace: bool,
) -> None:
    """Notes a version beside what was written, and keeps the index of the one that it replaces.

    Where nothing changed, it is not a version. With what nothing is known to come before, versions
    begin; and so they do, and those before are deleted, where it has none of the images of the data
    set that it replaces.

    Args:
      data_dir: the data set's folder.
      written_dir: where the new one was written; may be the same.
      known: the manifest of the one before, if the two could be compared.
      manifest: that of the new one.
      counts: what changed, see `changes.Changes.counts`.
      replace: whether it may be another data set.

    Raises:
      UserError: if it cannot be written.
    """
    if known is not None and known.checksum == manifest.checksum:
        return
    try:
        history = read_history(data_dir)
    except UserError as error:
        _LOG.warning("%s", error)
        history = History()
    package = importlib.metadata.version("image-pipeline")
    if known and replace and known.books.written == counts[GONE] + counts[CONTENT]:
        files.delete_tree(files.join(data_dir, VERSIONS))
        known = None
    if known is None:
        versions = [_begin(manifest, package)]
    else:
        versions = list(history.versions)
        if not versions or versions[-1].manifest != known.checksum:
            versions = [_begin(known, None)]
        _keep(data_dir, known)
        last, after = versions[-1], manifest.books.written
        rest = {kind: count for kind, count in counts.items() if count and kind not in (NEW, GONE)}
        moved = last.after, counts[NEW], counts[GONE], rest, after
        checksum = manifest.checksum or ""
        versions.append(Version(last.number + 1, checksum, last.manifest, *moved, package))
    _write(written_dir, dataclasses.replace(history, versions=versions))


def _begin(manifest: Manifest, package: str | None) -> Version:
    written = manifest.books.written
    return Version(1, manifest.checksum or "", None, 0, written, 0, {}, written, package)


def _write(folder: str, history: History) -> None:
    text = to_sealed_json(dataclasses.asdict(history), indent=1)
    files.write_file(files.join(folder, HISTORY), text.encode() + b"\n")


def _keep(data_dir: str, manifest: Manifest) -> None:
    """Keeps the index of what is there: linked, so that it costs nothing, or copied in a store."""
    if not manifest.checksum or ROWS not in manifest.files:
        return
    folder = files.join(data_dir, VERSIONS, manifest.checksum)
    for name in (INDEX, ROWS, MANIFEST):
        source, target = files.join(data_dir, name), files.join(folder, name)
        if files.is_local(data_dir):
            os.makedirs(folder, exist_ok=True)
            with contextlib.suppress(OSError):  # Of a file system without links, or there already.
                os.link(source, target)
                continue
        copy_file(source, target)


def prune_versions(data_dir: str, kept: int | None = None) -> None:
    """Deletes the indices of the oldest versions beyond those that are to be kept.

    Args:
      data_dir: the data set's folder.
      kept: how many are, from now on; None for as many as before.
    """
    folders = list_kept(data_dir)
    found = {path.rpartition("/")[0] for path in files.list_files(data_dir, f"{VERSIONS}/*/*")}
    # Without a manifest no version is found: who kept or deleted it was stopped.
    for folder in found.difference(folders.values()):
        files.delete_tree(folder)
    try:
        history = read_history(data_dir)
    except UserError:
        if kept != 0:
            return  # It is not known which are the oldest.
        history = History(kept=0)
    else:
        if kept is not None and kept != history.kept:
            history = dataclasses.replace(history, kept=kept)
            _write(data_dir, history)
    age = {each.manifest: each.number for each in history.versions}
    present = max(age, key=age.__getitem__, default="")
    # What no version names is older than all; a folder with an ending was being deleted already.
    whole = {name for name in folders if name != present and "." not in name}
    replaced = sorted(whole, key=lambda checksum: age.get(checksum, 0))
    for checksum in folders.keys() - {*replaced[max(0, len(replaced) - history.kept) :]}:
        files.delete_tree(folders[checksum])


def find_version(name: str) -> str | None:
    """The folder with the index of a version, by a name such as `data@2`; None of other names.

    Raises:
      UserError: if there is no such version, or its index is not kept.
    """
    match = match_version(name)
    if match is None or files.exists(name):
        return None
    data_dir, number = match["root"], int(match["number"])
    manifest = read_whole_manifest(data_dir)
    folders = list_kept(data_dir) | {manifest.checksum: data_dir}
    known = {
        each.number: folders[each.manifest]
        for each in read_history(data_dir).versions
        if each.manifest in folders
    }
    if number not in known:
        numbers = ", ".join(map(str, known)) or "none"
        raise UserError(
            f"{name!r} must be a version of {data_dir!r} whose index is kept; these are: {numbers}."
        )
    return known[number]


def explain_version(data_dir: str, checksum: str) -> str | None:
    """Which version of a data set has a manifest of this checksum; None if that is not known.

    Args:
      data_dir: the data set's folder, or that of one of its versions, see `find_version`.
      checksum: of the manifest.
    """
    if is_kept(data_dir):
        data_dir = data_dir.rstrip("/").rsplit("/", 2)[0]
    try:
        versions = read_history(data_dir).versions
    except UserError:
        return None
    numbers = [each.number for each in versions if each.manifest == checksum]
    if not numbers:
        return None
    since = versions[-1].number - numbers[-1]
    ago = f"{since:,} update{'s' * (since > 1)} ago" if since else "the present one"
    return f"version {numbers[-1]} of {data_dir}, {ago}"


def list_names(data_dir: str) -> dict[str, str]:
    """The names of pictures in the kept indices that can be read, and their record ids."""
    ids = dict[str, str]()
    for folder in list_kept(data_dir).values():
        with contextlib.suppress(OSError, pa.ArrowException):  # `blank_pictures` deletes these.
            table = pq.read_table(files.join(folder, INDEX), columns=["source", "record_id"])
            ids |= zip(*(column.to_pylist() for column in table.columns), strict=True)
    return {name: id_ for name, id_ in ids.items() if name != f"{_FORGOTTEN}/{id_}"}


def blank_pictures(data_dir: str, paths: Collection[str]) -> int:
    """Takes names, labels and all else but their ids from pictures in the kept indices.

    The pictures keep their places, so that batches are still those that were fed.

    Args:
      data_dir: the data set's folder, on this machine.
      paths: of the pictures, as `source` of the index has them.

    Returns:
      In how many versions there were any.
    """
    found = 0
    for folder in list_kept(data_dir).values():
        path = files.join(folder, INDEX)
        try:
            manifest, table = read_manifest(folder), pq.read_table(path)
        except (UserError, OSError, pa.ArrowException) as error:
            _LOG.warning("%s is deleted: it cannot be told what it holds (%s).", folder, error)
            files.delete_tree(folder)
            continue
        is_it = pc.is_in(table["source"], value_set=pa.array(paths, pa.string()))
        if not pc.any(is_it).as_py():
            continue
        found += 1
        for number, field in enumerate(table.schema):
            is_ours = field.name in INDEX_SCHEMA.names  # What a table had may be missing.
            blank = _BLANK[INDEX_SCHEMA.field(field.name).type] if is_ours else None
            blank = pa.scalar(blank, field.type)
            if field.name == "source":
                blank = pc.binary_join_element_wise(_FORGOTTEN, table["record_id"], "/")
            if field.name not in _STAYS:
                column = pc.if_else(is_it, blank, table[field.name])
                table = table.set_column(number, field, column)
        pq.write_table(table, stream := pa.BufferOutputStream())
        content = stream.getvalue().to_pybytes()
        listed = {**manifest.files, INDEX: describe_bytes(content)}
        # Who is stopped in between finds the pictures in the index again.
        sealed = manifest.model_copy(update={"files": listed}).to_bytes()
        files.write_file(files.join(folder, MANIFEST), sealed)
        files.write_file(path, content)
    return found
