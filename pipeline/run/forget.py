"""Forgets pictures: a data set without them, and a search of all files for their bytes.

What is to be forgotten is noted beside the data set before anything is changed, with a few windows
of the bytes, so that whoever is stopped goes on; and until a search finds nothing.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import escape

from image_pipeline.components import files
from image_pipeline.components.contract import PIXEL_SUMS
from image_pipeline.components.dataset.held_bytes import (
    BytesFinder,
    Sought,
    describe_content,
    describe_text,
    is_packed,
    list_files,
)
from image_pipeline.components.dataset.paths import FORGET, GONE, NEXT, WORK, match_path
from image_pipeline.components.dataset.versions import blank_pictures
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.certificate import (
    CERTIFICATE,
    FedBatches,
    NotFedError,
    read_certificate,
)
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.ingest.same_pictures import FORMER, RECORD, Pictures
from image_pipeline.components.json_files import read_json
from image_pipeline.components.json_text import to_json
from image_pipeline.components.meaning.listing import Listing
from image_pipeline.components.names import decode_name, printable_text
from image_pipeline.components.sources.reading import SkippedFile, try_read
from image_pipeline.named_folder import refuse_run
from image_pipeline.run.engine import choose_engine
from image_pipeline.run.preflight import check_ingest
from image_pipeline.run.source_note import find_written
from image_pipeline.run_folder import RunFolder

_BYTES, _PAGE = "bytes", "page"
_LOG = "events.out.tfevents"
_WAY_OUT = "delete it, and name the pictures again"


@dataclasses.dataclass(frozen=True)
class Forgotten:
    """A picture that is to be forgotten.

    Attributes:
      path: its name, as `source` of the index has it.
      why: how it was found: "named", "the same bytes" or "looks alike".
      became: what it is in the data set, see `Picture`.
      original: whether its file is there among the images.
    """

    path: str
    why: str
    became: str
    original: bool


@dataclasses.dataclass(frozen=True)
class Seen:
    """When a model was fed a picture.

    Attributes:
      model: the folder of its certificate.
      path: of the picture.
      times: each epoch and step.
      problem: why it is not known which pictures it was fed; "" if it is.
    """

    model: str
    path: str = ""
    times: Sequence[tuple[int, int]] = ()
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be done, see `plan_forgetting`.

    Attributes:
      data_dir: the data set's folder.
      images: the folder of images that it was made from.
      pictures: those to be forgotten.
      sought: by which their bytes are found: by path, of what is stored and of the file, as far as
        they are known.
      seen: the models that were fed them.
      folders: what is searched besides the data set.
    """

    data_dir: str
    images: str
    pictures: Sequence[Forgotten]
    sought: Mapping[str, tuple[Sought, ...]]
    seen: Sequence[Seen]
    folders: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Held:
    """A file that holds pictures, and what can be done about it."""

    file: str
    pictures: Sequence[str]
    way_out: str


def plan_forgetting(
    data_dir: str,
    named: Sequence[str],
    near: bool = False,
    images_dir: str | None = None,
    scan: Sequence[str] = (),
) -> tuple[Plan, Listing]:
    """Finds what is to be forgotten, and changes nothing.

    Args:
      data_dir: the data set's folder, on this machine.
      named: pictures, see `Pictures.find`; none to go on with what was begun.
      near: also what looks alike.
      images_dir: where its images are, if they have moved.
      scan: further folders where the bytes and models are looked for.

    Returns:
      The plan, and the images without these.

    Raises:
      UserError: if a picture is not in the data set, or its images cannot be listed.
    """
    if not all(map(files.is_local, (data_dir, *scan))):
        raise UserError(
            f"forget searches files of this machine, got {data_dir!r}; in a store, add the "
            "pictures to ingest.leave_out and ingest again with --replace and, as the indices of "
            "earlier versions name them, --versions 0."
        )
    if missing := [folder for folder in scan if not os.path.isdir(folder)]:
        raise UserError(f"--scan must name folders, but {missing[0]!r} is not one.")
    refuse_run(data_dir, "forget")
    images, options = find_written(data_dir, images_dir)
    begun = _read_begun(data_dir)
    if not named and begun is None:
        raise UserError(f"Nothing is to be forgotten in {data_dir!r}; name the pictures.")
    data = Pictures(data_dir)
    found = {each.path: each for each in data.find(named, near)}
    earlier = {each.path: each for each in begun.pictures} if begun else {}
    paths = list(dict.fromkeys([*earlier, *found]))
    left_out = tuple(dict.fromkeys((*options.leave_out, *paths)))
    listing = check_ingest(
        images, data_dir, options.model_copy(update={"leave_out": left_out}), choose_engine(())
    )
    here = [each.path for each in data.all.values() if each.became != FORMER]
    originals = _read_originals(listing, here, set(paths))
    pictures, sought = list[Forgotten](), dict[str, tuple[Sought, ...]]()
    for path in paths:
        first = earlier.get(path) or found[path]
        pictures.append(Forgotten(path, first.why, first.became, path in originals))
        kept = data.read_kept(found[path]) if path in found else ()
        now = [describe_content(each) for each in (*kept, originals.get(path)) if each]
        before = begun.sought.get(path, ()) if begun else ()
        sought[path] = tuple(dict.fromkeys((*before, *now)))
    folders = list(dict.fromkeys([*(begun.folders if begun else ()), *scan]))
    seen = {(each.model, each.path): each for each in (begun.seen if begun else ())}
    records = [each.path for each in found.values() if each.became in (RECORD, FORMER)]
    for each in _find_seen(data_dir, folders, records) if records else ():
        seen[each.model, each.path] = each
    return Plan(data_dir, images, pictures, sought, list(seen.values()), folders), listing


def forget_pictures(plan: Plan, listing: Listing) -> dict[str, Any]:
    """Writes the data set without the pictures, deletes what was made of them, and searches.

    Args:
      plan: from `plan_forgetting`.
      listing: the images without these.

    Returns:
      `pictures` and `seen` of the plan; the summary of the ingest as `data_set`; `versions`, in how
      many of those before there were any; `deleted`, the files that were made of the pictures; and
      of the search: `files` and `bytes` that were read, `held`, `sums`, the files beside graphs
      that hold no picture, but may have sums of their pixels, `unread`, why each file could not be
      searched, and `unsought`, the pictures of which too little is known.

    Raises:
      UserError: if the data set cannot be written; it is then as it was.
    """
    from image_pipeline.run.ingest import ingest_folder

    data_dir = plan.data_dir
    files.write_file(files.join(data_dir, FORGET), to_json(plan).encode())
    summary = ingest_folder(listing, data_dir, choose_engine(()), replace=True)
    versions = blank_pictures(data_dir, [each.path for each in plan.pictures])
    for name in (WORK, NEXT, GONE):  # Of runs that were stopped.
        files.delete_tree(files.join(data_dir, name))
    caches = os.path.realpath(FeedingOptions().cache_folder)
    finder = BytesFinder(_list_contents(plan))
    searched, read, deleted, sums = 0, 0, list[str](), list[str]()
    held, unread = list[Held](), dict[str, str]()
    root = os.path.realpath(data_dir)
    for path in list_files([data_dir, caches, *plan.folders]):
        if os.path.basename(path) == FORGET:
            continue
        if os.path.basename(path) == PIXEL_SUMS:
            sums.append(path)
        try:
            # What is plain looks in parts like others that stay in the data set's own shards.
            match = match_path(path)
            found = finder.find(path, as_stored=match is not None and match["root"] == root)
            if is_packed(path):
                unread[path] = "it is compressed; unpack it, and search that by --scan"
        except OSError as error:
            unread[path] = f"it cannot be read ({error.strerror})"
            continue
        searched, read = searched + 1, read + os.path.getsize(path)
        if not found:
            if os.path.basename(path).startswith(_LOG):
                unread[path] = (
                    "a log of TensorBoard, whose pictures have other bytes; look, or delete it"
                )
            continue
        if files.is_below(path, caches) or _PAGE in {kind for _, kind in found}:
            files.delete(path)  # What is made again when it is asked for.
            deleted.append(path)
        else:
            held.append(Held(path, sorted({name for name, _ in found}), _find_way_out(path, plan)))
    result = {
        "pictures": plan.pictures,
        "seen": plan.seen,
        "data_set": summary,
        "versions": versions,
        "sums": sums,
        "deleted": deleted,
        "files": searched,
        "bytes": read,
        "held": held,
        "unread": unread,
        "unsought": [
            path for path, known in plan.sought.items() if not any(each.windows for each in known)
        ],
    }
    if not held:
        files.delete(files.join(data_dir, FORGET))
    return result


def _read_begun(data_dir: str) -> Plan | None:
    """What was begun and is not done; None if nothing was."""
    try:
        return read_json(files.join(data_dir, FORGET), Plan, _WAY_OUT)
    except FileNotFoundError:
        return None


def _read_originals(
    listing: Listing, known: Iterable[str], forgotten: set[str]
) -> dict[str, bytes | None]:
    """The files of the pictures that are there among the images: their bytes, if they can be read.

    Raises:
      UserError: if others of the data set are gone, which would leave it, too.
    """
    if not listing.kind.lists_images:
        return {}
    prepare = listing.options.prepare
    left, found = set(known) - forgotten, dict[str, bytes | None]()
    for ref in listing.refs():
        left.discard(name := decode_name(ref.path))
        if name in forgotten:
            read = try_read(ref, listing.source, prepare.max_file_bytes, prepare.sound is not None)
            found[name] = None if isinstance(read, BadImage | SkippedFile) else read
    if left:
        raise UserError(
            f"{len(left):,} other files of the data set are no longer in {listing.images!r}, such "
            f"as {min(left)!r}, and would be lost, too; name the folder where they are by "
            "--images, or, if they may go, run `image-pipeline update` first."
        )
    return found


def _list_contents(plan: Plan) -> Iterator[tuple[tuple[str, str], Sought]]:
    """What is sought, by the picture and whether it is its bytes or a report's that shows it."""
    for each in plan.pictures:
        for sought in plan.sought[each.path]:
            yield (each.path, _BYTES), sought
        # As macros.jinja writes it, and nobody else: what has it is deleted.
        name = escape(printable_text(each.path))
        shown = f'class="open" aria-label="Enlarge {name}"><img alt="{name}" loading="lazy"'
        yield (each.path, _PAGE), describe_text(shown)


def _find_seen(data_dir: str, folders: Sequence[str], paths: Sequence[str]) -> Iterator[Seen]:
    """Which models in some folders were fed pictures, and when."""
    known = [data_dir, *(each for folder in folders for each in RunFolder(folder).list_data_sets())]
    by_real = {os.path.realpath(each): each for each in reversed(known)}
    for certificate in list_files([data_dir, *folders]):
        model = os.path.dirname(certificate)
        if os.path.basename(certificate) != CERTIFICATE:
            continue
        try:
            if (fed := read_certificate(model)) is None:
                continue
            batches = FedBatches(fed, list(by_real.values()))
            for path in paths:
                with contextlib.suppress(NotFedError):
                    if times := [(each.epoch, each.step) for each in batches.find(path)]:
                        yield Seen(model, path, times)
        except UserError as error:  # Its data set is elsewhere, or it is damaged, or another's.
            yield Seen(model, problem=str(error))


def _find_way_out(path: str, plan: Plan) -> str:
    """What can be done about a file that holds pictures."""
    if match := match_path(path):
        return f"another data set: image-pipeline forget {match['root']}"
    if files.is_below(path, os.path.realpath(plan.images)):
        return "it is where the images come from: delete the picture there"
    if os.path.basename(path).startswith(_LOG):
        return "a log of TensorBoard, which cannot be rewritten: delete it"
    return "not of this data set: delete it, or make it again"
