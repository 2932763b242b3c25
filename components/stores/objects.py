"""Amazon's store, others that speak its language (MinIO), and Azure's, by obstore.

Addresses and credentials are the environment's: `AWS_…`, `AZURE_STORAGE_…`. What is sent to S3 is
signed with its SHA-256, so the store refuses what was damaged on its way; what is read has the
connection's own checks only.
"""

import contextlib
import dataclasses
import datetime
import errno
import functools
import itertools
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from image_pipeline.components.errors import UserError
from image_pipeline.components.stores.refusals import explain_refusal, is_passing
from image_pipeline.components.stores.variables import (
    is_amazon,
    list_variables,
    read_settings,
)
from image_pipeline.components.threads import map_in_order
from image_pipeline.components.threads import start as start_thread

# Hadoop's and Spark's names for the same buckets.
_S3 = re.compile(r"(s3a?)://([^/]+)")
_AZURE = (
    re.compile(r"(?P<root>az://(?P<container>[^/@]+))"),
    re.compile(r"(?P<root>abfss?://(?P<container>[^/@]+))(?=/|$)"),
    re.compile(
        r"(?P<root>(?:abfs|wasb)s?://(?P<container>[^/@]+)"
        r"@(?P<account>[^/.]+)\.(?:dfs|blob)\.[^/]+)"
    ),
    re.compile(
        r"(?P<root>https://(?P<account>[^/.]+)\.(?:dfs|blob)\.core\.[^/]+/(?P<container>[^/]+))"
    ),
)


@dataclasses.dataclass(frozen=True)
class Address:
    """Where a bucket, or a container, is.

    Attributes:
      kind: "s3" or "az".
      root: what all its files' URIs begin with, which ends with a slash.
      bucket: its name.
      account: Azure's, if the URI names it; None for the environment's.
    """

    kind: str
    root: str
    bucket: str
    account: str | None = None


def find_address(uri: str) -> Address | None:
    """The bucket that a URI is in; None for other stores' URIs."""
    if found := _S3.match(uri):
        return Address("s3", f"{found[0]}/", found[2])
    for form in _AZURE:
        if found := form.match(uri):
            parts = found.groupdict()
            return Address("az", f"{parts['root']}/", parts["container"], parts.get("account"))
    return None


_PAGE_FILES = 1000
_NO_ORDER = "--x-s3"  # How the names of Amazon's directory buckets end, which list in no order.
_PART_BYTES = 8 * 2**20
# Parts of a file that are sent side by side.
_PARTS_AT_ONCE = 4
_CLIENT = {
    "allow_http": True,  # If the environment's address says so.
    "timeout": "1h",  # Of a request in all, which may be for a very large file.
    "read_timeout": "60s",  # Of a store that says nothing.
}
# Of a request that obstore may send again. It does not for a delete of many files, nor where the
# answer to another one ends early, so after these waits all is asked again: two minutes in all.
_RETRIES = {"retry_timeout": datetime.timedelta(seconds=40)}
_WAITS_S = (1, 3)


@functools.cache
def open_objects(address: Address) -> "ObjectStore":
    """A bucket of S3, or a container of Azure's.

    Only of Amazon's own is it known that a list from behind a name on leaves nothing out.

    Raises:
      UserError: if what the environment says of it is wrong, or it says too little.
    """
    from obstore.store import AzureStore, S3Store

    make: Any = S3Store if address.kind == "s3" else AzureStore
    settings = read_settings(address.kind, address.root)
    if address.account is not None:
        settings["account_name"] = address.account
    with _explained(address.root, address.kind):
        store = make(address.bucket, config=settings, client_options=_CLIENT, retry_config=_RETRIES)
    return ObjectStore(address, store, is_amazon=address.kind == "s3" and is_amazon(settings))


class ObjectStore:
    """One bucket, for any number of threads."""

    def __init__(self, address: Address, store: Any, *, is_amazon: bool = False):
        self._is_amazon = is_amazon
        self._kind = address.kind
        self._root = address.root
        self._store = store
        self._has_answered = False
        self.lists_in_order = not address.bucket.endswith(_NO_ORDER)

    def read(self, uri: str, start: int, end: int | None) -> bytes:
        """A file or a part of it."""
        import obstore

        wanted: Any = {"offset": start} if end is None else (start, end)
        options: Any = {"range": wanted} if start or end is not None else {}
        file = self._store, self._name(uri)
        with _explained(uri, self._kind):
            try:
                return self._ask(lambda: bytes(obstore.get(*file, options=options).bytes()))
            except obstore.exceptions.GenericError:
                if options and self.stat(uri)[0] <= start:
                    return b""  # Stores refuse a part that begins after the end.
                raise

    def stat(self, uri: str) -> tuple[int, float]:
        """A file's size in bytes, and its time of change in seconds."""
        import obstore

        with _explained(uri, self._kind):
            found = self._ask(obstore.head, self._store, self._name(uri))
        return found["size"], found["last_modified"].timestamp()

    def list_below(self, folder: str) -> Iterator[tuple[str, int, float]]:
        """All files below a folder, in the store's order."""
        empty: list[str] = []
        with _explained(folder, self._kind):
            for item in self._list_items(self._name(folder)):
                uri, size_bytes = self._root + item["path"], item["size"]
                empty = [name for name in empty if uri.startswith(name)]
                if size_bytes == 0:
                    if uri in empty or self._is_marker(uri):
                        continue
                    empty.append(uri)
                yield uri, size_bytes, item["last_modified"].timestamp()

    def _list_items(self, prefix: str) -> Iterator[Any]:
        if self._is_amazon:
            return list_files(self._list_pages, prefix)
        return itertools.chain.from_iterable(self._list_pages(prefix))

    def _is_marker(self, uri: str) -> bool:
        """Whether it is "folder/", which a store's browser leaves: obstore cuts off the slash.

        Then there is no such file, or one that has a size and is listed by itself.
        """
        try:
            return self.stat(uri)[0] > 0
        except FileNotFoundError:
            return True

    def _list_pages(self, prefix: str, last: str | None = None) -> Iterator[Sequence[Any]]:
        """The pages below a folder, from behind a name on."""
        import obstore

        pages: Any = None

        def take() -> Sequence[Any] | None:
            nonlocal pages
            listed, pages = pages, None  # None after an error: then a new list goes on.
            if listed is None:
                listed = obstore.list(self._store, prefix, offset=last, chunk_size=_PAGE_FILES)
            page = next(listed, None)
            pages = listed
            return page

        while page := self._ask(take):
            yield page
            last = page[-1]["path"]

    def put(self, uri: str, file: BinaryIO) -> None:
        """Sends a file; a large one in parts, and it is there when all of them are."""
        import obstore

        def send() -> None:
            file.seek(0)
            obstore.put(
                self._store,
                self._name(uri),
                file,
                chunk_size=_PART_BYTES,
                max_concurrency=_PARTS_AT_ONCE,
            )

        with _explained(uri, self._kind):
            self._ask(send)

    def delete(self, uris: Sequence[str]) -> None:
        """Deletes files, many by one request; those that are not there are left out."""
        import obstore

        names = [self._name(uri) for uri in uris]
        with _explained(uris[0], self._kind):
            try:
                self._ask(obstore.delete, self._store, names)
            except FileNotFoundError:  # Azure does not say which one.
                for name in names:
                    with contextlib.suppress(FileNotFoundError):
                        self._ask(obstore.delete, self._store, name)

    def _ask(self, function: Callable, *args: Any) -> Any:
        """Calls obstore; only a store that has answered before is waited for if it is gone."""
        result = _ask(self._has_answered, function, *args)
        self._has_answered = True
        return result

    def _name(self, uri: str) -> str:
        return uri[len(self._root) :]


def _ask(has_answered: bool, function: Callable, *args: Any) -> Any:
    """Calls obstore. Ctrl-C reaches the main thread only while that waits in Python.

    Raises:
      UserError: in a fork, which has none of the threads that obstore began: it would wait forever.
    """
    if _first_process() != os.getpid():
        raise UserError(
            "s3:// and az:// cannot be read in a fork of a process that has done so; start "
            'processes by spawn: multiprocessing.get_context("spawn").'
        )
    call = functools.partial(_insist, has_answered, function, *args)
    is_main = threading.current_thread() is threading.main_thread()
    return start_thread(call).result() if is_main else call()


@functools.cache
def _first_process() -> int:
    """The process of the first request; a fork inherits the answer."""
    return os.getpid()


def _insist(has_answered: bool, function: Callable, *args: Any) -> Any:
    from obstore.exceptions import GenericError

    for wait_s in _WAITS_S:
        try:
            return function(*args)
        except GenericError as error:
            if not is_passing(str(error), has_answered):
                raise
            time.sleep(wait_s)
    return function(*args)


@contextlib.contextmanager
def _explained(uri: str, kind: str) -> Iterator[None]:
    """Makes errors of obstore's Python's; its messages' first lines are for people."""
    from obstore.exceptions import BaseError, InvalidPathError

    try:
        with _unpanicked(uri, kind):
            yield
    except (BaseError, FileNotFoundError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        if isinstance(error, FileNotFoundError) or "404 Not Found" in reason:
            raise FileNotFoundError(errno.ENOENT, "no such file or bucket", uri) from error
        if isinstance(error, InvalidPathError | ValueError):
            raise UserError(f"{uri}: {reason}; rename it, or use another folder.") from error
        if known := explain_refusal(uri, kind, str(error)):
            raise known from error
        raise OSError(reason) from error


@contextlib.contextmanager
def _unpanicked(uri: str, kind: str) -> Iterator[None]:
    """Makes an error of Rust's panic, which no `except Exception` would catch.

    Obstore panics where an address or a header cannot be made of what it was given.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        names = ", ".join(list_variables(kind))
        raise UserError(
            f"{uri}: no request can be made with this address and environment "
            f"({error}); check the bucket's name, and the values of {names or 'the environment'}."
        ) from error


# A file: its "path" in the bucket, its "size" in bytes, and "last_modified".
Item = Any
Page = Sequence[Item]
# The pages below a folder's name, from behind a name on, which need not be there.
ListPages = Callable[[str, str | None], Iterator[Page]]

_THREADS = 16
# Pages of one folder that one thread takes, one after another.
_BLOCK_PAGES = 8
# A folder takes a request of its own, so only where a page would hold this many or fewer.
_FOLDERS_A_PAGE = 4
_BEHIND_ALL = "/\U0010ffff"


def list_files(list_pages: ListPages, prefix: str) -> Iterator[Item]:
    """Lists all files below a folder, in the order of the names, some folders side by side.

    A page has 1,000 files, and the next one can only be asked for when the last one has come. But a
    list may begin behind any name: behind the last possible one of a folder, it begins with the
    next folder. So where folders are large, one request finds a folder and its first page, and
    threads take the other pages of some folders, a few at a time, whatever there is in all.

    Args:
      list_pages: asks for pages; they are in the order of the names.
      prefix: the folder's name, empty for the whole bucket.
    """
    pages = list_pages(prefix, None)
    first = next(pages, ())
    folders = {folder for item in first if (folder := _folder(item, prefix)) is not None}
    if (second := next(pages, None)) is None:
        yield from first
    elif 0 < len(folders) <= _FOLDERS_A_PAGE:
        yield from _list_by_folder(list_pages, prefix)
    else:
        yield from itertools.chain(first, second, itertools.chain.from_iterable(pages))


@dataclasses.dataclass(frozen=True)
class _Found:
    """Files that were met; or a folder, with its first files and the pages that go on with it."""

    items: Page
    folder: str = ""
    pages: Iterator[Page] | None = None


def _list_by_folder(list_pages: ListPages, prefix: str) -> Iterator[Item]:
    for found, pages in map_in_order(_take_pages, _find(list_pages, prefix), _THREADS, ahead=1):
        if any(_folder(item, found.folder) is not None for item in found.items if found.folder):
            yield from list_files(list_pages, found.folder)  # It has folders itself.
            continue
        yield from itertools.chain(found.items, itertools.chain.from_iterable(pages))
        if len(pages) == _BLOCK_PAGES:
            yield from itertools.chain.from_iterable(_pages_of(found))


def _find(list_pages: ListPages, prefix: str) -> Iterator[_Found]:
    """Goes from folder to folder, a request each."""
    pages = list_pages(prefix, None)
    while page := next(pages, None):
        folder = _folder(page[-1], prefix)
        if folder is None:
            yield _Found(page)
            continue
        inside = [item for item in page if _folder(item, prefix) == folder]
        yield _Found(page[: len(page) - len(inside)])
        yield _Found(inside, folder, pages)
        pages = list_pages(prefix, folder + _BEHIND_ALL)


def _take_pages(found: _Found) -> tuple[_Found, list[Page]]:
    """Some further pages of a folder."""
    return found, list(itertools.islice(_pages_of(found), _BLOCK_PAGES))


def _pages_of(found: _Found) -> Iterator[Page]:
    """The pages that go on with a folder, up to its end."""
    for page in found.pages or ():
        inside = [item for item in page if item["path"].startswith(f"{found.folder}/")]
        yield inside
        if len(inside) < len(page):
            return


def _folder(item: Item, prefix: str) -> str | None:
    """The folder below a prefix that a file is in; None if it is in no further one."""
    start = len(prefix) + 1 if prefix else 0
    end = item["path"].find("/", start)
    return None if end < 0 else item["path"][:end]
