"""Prepares images: reads each source once, decides whether it is usable, makes what is stored.

A chunk becomes three files in the working folder: `….payload`, the prepared images one after the
other, `….arrow`, a row for every source (see `prepared`), and last a mark that it is done, which
names the other two, so an interrupted run goes on after it. How many images a generator's shards
hold is known when they have run, so their rows and payloads are written in parts of bounded size.
"""

import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow.compute as pc

from image_pipeline.components import files, progress
from image_pipeline.components.archives.byte_ranges import read_ahead
from image_pipeline.components.arrays.in_place import make_reference
from image_pipeline.components.dataset.lists import LEFT_OUT
from image_pipeline.components.dataset.record import make_record_id
from image_pipeline.components.function_version import images_version
from image_pipeline.components.generators.generator import open_generator
from image_pipeline.components.images.by_extras import list_missing
from image_pipeline.components.images.mask_file import BAD_MASK, MASK_SIZE
from image_pipeline.components.images.options import Levels
from image_pipeline.components.images.prepare import (
    DESCRIBED,
    BadImage,
    PreparedImage,
    prepare_image,
)
from image_pipeline.components.ingest.earlier import (
    Earlier,
    Keys,
    Known,
    find_stamps,
    made_by,
    name_annotations,
)
from image_pipeline.components.ingest.groups import hash_image
from image_pipeline.components.ingest.prepared import count_unusable, write_rows
from image_pipeline.components.ingest.work_folder import (
    EARLIER,
    PreparedChunk,
    WorkFolder,
    name_parts,
)
from image_pipeline.components.labels.boxes import BAD_BOX
from image_pipeline.components.labels.kind import Fitted
from image_pipeline.components.labels.kinds import MASKS
from image_pipeline.components.meaning.masks import has_mask_name, in_mask_folder
from image_pipeline.components.meaning.open_source import open_source
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.path_patterns import (
    find_tags,
    further_of,
    label_of,
    match_pattern,
    path_of,
    split_of,
)
from image_pipeline.components.names import decode_name
from image_pipeline.components.sources.pairs import match_template
from image_pipeline.components.sources.reading import (
    MISSING_FILE,
    SkippedFile,
    names_other_kind,
    try_read,
)
from image_pipeline.components.sources.references import Chunk, ImageRef, Source, list_fields
from image_pipeline.components.sources.source_kinds import SourceKind, check_unchanged, kind_of
from image_pipeline.components.tables.table import check_bad_row
from image_pipeline.components.threads import REMOTE_THREADS, map_in_order, usable_cores

CODE_VERSION = 8  # Raise it when the same source and options would give other rows or payloads.
# The options that no row and no payload depends on: those of the plan, and of how the work is done.
_LATER = {"class_ids", "conflicting_labels", "duplicates", "max_bad_fraction", "near_duplicates"}
_LATER |= {"seed", "shard_bytes", "shards", "stratify", "threads", "understood"}
# Those that no image and no mask depends on: of which they are, and what is said of them.
_OF_NAMES = {"boxes", "class_ids", "classes", "column_types", "columns", "follow_links", "labels"}
_OF_NAMES |= {"label_pattern", "group_pattern", "split_pattern", "split_names", "splits"}
_OF_NAMES |= {"leave_out"}
_PART_ROWS = 4096
# What is wrong with a table's row, not with an image; that a file is missing behind a URI is only
# known when it is read.
_OF_ROWS = (MISSING_FILE, "no_label", "unknown_label", "unknown_split", "no_mask", BAD_BOX)
_LEFT_OUT = SkippedFile(LEFT_OUT, "named by ingest.leave_out")
_RARE = SkippedFile("rare_class", "its class has fewer images than ingest.labels.min_images")
_OTHER_MASK = SkippedFile(
    "other_mask", "named like a mask, but fits neither ingest.masks.images nor .masks"
)

Read = bytes | BadImage | SkippedFile | Known
Result = TypeVar("Result")


def prepare_chunk(
    chunk: Chunk,
    images_dir: str,
    work: WorkFolder,
    options: IngestOptions,
    earlier: Earlier | None = None,
) -> PreparedChunk:
    """Prepares a chunk's images, or what its shards yield, unless an earlier run already did.

    Args:
      chunk: the references, to images or to shards of a generator.
      images_dir: the folder, table or generator that they are of.
      work: the working folder; it survives a failed run.
      options: of ingest.
      earlier: the data set from which images are taken that have not changed.

    Returns:
      What was prepared.

    Raises:
      UserError: if another run has begun, or a file was changed after it was listed.
    """
    stamps = list[list[object] | None]()
    if (kind := kind_of(images_dir)).lists_images:  # In a folder of folders, that takes 10 ms.
        source = open_source(images_dir, options)
        stamps = [find_stamps(ref, source.root) for ref in chunk.refs]
    key = name_chunk(chunk, stamps, images_dir, work, options, earlier)
    done = work.find_prepared(chunk, key)
    if done is not None and not _may_be_repaired(chunk, done):
        progress.advance(done.found, done.bad, done.skipped)
        return done
    name, numbered = work.name_attempt(key), (chunk.number, chunk.is_last)
    if kind.lists_images:
        depends_on = [made_by(), *_list_depended(images_dir, options, kind, _OF_NAMES)]
        keys = Keys(depends_on, chunk.refs, stamps, earlier, options)
        same = set(keys.same.tolist())
        progress.advance(len(same))
        others = [ref for number, ref in enumerate(chunk.refs) if number not in same]
        # What has changed is read in threads; what is said of the rest is read again, in its turn.
        changed = [ref for ref in others if keys.find(ref) is None]
        source = read_ahead(changed, source, options.prepare.max_file_bytes)

        def prepare(ref: ImageRef, read: tuple[Read, Read | None]) -> tuple[dict, bytes]:
            return prepare_source(ref, source, work, options, read, keys=keys)

        prepared = map_read(prepare, changed, source, options)
        known = ((ref, keys.find(ref)) for ref in others)
        results: Iterator[tuple[dict, bytes]] = (
            next(prepared) if found is None else prepare(ref, skip(ref, options) or (found, None))
            for ref, found in known
        )
        results = _watch(results, work, chunk.refs)
        rows = write_rows(results, name, work, options.seed, (keys.same, keys.rows))
        bad, skipped = count_unusable(rows)
        taken = pc.sum(pc.starts_with(rows["chunk"], EARLIER)).as_py() or 0
        done = PreparedChunk(*numbered, len(chunk.refs), bad, name, skipped, taken=taken)
    else:
        generator = open_generator(images_dir, options)
        results = map_in_order(
            lambda item: prepare_source(*item, work, options),
            generator.items(chunk.refs),
            count_threads(generator, options),
        )
        found = bad = skipped = parts = written = 0
        while not parts or written == _PART_ROWS:
            parts += 1
            part = _watch(itertools.islice(results, _PART_ROWS), work)
            rows = write_rows(part, name_parts(name, parts)[-1], work, options.seed)
            written, (own_bad, own_skipped) = len(rows), count_unusable(rows)
            found, bad, skipped = found + written, bad + own_bad, skipped + own_skipped
        shards = len(chunk.refs)
        done = PreparedChunk(*numbered, found, bad, name, skipped, shards, parts)
    work.mark_prepared(done, key)
    return done


def _may_be_repaired(chunk: Chunk, done: PreparedChunk) -> bool:
    """Whether unusable files may have changed unseen: those of a table behind URIs."""
    is_seen = all(ref.annotations is None or ref.modified_ns or ref.problem for ref in chunk.refs)
    return not is_seen and done.bad > 0


def name_chunk(
    chunk: Chunk,
    stamps: Sequence[list[object] | None],
    images_dir: str,
    work: WorkFolder,
    options: IngestOptions,
    earlier: Earlier | None = None,
) -> str:
    """A hash of everything that the chunk's rows and payloads depend on."""
    depends_on = _list_depended(images_dir, options, kind_of(images_dir))
    if not work.is_local:
        depends_on += [options.seed]  # See `write_rows`.
    if earlier is not None:  # Rows say where it has their payloads.
        depends_on += [dataclasses.astuple(earlier)]
    # What replaces a file may have its size and its time.
    depends_on += [*(list_fields(ref) for ref in chunk.refs), *stamps]
    return hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()[:32]


def _list_depended(
    images_dir: str, options: IngestOptions, kind: SourceKind, free: Collection[str] = ()
) -> list[object]:
    """What prepared images depend on beside their references: code, and all options not free."""
    depends_on = [CODE_VERSION, options.model_dump(mode="json", exclude={*_LATER, *free})]
    depends_on += [options.near_duplicates is not None]  # Its value matters later, in the plan.
    depends_on += [options.label_kind is MASKS]  # Without a mask, an image is not stored then.
    if not kind.is_dated:  # One name for the folder, whichever path leads to it.
        root = open_source(images_dir, options).root
        depends_on += [os.path.realpath(root) if root and files.is_local(root) else root]
    return [*depends_on, *filter(None, [images_version(images_dir), *list_missing()])]


def _watch(
    results: Iterable[tuple[dict, bytes]], work: WorkFolder, refs: Sequence[ImageRef] = ()
) -> Iterator[tuple[dict, bytes]]:
    """Counts what passes; in the end, makes sure of sources and run before files get names."""
    for row, payload in results:
        is_skipped = "is_skipped" in row
        progress.advance(bad="reason" in row and not is_skipped, skipped=is_skipped)
        yield row, payload
    check_unchanged(refs)
    work.check()


def map_read(
    function: Callable[[ImageRef, tuple[Read, Read | None]], Result],
    refs: Iterable[ImageRef],
    source: Source,
    options: IngestOptions,
) -> Iterator[Result]:
    """Applies a function to references and what `read_pair` gives of them, in threads, in order."""
    threads = count_threads(source, options)
    if files.is_local(source.root):
        return map_in_order(
            lambda ref: function(ref, read_pair(ref, source, options)), refs, threads, batch=8
        )
    # Many threads wait for the store, but few decode: a decoded image is 30 times its file's size.
    read = map_in_order(lambda ref: (ref, read_pair(ref, source, options)), refs, threads, ahead=1)
    return map_in_order(lambda each: function(*each), read, usable_cores() + 1, ahead=2)


def count_threads(source: Source, options: IngestOptions) -> int:
    """The number of a task's threads that read."""
    is_local = files.is_local(source.root)
    return options.threads or (usable_cores() + 1 if is_local else REMOTE_THREADS)


def prepare_source(
    ref: ImageRef,
    source: Source,
    work: WorkFolder,
    options: IngestOptions,
    read: tuple[Read, Read | None] | None = None,
    levels: Levels | None = None,
    keys: Keys | None = None,
) -> tuple[dict, bytes]:
    """The way of one image: read it, decide whether it is usable, make what is stored.

    Args:
      ref: the image.
      source: what it is read from.
      work: the working folder, where the bytes of unusable images are kept.
      options: of ingest.
      read: what `read_pair` gave, if it was read already.
      levels: as of `prepare_image`.
      keys: what is known of unchanged images, which are neither decoded nor stored again.

    Returns:
      The source's row (see `ROW_SCHEMA`) and the bytes to store: b"" if it is not usable, or if the
      row says where they are stored.

    Raises:
      UserError: if it is a table's bad row, and these are not to be quarantined.
    """
    # Everything that follows works on these bytes: a file that changes later does no harm.
    data, mask = read or read_pair(ref, source, options)
    row: dict[str, Any] = columns_of(ref, options) | {"source_bytes": ref.size_bytes}
    # What is not an image is listed, but counts as no damage, and its bytes are not kept.
    if isinstance(data, SkippedFile):
        return row | {"is_skipped": True, "reason": data.kind, "message": data.message}, b""
    annotations, kind = ref.annotations, options.label_kind
    known = data if isinstance(data, Known) else None
    try:
        if isinstance(data, BadImage):
            raise data
        # The hash comes before all checks: lists name an unusable file by its bytes, too.
        if isinstance(data, bytes):
            row |= {"sha256": hashlib.sha256(data).digest(), "source_bytes": len(data)}
            if keys is not None:
                row["content_key"] = keys.name_content(row["sha256"], mask)
                known = keys.find_content(row["content_key"])
        if known is not None:
            row |= known.row
        if keys is not None:
            row["key"] = keys.name_source(ref)
            if annotations is not None:
                row["annotations"] = name_annotations(annotations)
        row["record_id"] = make_record_id(row["sha256"], row["path"])
        # What the path and the table tell is checked before the costly part, decoding.
        _check_named(row, ref, options)
        if known is not None:
            image, stored = known.image, b""
        else:
            assert isinstance(data, bytes)
            image = prepare_image(data, options.prepare, levels)
            stored = make_reference(ref, data, image.encoded) if options.in_place else image.encoded
        # Masks and boxes follow the image: they are fitted to the size it is stored in.
        further = further_of(ref, options) if annotations is not None else ()
        if kind is MASKS:
            fitted = _fit_mask(ref, mask, image, options) if known is None else known.fitted
            if ref.mask is not None:
                named = os.fsencode(ref.mask.path).decode(errors="backslashreplace")
                row["mask_source"] = named
        else:
            try:
                fitted = kind.fit(further[-1] if further else None, image, options.boxes)
            except BadImage as error:
                assert annotations is not None
                raise BadImage(error.reason, f"{annotations.row}: {error.message}") from error
    except BadImage as error:
        if known is not None:  # What is said of it, and kept of its bytes, is as of any other.
            return prepare_source(ref, source, work, options, levels=levels)
        reason, message = error.reason, error.message
        if annotations is not None and reason in _OF_ROWS:
            check_bad_row(message, options)
        if isinstance(data, bytes) and data and not files.is_file(copy := work.copy_path(data)):
            files.write_file(copy, data)
        return row | {"reason": reason, "message": message}, b""
    # Near-duplicates are of the stored image, which is there when the source is gone.
    if options.near_duplicates is not None and known is None:
        row["perceptual_hash"] = hash_image(image)
    row |= {name: getattr(image, name) for name in DESCRIBED}
    row |= {"notes": [*image.notes, *fitted.notes], "image_notes": image.notes}
    if fitted.features:
        row["further"] = json.dumps([*further[:-1], *fitted.features])
    return {**row, **fitted.row}, fitted.stored + stored


def read_pair(ref: ImageRef, source: Source, options: IngestOptions) -> tuple[Read, Read | None]:
    """What is read of a reference and of its mask, or why it cannot be; None where it has none."""
    if (skipped := skip(ref, options)) is not None:
        return skipped
    limit = options.prepare.max_file_bytes
    image = try_read(ref, source, limit, options.prepare.sound is not None)
    if ref.mask is None or not isinstance(image, bytes):
        return image, None
    return image, try_read(ref.mask, source, limit)


def skip(ref: ImageRef, options: IngestOptions) -> tuple[SkippedFile, None] | None:
    """The same of what is skipped for what it is called; None of all others."""
    if options.leave_out and options.is_left_out(decode_name(ref.path)):
        return _LEFT_OUT, None
    rare = () if options.labels is None else options.labels.rare
    if rare and label_of(ref, options) in rare:
        return _RARE, None
    # What is named as a mask is, and is none: of several masks an image, one is taken.
    templates = None if options.masks is None else options.masks.images
    is_free = ref.mask is None and ref.problem is None and ref.annotations is None
    if templates is not None and is_free and not names_other_kind(ref.path):
        is_image = match_template(templates, ref.path) is not None
        if has_mask_name(ref.path) or (in_mask_folder(ref.path) and not is_image):
            return _OTHER_MASK, None
    return None


def columns_of(ref: ImageRef, options: IngestOptions) -> dict[str, Any]:
    """The columns of a source's row that depend on its path, or on its row of a table."""
    # A table's group counts more than the path's; a frame of a video is of the video's.
    path = path_of(ref)
    if ref.annotations is not None and ref.annotations.group is not None:
        group = ref.annotations.group or None
    else:
        group = match_pattern(options.group_pattern, "group", path)
        group = group and decode_name(group)
    columns = {
        "path": os.fsencode(ref.path),
        "label": label_of(ref, options),
        "group": decode_name(path) if group is None and path != ref.path else group,
        "forced_split": split_of(ref, options),
    }
    if ref.annotations is not None and ref.annotations.further:
        columns["further"] = json.dumps(further_of(ref, options))
    return columns


def _check_named(row: dict, ref: ImageRef, options: IngestOptions) -> None:
    """Checks that the path or the table names a known label, and no unknown split."""
    at = "" if ref.annotations is None else f"{ref.annotations.row}: "
    if row["label"] is None:
        missing = f"the path does not match label_pattern {options.label_pattern!r}"
        if ref.annotations is not None and ref.annotations.label is not None:
            missing = f"{at}the column {options.columns['label']!r} is empty"
        raise BadImage("no_label", missing)
    if options.classes is not None:
        labels = [row["label"]] if (tags := find_tags(ref, options)) is None else tags
        if unknown := set(labels).difference(options.classes):
            raise BadImage("unknown_label", f"{at}{min(unknown)!r} is not one of ingest.classes")
    if row["forced_split"] is not None and row["forced_split"] not in options.splits:
        known = ", ".join(options.splits)
        raise BadImage(
            "unknown_split",
            f"{at}{row['forced_split']!r} is not one of splits: {known}; set ingest.splits, or "
            "ingest.split_names",
        )


def _fit_mask(
    ref: ImageRef, read: Read | None, image: PreparedImage, options: IngestOptions
) -> Fitted:
    """The same of a mask, which has a file of its own."""
    if ref.mask is None:
        templates = options.masks
        if ref.annotations is not None:
            column = options.columns.get("mask")
            message = f"{ref.annotations.row}: the column {column!r} is empty"
        elif templates is not None and match_template(templates.images or "", ref.path) is None:
            way = "see ingest.masks, or leave it out by ingest.leave_out"
            message = f"its path is neither an image's, {templates.images or ''}, nor a mask's, "
            message += f"{templates.masks}; {way}"
        else:
            assert templates is not None
            message = f"no file is its mask, which {templates.masks} would fit; see ingest.masks"
        raise BadImage("no_mask", message)
    try:
        if isinstance(read, SkippedFile):
            raise BadImage(BAD_MASK, read.message)
        if isinstance(read, BadImage):
            raise read
        return MASKS.fit(read, image, options.masks)
    except BadImage as error:
        is_own = error.reason in (BAD_MASK, MASK_SIZE)
        reason = "no_mask" if error.reason == MISSING_FILE else BAD_MASK
        message = f"its mask {ref.mask.path!r} {'' if is_own else '- '}{error.message}"
        raise BadImage(error.reason if is_own else reason, message) from error
