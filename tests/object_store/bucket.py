"""The objects of one bucket in memory, and uploads on their way to it, as Google's store has them.

Names are in the order of their UTF-8 bytes; an object is there once its upload is whole.
"""

import base64
import dataclasses
import datetime
import hashlib
import itertools
import threading

import google_crc32c

# Google's own, of a page of a list.
PAGE_OBJECTS = 1000


@dataclasses.dataclass(frozen=True)
class Object:
    """One object; `generation` is another one each time its name is written."""

    name: str
    content: bytes
    content_type: str
    generation: int
    updated: str

    @property
    def crc32c(self) -> str:
        """As Google writes it."""
        return base64.b64encode(google_crc32c.value(self.content).to_bytes(4, "big")).decode()

    def describe(self, bucket: str) -> dict[str, str]:
        """What the store's JSON says of an object."""
        return {
            "kind": "storage#object",
            "id": f"{bucket}/{self.name}/{self.generation}",
            "bucket": bucket,
            "name": self.name,
            "size": str(len(self.content)),
            "contentType": self.content_type,
            "generation": str(self.generation),
            "metageneration": "1",
            "storageClass": "STANDARD",
            "timeCreated": self.updated,
            "updated": self.updated,
            "crc32c": self.crc32c,
            "md5Hash": base64.b64encode(hashlib.md5(self.content).digest()).decode(),
            "etag": str(self.generation),
        }


@dataclasses.dataclass
class Upload:
    """An upload in parts; `finished` once all of it has come.

    Google's parts come one after another (`received`), Amazon's in any order, by numbers (`parts`).
    """

    name: str
    content_type: str
    received: bytearray = dataclasses.field(default_factory=bytearray)
    parts: dict[int, bytes] = dataclasses.field(default_factory=dict)
    finished: Object | None = None


@dataclasses.dataclass(frozen=True)
class Page:
    """A page of a list: objects and folders by name, and from which name on the next page is."""

    objects: list[Object]
    folders: list[str]
    next_name: str | None


class Bucket:
    """One bucket, for any number of threads."""

    def __init__(self, name: str):
        """An empty bucket."""
        self.name = name
        self._objects: dict[str, Object] = {}
        self._uploads: dict[str, Upload] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def find(self, name: str) -> Object | None:
        """The object of this name, if there is one."""
        return self._objects.get(name)

    def write(self, name: str, content: bytes, content_type: str) -> Object:
        """Writes an object, over one of the same name."""
        updated = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        with self._lock:
            written = Object(name, content, content_type, next(self._numbers), updated)
            self._objects[name] = written
        return written

    def delete(self, name: str) -> bool:
        """Deletes an object; False if there is none."""
        with self._lock:
            return self._objects.pop(name, None) is not None

    def list_page(
        self, prefix: str = "", delimiter: str = "", first_name: str = "", most: int = PAGE_OBJECTS
    ) -> Page:
        """Lists names that begin with the prefix, from a name on; folders end with the delimiter.

        Args:
          prefix: of all that is listed.
          delimiter: names that have it after the prefix count as one folder, up to it; or "".
          first_name: names before it are left out.
          most: objects and folders on the page.
        """
        objects: list[Object] = []
        folders: list[str] = []
        with self._lock:
            names = sorted(name for name in self._objects if name.startswith(prefix))
            for name in names:
                end = name.find(delimiter, len(prefix)) if delimiter else -1
                folder = name[: end + len(delimiter)] if end >= 0 else None
                if (folder or name) < first_name or (folder and folder in folders[-1:]):
                    continue
                if len(objects) + len(folders) == most:
                    return Page(objects, folders, folder or name)
                if folder:
                    folders.append(folder)
                else:
                    objects.append(self._objects[name])
        return Page(objects, folders, None)

    def begin_upload(self, name: str, content_type: str) -> str:
        """Begins an upload in parts; returns its id."""
        with self._lock:
            upload_id = f"upload-{next(self._numbers)}"
            self._uploads[upload_id] = Upload(name, content_type)
        return upload_id

    def find_upload(self, upload_id: str) -> Upload | None:
        """The upload of this id, if there is one."""
        return self._uploads.get(upload_id)

    def take_part(self, upload: Upload, start: int, part: bytes, total: int | None) -> None:
        """Takes the part that begins at `start`; with the last of `total` bytes it is an object."""
        if upload.finished is None:
            if start <= len(upload.received):  # What has come once is not taken again.
                upload.received += part[len(upload.received) - start :]
            if total == len(upload.received):
                content = bytes(upload.received)
                upload.finished = self.write(upload.name, content, upload.content_type)

    def abandon_upload(self, upload_id: str) -> None:
        """Forgets an upload."""
        self._uploads.pop(upload_id, None)
