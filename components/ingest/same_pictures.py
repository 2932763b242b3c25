"""Which files of a data set are the same pictures: of the same bytes, or alike."""

import dataclasses
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import read_index, read_table
from image_pipeline.components.dataset.lists import Duplicate, Quarantined, Skipped, read_list
from image_pipeline.components.dataset.manifest import read_whole_manifest
from image_pipeline.components.dataset.paths import name_copy
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.dataset.versions import list_names
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.prepare import DESCRIBED, PreparedImage
from image_pipeline.components.ingest.groups import hash_image
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.messages import suggest
from image_pipeline.components.names import decode_name

_NEAR_BITS = 4  # in which perceptual hashes may differ, if the option near_duplicates is not set
RECORD, FORMER = "record", "in an earlier version"


@dataclasses.dataclass(frozen=True)
class Picture:
    """A file of a data set.

    Attributes:
      path: its name, as the index has it.
      became: `RECORD`, "duplicate", "quarantined", "skipped", or `FORMER` if only the kept index of
        an earlier version names it.
      hashes: SHA-256 of its bytes, where they were read, and of those that are stored.
      row: of the record in the index; None of others.
      record_id: of one in a kept index, which its name and its bytes decide.
      why: how it was found: "named", "the same bytes" or "looks alike".
    """

    path: str
    became: str
    hashes: frozenset[str]
    row: int | None = None
    why: str = ""
    record_id: str = ""

    def has_bytes(self, hashes: Collection[str]) -> bool:
        """Whether its bytes have one of these hashes, or had, in an earlier version."""
        if not self.record_id:
            return not self.hashes.isdisjoint(hashes)
        ids = (record.make_record_id(bytes.fromhex(each), self.path.encode()) for each in hashes)
        return any(each.hex() == self.record_id for each in ids)


class Pictures:
    """The files of a data set, all of whose records are read once."""

    def __init__(self, data_dir: str):
        """Opens it; a few hundred bytes of memory a file.

        Raises:
          UserError: if it is not a whole data set, or damaged where it is read.
        """
        self.data_dir, manifest = data_dir, read_whole_manifest(data_dir)
        self.options = IngestOptions.read_stored(manifest.options)
        self._shards = [files.join(data_dir, each.file) for _, _, each in manifest.list_shards()]
        self._records = StoredRecords(read_index(self._shards))
        sources = read_table(self._shards, ["source"])["source"].to_pylist()
        found = [self._read(path, row) for row, path in enumerate(sources)]
        for copy in read_list(data_dir, Duplicate):
            if not copy.written:
                same = frozenset([copy.sha256])
                found.append(Picture(decode_name(copy.path), "duplicate", same))
        for bad in read_list(data_dir, Quarantined):
            same = frozenset([bad.sha256] if bad.sha256 else [])
            found.append(Picture(decode_name(bad.path), "quarantined", same))
        for skipped in read_list(data_dir, Skipped) if manifest.books.skipped else ():
            found.append(Picture(decode_name(skipped.path), "skipped", frozenset()))
        self.all = {each.path: each for each in found}
        for path, id_ in list_names(data_dir).items():
            self.all.setdefault(path, Picture(path, FORMER, frozenset(), record_id=id_))

    def _read(self, path: str, row: int) -> Picture:
        sha256 = record.read_sha256(self._records.read(row))
        stored = hashlib.sha256(self.read_stored(row)).hexdigest()
        # Records in place store nothing, which is the same of all.
        hashes = [sha256] if self.options.in_place else [sha256, stored]
        return Picture(path, RECORD, frozenset(hashes), row)

    def read_stored(self, row: int) -> bytes:
        """The stored bytes of a record; none where it says only where they are."""
        in_place = self.options.in_place
        return b"" if in_place else bytes(self._records.read_image(row).encoded)

    def read_kept(self, picture: Picture) -> Iterator[bytes]:
        """What the data set holds of a file: the stored image, or the copy in the quarantine."""
        if picture.row is not None:
            yield self.read_stored(picture.row)
        for sha256 in picture.hashes if picture.became == "quarantined" else ():
            if files.is_file(copy := files.join(self.data_dir, name_copy(sha256))):
                yield files.read_file(copy)

    def find(self, named: Sequence[str], near: bool = False) -> list[Picture]:
        """Finds pictures, and those of the same bytes, before ingest or as they are stored.

        Args:
          named: their names as the index and the lists have them, or files of the same bytes.
          near: also what looks alike, and copies of that.

        Returns:
          Those that were named first, each once.

        Raises:
          UserError: if one is not in the data set, or pixels cannot be compared.
        """
        prepare = self.options.prepare
        if near and (self.options.in_place or prepare.is_deep):
            raise UserError(
                "What looks alike is found among 8-bit gray or RGB images that are stored, but "
                f"{self.data_dir!r} has others; leave --near out, and name all pictures."
            )
        paths, hashes = set[str](), set[str]()
        for name in named:
            if name in self.all:
                paths.add(name)
                continue
            sha256 = (
                hashlib.sha256(files.read_file(name)).hexdigest() if files.is_file(name) else ""
            )
            if not (sha256 and any(each.has_bytes([sha256]) for each in self.all.values())):
                what = "picture of the bytes of" if sha256 else "picture called"
                raise UserError(
                    f"{self.data_dir!r} has no {what} {name!r}; {suggest(name, self.all, 3)}give "
                    "its path as in the column `source` of the index or in a list beside it, or a "
                    "file of the same bytes."
                )
            hashes.add(sha256)
        found: dict[str, Picture] = {}
        self._add(found, "named", (each for each in self.all.values() if each.path in paths))
        self._add_same(found, hashes)
        if near:
            self._add(found, "looks alike", self._find_near(found))
            self._add_same(found, set())
        return list(found.values())

    def _find_near(self, found: Mapping[str, Picture]) -> list[Picture]:
        """Those that look like one that was found, by perceptual hashes of what is stored."""
        bits = self.options.near_duplicates
        bits = _NEAR_BITS if bits is None else bits
        table = read_table(self._shards, DESCRIBED).to_pylist()
        looks = {
            each.path: hash_image(PreparedImage(self.read_stored(each.row), **table[each.row]))
            for each in self.all.values()
            if each.row is not None
        }
        asked = [looks[path] for path in found if path in looks]
        return [
            self.all[path]
            for path, look in looks.items()
            if any((look ^ other).bit_count() <= bits for other in asked)
        ]

    def _add_same(self, found: dict[str, Picture], hashes: set[str]) -> None:
        """Adds all with the bytes of one that was found, as they were or as they are stored."""
        while True:
            hashes = hashes.union(*(each.hashes for each in found.values()))
            before = len(found)
            same = (each for each in self.all.values() if each.has_bytes(hashes))
            self._add(found, "the same bytes", same)
            if len(found) == before:
                return

    @staticmethod
    def _add(found: dict[str, Picture], why: str, pictures: Iterable[Picture]) -> None:
        for each in sorted(pictures, key=lambda picture: picture.path):
            found.setdefault(each.path, dataclasses.replace(each, why=why))
