"""The working folder of an ingest: its files' names, which run it belongs to, what can be trusted.

An interrupted ingest goes on where it was; this file says why that is safe.
"""

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import pickle
import uuid
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import google_crc32c

from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import Manifest, parse_manifest
from image_pipeline.components.dataset.paths import QUARANTINE, name_copy
from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.listing import Listing
from image_pipeline.components.sources.references import Chunk
from image_pipeline.components.threads import map_in_order

_LOG = logging.getLogger(__name__)
EARLIER = "earlier:"
"""What chunks begin with that are shards of an earlier data set, see `earlier`."""
_VERSION = 2  # Of what is sealed: raise it when a mark gets another form.


@dataclasses.dataclass(frozen=True, slots=True)
class ListedChunk:
    """What the list stage passes on: a hundred bytes for thousands of images.

    Attributes:
      file: its references, in the working folder.
      listed: how many there are.
      images: how many images these are known to be; 0 for shards of a generator.
    """

    file: str
    listed: int
    images: int


@dataclasses.dataclass(frozen=True, slots=True)
class PreparedChunk:
    """What the prepare stage passes on: a few bytes for hundreds of images.

    Attributes:
      number: the chunk's number.
      is_last: whether the listing ended with it.
      found: number of references in it.
      bad: how many of them are quarantined.
      name: of its files, see `WorkFolder.rows_path` and `payload_path`.
      skipped: how many of them are not images.
      shards: of a generator, how many shards these images are of, which were listed instead.
      parts: into how many pairs of files they are divided; None: they have one, called `name`.
      taken: how many of the images are of the earlier ingest.
    """

    number: int
    is_last: bool
    found: int
    bad: int
    name: str
    skipped: int = 0
    shards: int | None = None
    parts: int | None = None
    taken: int = 0

    @property
    def listed(self) -> int:
        """How many of the references that were listed it is made from."""
        return self.found if self.shards is None else self.shards

    @property
    def names(self) -> list[str]:
        """The names of its files."""
        return [self.name] if self.parts is None else name_parts(self.name, self.parts)


def name_parts(name: str, parts: int) -> list[str]:
    """The names of a chunk's files, if there are several."""
    return [f"{name}-{part:05d}" for part in range(parts)]


@dataclasses.dataclass(frozen=True, slots=True)
class WorkFolder:
    """A working folder, and the run that uses it. Beam's stages get it as an argument.

    An ingest may be killed at any moment; a runner may give up a worker that is only slow; a person
    may start again with other options. Still, every file that was listed is in the finished data
    set's books once, and every record in its shards once. Proof:

    1. *One run at a time.* The file `run` names the run that started last. A stage checks it
       (`check`) when it begins, and again between writing a file and giving it its name. A worker
       that wakes up late finds another name there, or none, and stops.
    2. *A file is whole or absent*, since it gets its name last (`files.write_atomically`).
    3. *A name tells the content.* Two attempts to prepare a chunk never share a name
       (`name_attempt`), so rows and payloads of different attempts never meet. All other files are
       named after a hash of what they depend on: who writes one again, writes the same.
    4. *Only what is sealed is taken over.* A mark names finished files and their checksums, is
       written after them, and has a checksum of its own: damage, and another version's marks, are
       as good as absence, and the work is done again. Each payload has a checksum from before it
       was written, which is verified when a record is made of it.
    5. *Shards do not tell their content by name*, so each shard's name has one mark, which tells
       the rows that were written under it last. Another shard of that name is deleted before the
       mark is written, and the shard gets its name after it (`write_shard`): where both are there,
       they belong together.
    6. *Counts agree.* Listed = prepared (`check_prepared`); chunks are numbered, and the last one
       is marked (`plan_shards`); found = written + duplicates + quarantined + skipped, and shards
       and records are those planned (`check_books`); a manifest that this run did not write does
       not count (`read_finished`). Counts travel in the data and in this folder, because not every
       runner has Beam's metrics.
    7. *The manifest is deleted first and written last* (`start_output`, `write_manifest`): a folder
       without one is not a data set.

    One gap remains: between a late worker's check and its next write another run may begin. What it
    then replaces is one shard or its mark; the manifest has the SHA-256 of the right one, and
    `verify` compares it. On one machine a lock on the output folder keeps runs apart.

    Attributes:
      path: the folder, or its URI.
      run: the name of the run; "" for a job that many runs are started from (a template), which is
        not checked.
      earlier: the folder of the data set from which chunks of some names are, see `earlier`.
    """

    path: str
    run: str = ""
    earlier: str = ""

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return files.is_local(self.path)

    # Names.

    def join(self, *names: str) -> str:
        """The path of a file in it."""
        return files.join(self.path, *names)

    def rows_path(self, name: str) -> str:
        """The file of a chunk's rows."""
        return self.join("prepared", f"{name}.arrow")

    def payload_path(self, name: str) -> str:
        """The file of a chunk's prepared images; or the shard of an earlier data set."""
        if name.startswith(EARLIER):
            return files.join(self.earlier, name.removeprefix(EARLIER))
        return self.join("prepared", f"{name}.payload")

    def copy_path(self, data: bytes) -> str:
        """The file where a quarantined file's bytes are kept, to be looked at in the output."""
        return self.join(name_copy(hashlib.sha256(data).hexdigest()))

    def placed_path(self, plan: str) -> str:
        """The file of all shards' rows."""
        return self.join(f"placed-{plan}.arrow")

    def books_dir(self, plan: str) -> str:
        """The folder of a plan's books."""
        return self.join(f"books-{plan}")

    @staticmethod
    def name_attempt(key: str) -> str:
        """A name for a chunk's files that no other attempt to prepare it uses."""
        return f"{key}-{uuid.uuid4().hex[:8]}"

    # Runs.

    def begin(self) -> "WorkFolder":
        """Makes a new run the last one of the folder, and deletes what an earlier one found."""
        own = dataclasses.replace(self, run=uuid.uuid4().hex)
        files.write_file(self.join("run"), own.run.encode())
        files.delete(*map(self.join, ("listed.json", "finished.json", QUARANTINE)))
        return own

    @contextlib.contextmanager
    def hold(self) -> Iterator["WorkFolder"]:
        """Begins a run for the block, which deletes the folder once the data set is whole.

        If the block fails, the folder belongs to no run: what is still at work then stops, and a
        folder in which nothing was prepared is gone.
        """
        own = self.begin()
        try:
            yield own
        except BaseException:
            with contextlib.suppress(OSError, UserError):  # What the block raises says more.
                if own.read_run() == own.run:
                    files.delete(self.join("run"))
                if self.is_local:
                    os.rmdir(self.path)
            raise

    def check(self) -> None:
        """Makes sure that no other run has begun, or this one ended, since it began.

        Raises:
          UserError: if one has.
        """
        if self.run and (last := self.read_run()) != self.run:
            raise UserError(
                f"Another run has {'begun' if last else 'ended'} in {self.path!r} since this one "
                "began, so this one ends here; let one run at a time write a data set, or choose "
                "another --output."
            )

    def read_run(self) -> str:
        """The name of the run that the folder belongs to; "" if no run has used it."""
        try:
            return files.read_file(self.join("run")).decode()
        except FileNotFoundError:
            return ""

    # Marks.

    def write_sealed(self, name: str, value: Any) -> None:
        """Writes a value as JSON behind its checksum; raises as `files.write_file`."""
        text = json.dumps(value).encode()
        files.write_file(self.join(name), b"%08x %b" % (_seal(text), text))

    def read_sealed(self, name: str) -> Any:
        """Reads what `write_sealed` wrote; None if it is absent, damaged or another version's."""
        try:
            seal, _, text = files.read_file(self.join(name)).partition(b" ")
        except FileNotFoundError:
            return None
        return json.loads(text) if seal == b"%08x" % _seal(text) else None

    def mark_prepared(self, done: PreparedChunk, key: str) -> None:
        """Marks a chunk as prepared, under the name of all that it depends on."""
        stored = {"chunk": dataclasses.asdict(done), "rows": self.sum_rows(done)}
        self.write_sealed(f"prepared/{key}.json", stored)

    def find_prepared(self, chunk: Chunk, key: str) -> PreparedChunk | None:
        """What an earlier run prepared of a chunk; None if it did not, or that is damaged."""
        stored = self.read_sealed(f"prepared/{key}.json")
        if stored is None:
            return None
        done = PreparedChunk(**stored["chunk"])
        if stored["rows"] != self.sum_rows(done):
            what = f"The rows of chunk {chunk.number} in {self.path!r}"
            _LOG.warning(
                "%s have changed since they were written; its images are prepared again.", what
            )
            return None
        return dataclasses.replace(done, number=chunk.number, is_last=chunk.is_last)

    def sum_rows(self, done: PreparedChunk) -> list[int]:
        """The checksums of the files of a chunk's rows."""
        return [sum_file(self.rows_path(name)) for name in done.names]

    # The listing.

    def keep_listing(self, listing: Listing, fingerprint: str = "") -> list[ListedChunk]:
        """Writes a listing's chunks, and which they are, for `run.list_chunks` and `count_listed`.

        Of a generator, these are shards; how many images they hold is not known yet.
        """

        def keep(chunk: Chunk) -> ListedChunk:
            content = zlib.compress(pickle.dumps(chunk, 5), 1)
            name = f"listed/{chunk.number:06d}-{hashlib.sha256(content).hexdigest()[:16]}"
            files.write_file(self.join(name), content)
            count = len(chunk.refs)
            return ListedChunk(name, count, count if listing.kind.lists_images else 0)

        threads = files.count_threads(self.path)
        chunks = list(map_in_order(keep, listing.chunks, threads, ahead=1))
        self.check()
        kept = {"run": self.run, "chunks": [dataclasses.astuple(chunk) for chunk in chunks]}
        kept["fingerprint"] = fingerprint
        files.write_file(self.join("listed.json"), json.dumps(kept).encode())
        return chunks

    def read_listed(self) -> tuple[str, list[ListedChunk]] | None:
        """The run whose listing is kept, and its chunks; None if none is."""
        try:
            kept = json.loads(files.read_file(self.join("listed.json")))
        except FileNotFoundError:
            return None
        return kept["run"], [ListedChunk(*each) for each in kept["chunks"]]

    def read_fingerprint(self) -> str:
        """See `earlier.fingerprint_sources`; "" if that of the listing is not known."""
        try:
            return json.loads(files.read_file(self.join("listed.json")))["fingerprint"]
        except FileNotFoundError:
            return ""

    def read_chunk(self, chunk: ListedChunk) -> Chunk:
        """Reads the references of a chunk; raises as `check`."""
        self.check()
        return pickle.loads(zlib.decompress(files.read_file(self.join(chunk.file))))

    # Counts.

    def count_listed(self) -> int | None:
        """How many references were listed; None if there is no listing."""
        kept = self.read_listed()
        return None if kept is None else sum(chunk.listed for chunk in kept[1])

    def check_prepared(self, chunks: Sequence[PreparedChunk]) -> Sequence[PreparedChunk]:
        """Passes the chunks on if they hold every file that was listed.

        Raises:
          RuntimeError: if the runner or the stage lost one.
        """
        if (listed := self.count_listed()) is None:
            raise RuntimeError("Stage List lost the images folder: 1 in, 0 out.")
        if (found := sum(chunk.listed for chunk in chunks)) != listed:
            raise RuntimeError(
                f"Stage Prepare lost files: {listed} in, {found} out; of its chunks "
                f"{sorted(chunk.number for chunk in chunks)} arrived. The Beam runner is at fault."
            )
        return chunks

    def finish(self, manifest: bytes) -> None:
        """Leaves the manifest as a sign that this run wrote it."""
        files.write_file(self.join("finished.json"), manifest)

    def read_finished(self) -> Manifest:
        """The manifest that `finish` left: an earlier one in the output must not pass for it.

        Raises:
          RuntimeError: if this run wrote no manifest, though its runner reported no failure.
        """
        try:
            return parse_manifest(files.read_file(self.join("finished.json")))
        except FileNotFoundError as error:
            raise RuntimeError(
                "Stage WriteManifest lost the list of shards: 1 in, 0 out, so this run wrote no "
                "manifest. The Beam runner is at fault."
            ) from error


def sum_file(path: str) -> int:
    """The CRC-32C of a file's bytes; if it is not there, that of an empty one."""
    try:
        return google_crc32c.value(files.read_file(path))
    except FileNotFoundError:
        return google_crc32c.value(b"")


def _seal(text: bytes) -> int:
    return google_crc32c.extend(_VERSION, text)
