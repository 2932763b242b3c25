"""Lists what lies below a folder of S3 in the order of the names, some folders side by side.

A page has 1,000 files, and the next one can only be asked for when the last one has come. But a
list may begin behind any name: behind the last possible one of a folder, it begins with the next
folder. So where folders are large, one request finds a folder and its first page, and threads take
the other pages of some folders, a few at a time, whatever there is in all.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from image_pipeline.components.threads import map_in_order

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
    """Lists all files below a folder, in the order of the names.

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
