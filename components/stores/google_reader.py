"""Reads and lists files of Google's store by urllib3, with half of its own client's CPU time.

That client is built on requests: 0.9 ms to read a photo of 110 kB, most of it with Python's lock,
for which the threads that decode wait, too. Google's own transport for urllib3 takes 0.4 ms.
"""

import base64
import json
import os
import re
import urllib.parse
from typing import Any

# Further tries of a request that the store cannot answer now: at once, then after 2, 4, 8, …
# seconds, and up to one more, so that not all threads come back together.
_RETRIES = 6
_RETRIED = (408, 429, 500, 502, 503, 504)
_ANSWER_TIMEOUT_S = 60.0
_NOTHING_THERE = 416
_CRC32C = re.compile(r"crc32c=([\w+/]+=*)")


class GoogleReader:
    """Reads files with the credentials of a client, through the environment's proxy if it has one.

    Threads may share it: each that reads has a connection of its own, which is kept.
    """

    def __init__(self, client: Any, connections: int):
        """Connects with the first request.

        Args:
          client: Google's, of its store.
          connections: how many are kept.
        """
        from google.auth.transport.requests import Request
        from google.auth.transport.urllib3 import AuthorizedHttp

        pool = _make_pool(client.api_endpoint, connections)
        self._http = AuthorizedHttp(client._credentials, pool)
        # Tokens come from elsewhere, maybe not by this proxy.
        self._http._request = Request()  # type: ignore[assignment]
        self._buckets = f"{client.api_endpoint}/download/storage/v1/b"
        self._lists = f"{client.api_endpoint}/storage/v1/b"

    def read(self, bucket: str, name: str, start: int, end: int | None) -> bytes:
        """Reads a file, or a part of it that may reach over its end, by one request.

        Args:
          bucket: that the file is in.
          name: of the file.
          start: first byte.
          end: the byte before which the part ends; None for the file's end.

        Raises:
          GoogleAPICallError: if the store refuses; `code` is HTTP's.
          OSError: if what arrived is not what the store has.
        """
        if end is not None and end <= start:
            return b""
        headers = {"Accept-Encoding": "gzip"}  # As it is stored, or the store would unpack it.
        is_part = start > 0 or end is not None
        if is_part:
            headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        url = f"{self._buckets}/{bucket}/o/{urllib.parse.quote(name, safe='')}?alt=media"
        answer = self._http.request("GET", url, headers=headers, decode_content=False)
        if is_part and answer.status == _NOTHING_THERE:
            return b""
        _check_status(answer)
        if not is_part:  # The store knows the checksum of whole files.
            _check(answer.data, answer.headers.get("x-goog-hash", ""))
        return answer.data

    def list_page(self, bucket: str, **parameters: str) -> dict[str, Any]:
        """Asks for a page of the list of a bucket's files: JSON, see the store's `objects.list`.

        Raises:
          GoogleAPICallError: if the store refuses; `code` is HTTP's.
        """
        url = f"{self._lists}/{bucket}/o?{urllib.parse.urlencode(parameters)}"
        answer = self._http.request("GET", url)
        _check_status(answer)
        return json.loads(answer.data)


def _make_pool(url: str, connections: int) -> Any:
    """urllib3's connections to a host, as requests would make them in this environment."""
    import requests
    import urllib3

    adapter = requests.adapters.HTTPAdapter(pool_maxsize=connections)
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
