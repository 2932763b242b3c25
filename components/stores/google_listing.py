"""Lists what lies below a folder of Google's store, in the order of the names, holding little.

A page has 1,000 files, and the next one can only be asked for when the last one has come. So the
folders of a large folder are listed side by side: each thread takes some pages of one folder, and
what is held are these pages, whatever there is in all.
"""

import concurrent.futures
import datetime
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from image_pipeline.components.threads import map_in_order

# A file's name in its bucket, its size in bytes, and its time of change in seconds since 1970.
Listed = tuple[str, int, float]
# Gives a page of a list: the store's own JSON, for the parameters of its `objects.list`.
ListPage = Callable[..., dict[str, Any]]

_THREADS = 16
# Pages of one folder that one thread takes, one after another.
_BLOCK_PAGES = 8
# A folder takes a request of its own, so only where a page would hold this many or fewer.
_FOLDERS_A_PAGE = 4
_FIELDS = "items(name,size,updated),prefixes,nextPageToken"


def list_files(list_page: ListPage, prefix: str) -> Iterator[Listed]:
    """Lists all files whose names begin with a prefix, in the order of the names.

    Args:
      list_page: asks for one page.
      prefix: empty, or ending with a slash.
    """
    return _list_from(list_page, prefix, _ask(list_page, prefix))


def _list_from(list_page: ListPage, prefix: str, page: dict[str, Any]) -> Iterator[Listed]:
    """Lists all, given the first page, which tells by which way."""
    names = [item["name"][len(prefix) :] for item in page.get("items", [])]
    folders = {name.partition("/")[0] for name in names if "/" in name}
    if "nextPageToken" in page and 0 < len(folders) <= _FOLDERS_A_PAGE:
        yield from _list_by_folder(list_page, prefix)
    else:
        yield from _list_on(list_page, prefix, page)


def _list_on(list_page: ListPage, prefix: str, page: dict[str, Any]) -> Iterator[Listed]:
    """Lists from a page on; the next one is asked for while this one is used."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        while token := page.get("nextPageToken"):
            coming = pool.submit(_ask, list_page, prefix, pageToken=token)
            yield from _read_items(page)
            page = coming.result()
    yield from _read_items(page)


def _list_by_folder(list_page: ListPage, prefix: str) -> Iterator[Listed]:
    """Lists the folders of a folder side by side.

    All names of one folder are next to each other: where the folder's own name stands among those
    of the files beside it, its files stand.
    """
    page: dict[str, Any] = {"nextPageToken": ""}
    while (token := page.get("nextPageToken")) is not None:
        page = _ask(list_page, prefix, delimiter="/", pageToken=token)
        files = {listed[0]: listed for listed in _read_items(page)}
        folders = page.get("prefixes", [])
        take = functools.partial(_take_pages, list_page)
        pages = map_in_order(take, sorted(folders), _THREADS, ahead=1)
        for name in sorted([*files, *folders]):
            if name in files:
                yield files[name]
            else:
                yield from _list_pages(list_page, name, next(pages))


def _take_pages(list_page: ListPage, prefix: str) -> list[dict[str, Any]]:
    """The first pages of a folder; one, if it has folders itself."""
    pages = [_ask(list_page, prefix)]
    if any("/" in item["name"][len(prefix) :] for item in pages[0].get("items", [])):
        return pages
    while (token := pages[-1].get("nextPageToken")) and len(pages) < _BLOCK_PAGES:
        pages.append(_ask(list_page, prefix, pageToken=token))
    return pages


def _list_pages(list_page: ListPage, prefix: str, pages: list[dict[str, Any]]) -> Iterator[Listed]:
    """Lists a folder of which the first pages are there."""
    if len(pages) == 1:
        yield from _list_from(list_page, prefix, pages[0])
        return
    for page in pages[:-1]:
        yield from _read_items(page)
    yield from _list_on(list_page, prefix, pages[-1])


def _ask(list_page: ListPage, prefix: str, **more: str) -> dict[str, Any]:
    return list_page(prefix=prefix, fields=_FIELDS, **more)


def _read_items(page: dict[str, Any]) -> Iterator[Listed]:
    for item in page.get("items", []):
        yield item["name"], *read_stat(item)


def read_stat(item: Mapping[str, str]) -> tuple[int, float]:
    """Size in bytes and time of change in seconds of what the store says of a file."""
    return int(item["size"]), datetime.datetime.fromisoformat(item["updated"]).timestamp()
