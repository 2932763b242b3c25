"""Google's store by its own client, and what is asked most often by urllib3 with half of its CPU.

Google's client is built on requests: 0.9 ms to read a photo of 110 kB, most of it with Python's
lock, for which the threads that decode wait, too. Google's own transport for urllib3 takes 0.4 ms.
"""

import base64
import concurrent.futures
import contextlib
import datetime
import functools
import io
import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode

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
# Connections that are kept: as many as threads read at once.
_CONNECTIONS = 256
# Further tries of a request that the store cannot answer now: at once, then after 2, 4, 8, …
# seconds, and up to one more, so that not all threads come back together.
_RETRIES = 6
_RETRIED = (408, 429, 500, 502, 503, 504)
# For so long Google's own client sends a write or a delete again.
_RETRY_S = 120
_ANSWER_TIMEOUT_S = 60.0
# What is sent at once of a large file; Google wants a multiple of 256 KiB.
_PART_BYTES = 8 * 2**20
# Google deletes so many files by one request.
_BATCH_FILES = 100
_CRC32C = re.compile(r"crc32c=([\w+/]+=*)")


@functools.lru_cache(1)
def open_google(beam_options: Any) -> "GoogleStore":
    """The store with the credentials that Beam's options lead to; one is kept."""
    from apache_beam.io.gcp.gcsio import create_storage_client

    with _quiet_attempts():
        return GoogleStore(create_storage_client(beam_options))


@contextlib.contextmanager
def _quiet_attempts() -> Iterator[None]:
    """Without a traceback for each attempt to find credentials.

    A public bucket needs none. If there are none, Beam says so once, after the last attempt.
    """
    loggers = [logging.getLogger(name) for name in ("apache_beam.utils.retry", "google.auth")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


class GoogleStore:
    """All buckets that a client of Google's may use, for any number of threads."""

    lists_in_order = True

    def __init__(self, client: Any):
        """Connects with the first request."""
        from google.auth.transport.requests import Request
        from google.auth.transport.urllib3 import AuthorizedHttp
        from google.cloud.storage.retry import DEFAULT_RETRY

        for scheme in ("https://", "http://"):
            client._http.mount(scheme, _make_adapter())
        self._client, self._address = client, client.api_endpoint
        self._retry = DEFAULT_RETRY.with_timeout(_RETRY_S)
        self._http = AuthorizedHttp(client._credentials, _make_pool(self._address))
        # Tokens come from elsewhere, maybe not by this proxy.
        self._http._request = Request()  # type: ignore[assignment]

    def read(self, uri: str, start: int, end: int | None) -> bytes:
        """A file or a part of it; the store knows the checksum of a whole one."""
        headers = {"Accept-Encoding": "gzip"}  # As it is stored, or the store would unpack it.
        is_part = start > 0 or end is not None
        if is_part:
            headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        answer = self._get(f"/download/storage/v1/{_quote(uri)}?alt=media", headers)
        if is_part and answer.status == 416:  # It begins after the end.
            return b""
        _check_status(answer)
        if not is_part:
            _check(answer.data, answer.headers.get("x-goog-hash", ""))
        return answer.data

    def stat(self, uri: str) -> tuple[int, float]:
        """A file's size in bytes, and its time of change in seconds."""
        answer = self._get(f"/storage/v1/{_quote(uri)}?fields=size,updated")
        _check_status(answer)
        return read_stat(json.loads(answer.data))

    def list_below(self, folder: str) -> Iterator[Listed]:
        """All files below a folder, in the order of their URIs."""
        bucket, prefix = _split(f"{folder.rstrip('/')}/")
        list_page = functools.partial(self._list_page, bucket)
        for name, size_bytes, changed_s in list_files(list_page, prefix):
            yield f"gs://{bucket}/{name}", size_bytes, changed_s

    def _list_page(self, bucket: str, **parameters: str) -> dict[str, Any]:
        answer = self._get(f"/storage/v1/b/{bucket}/o?{urlencode(parameters)}")
        _check_status(answer)
        return json.loads(answer.data)

    def _get(self, path: str, headers: dict[str, str] | None = None) -> Any:
        url = self._address + path
        return self._http.request("GET", url, headers=headers, decode_content=False)

    def put(self, uri: str, file: BinaryIO) -> None:
        """Sends a file with its checksum; a large one in parts, and it is there with the last."""
        bucket, name = _split(uri)
        self._client.bucket(bucket).blob(name, chunk_size=_PART_BYTES).upload_from_file(
            file, rewind=True, size=file.seek(0, io.SEEK_END), retry=self._retry
        )

    def delete(self, uris: Sequence[str]) -> None:
        """Deletes files, a hundred by one request; those that are not there are left out."""
        for first in range(0, len(uris), _BATCH_FILES):
            self._retry(self._delete_batch)(uris[first : first + _BATCH_FILES])

    def _delete_batch(self, uris: Sequence[str]) -> None:
        from google.api_core.exceptions import from_http_response

        with self._client.batch(raise_exception=False) as batch:
            for bucket, name in map(_split, uris):
                self._client.bucket(bucket).delete_blob(name)
        for answer in batch._responses:
            if answer.status_code >= 400 and answer.status_code != 404:
                raise from_http_response(answer)


def _split(uri: str) -> tuple[str, str]:
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    return bucket, name


def _quote(uri: str) -> str:
    """The file's address below the store's interface."""
    bucket, name = _split(uri)
    return f"b/{bucket}/o/{quote(name, safe='')}"


def _make_adapter() -> Any:
    from requests.adapters import HTTPAdapter

    return HTTPAdapter(pool_maxsize=_CONNECTIONS)


def _make_pool(url: str) -> Any:
    """urllib3's connections to a host, as requests would make them in this environment."""
    import requests
    import urllib3

    adapter = _make_adapter()
    found = requests.Session().merge_environment_settings(url, {}, None, None, None)
    proxy = requests.utils.select_proxy(url, found["proxies"])
    pool = adapter.proxy_manager_for(proxy) if proxy else adapter.poolmanager
    trusted = requests.certs.where() if found["verify"] is True else found["verify"]
    pool.connection_pool_kw |= {
        "cert_reqs": "CERT_REQUIRED",
        "ca_cert_dir" if os.path.isdir(trusted) else "ca_certs": trusted,
        "timeout": urllib3.Timeout(_ANSWER_TIMEOUT_S),
        "retries": urllib3.Retry(
            _RETRIES,
            backoff_factor=1,
            backoff_jitter=1,
            status_forcelist=_RETRIED,
            raise_on_status=False,
        ),
    }
    return pool


def _check_status(answer: Any) -> None:
    from google.api_core.exceptions import from_http_status

    if answer.status not in (200, 206):
        reason = answer.data.decode(errors="replace") or str(answer.reason)
        raise from_http_status(answer.status, reason)


def _check(data: bytes, hashes: str) -> None:
    import google_crc32c

    expected = _CRC32C.search(hashes)
    found = base64.b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode()
    if expected and expected[1] != found:
        raise OSError(f"{len(data)} bytes arrived with CRC-32C {found}, not {expected[1]}")


def list_files(list_page: ListPage, prefix: str) -> Iterator[Listed]:
    """Lists all files whose names begin with a prefix, in the order of the names, holding little.

    A page has 1,000 files, and the next one can only be asked for when the last one has come. So
    the folders of a large folder are listed side by side: each thread takes some pages of one
    folder, and what is held are these pages, whatever there is in all.
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
