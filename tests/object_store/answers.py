"""What Google's store answers to a request: the part of its JSON interface that clients here use.

Written after https://cloud.google.com/storage/docs/json_api and what Beam's, Google's and
TensorFlow's clients send. Whatever it does not know is answered with 501, so that it is seen.
"""

import dataclasses
import email.message
import email.parser
import json
import re
import urllib.parse
from collections.abc import Mapping
from http import HTTPStatus

from tests.object_store.bucket import PAGE_OBJECTS, Bucket, Object

_PART = re.compile(r"bytes (?:(?P<start>\d+)-\d+|\*)/(?:(?P<total>\d+)|\*)")
_RANGE = re.compile(r"bytes=(?P<start>\d+)-(?P<end>\d*)")
_BOUNDARY = "an-answer"


@dataclasses.dataclass(frozen=True)
class Request:
    """A request; `names` are the parts of its path, decoded, and `base` is where links lead."""

    method: str
    names: list[str]
    query: Mapping[str, str]
    headers: email.message.Message
    body: bytes
    base: str


@dataclasses.dataclass(frozen=True)
class Answer:
    """An answer; its length goes without saying."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


def read_request(
    method: str, url: str, headers: email.message.Message, body: bytes, base: str
) -> Request:
    """Reads a request's path and query."""
    split = urllib.parse.urlsplit(url)
    names = [urllib.parse.unquote(name) for name in split.path.removeprefix("/").split("/")]
    query = dict(urllib.parse.parse_qsl(split.query, keep_blank_values=True))
    return Request(method, names, query, headers, body, base)


def kind_of(request: Request) -> str:
    """What a request is about, in one word."""
    match (request.method, *request.names):
        case (_, "upload", *_):
            return "upload"
        case (_, "batch", *_) | ("DELETE", *_):
            return "delete"
        case ("GET", "storage", "v1", "b", _, "o"):
            return "list"
        case ("GET", "storage", "v1", "b", _, "o", _) if "alt" not in request.query:
            return "stat"
        case ("GET", "storage", "v1", "b", _) | ("GET", "storage", "v1", "b", _, "storageLayout"):
            return "bucket"
        case (_, "storage", "v1", "b", _, "o", _, "rewriteTo" | "copyTo", *_):
            return "copy"
    return "read"


def answer(bucket: Bucket, request: Request) -> Answer:
    """Answers a request, with 404 if it is about another bucket."""
    match (request.method, *request.names):
        case ("POST", "batch", "storage", "v1"):
            return _answer_batch(bucket, request)
        case (_, "storage" | "upload", "v1", "b", name, *_) if name != bucket.name:
            return _refuse(404, "The specified bucket does not exist.")
        case (_, "upload" | "download", "storage", "v1", "b", name, *_) if name != bucket.name:
            return _refuse(404, "The specified bucket does not exist.")
        case ("GET", "storage", "v1", "b", name):
            return _say({"kind": "storage#bucket", "id": name, "name": name, "location": "US"})
        case ("GET", "storage", "v1", "b", _, "storageLayout"):
            return _say({"location": "US", "hierarchicalNamespace": {"enabled": False}})
        case ("GET", "storage", "v1", "b", _, "o"):
            return _list(bucket, request)
        case ("DELETE", "storage", "v1", "b", _, "o", name):
            return Answer(204) if bucket.delete(name) else _refuse(404, f"No such object: {name}")
        case ("POST", "storage", "v1", "b", _, "o", name, "rewriteTo" | "copyTo" as how, *target):
            return _copy(bucket, name, target, how)
        case (_, "upload", "storage", "v1", "b", _, "o"):
            return _upload(bucket, request)
        case ("GET", "storage", "v1", "b", _, "o", name) | (
            "GET",
            "download",
            "storage",
            "v1",
            "b",
            _,
            "o",
            name,
        ):
            is_read = request.names[0] == "download" or request.query.get("alt") == "media"
            return _give(bucket, name, request, whole=is_read)
        case ("GET", name, *path) if name == bucket.name:
            return _give(bucket, "/".join(path), request, whole=True)
        case ("GET", name, *_) if name not in ("storage", "upload", "download", "batch"):
            return _refuse(404, "The specified bucket does not exist.")
    return _refuse(501, f"This store does not know {request.method} {request.names}.")


def _say(content: object, status: int = 200, **headers: str) -> Answer:
    body = json.dumps(content).encode()
    return Answer(status, body, {"Content-Type": "application/json"} | headers)


def _refuse(status: int, message: str) -> Answer:
    return _say({"error": {"code": status, "message": message}}, status)


def _list(bucket: Bucket, request: Request) -> Answer:
    query = request.query
    wanted = int(query.get("maxResults", PAGE_OBJECTS))
    page = bucket.list_page(
        query.get("prefix", ""),
        query.get("delimiter", ""),
        max(query.get("pageToken", ""), query.get("startOffset", "")),
        min(wanted, PAGE_OBJECTS),
    )
    content: dict[str, object] = {"kind": "storage#objects"}
    if page.objects:
        content["items"] = [each.describe(bucket.name) for each in page.objects]
    if page.folders:
        content["prefixes"] = page.folders
    if page.next_name is not None:
        content["nextPageToken"] = page.next_name
    return _say(content)


def _give(bucket: Bucket, name: str, request: Request, whole: bool) -> Answer:
    """An object's content, or what is known about it."""
    found = bucket.find(name)
    if found is None or request.query.get("generation", str(found.generation)) != str(
        found.generation
    ):
        return _refuse(404, f"No such object: {bucket.name}/{name}")
    if not whole:
        return _say(found.describe(bucket.name))
    headers = {
        "Content-Type": found.content_type,
        "X-Goog-Generation": str(found.generation),
        "X-Goog-Hash": f"crc32c={found.crc32c}",
    }
    asked = _RANGE.fullmatch(request.headers.get("Range", ""))
    if asked is None:
        return Answer(200, found.content, headers)
    return _give_part(found, int(asked["start"]), asked["end"], headers)


def _give_part(found: Object, start: int, last: str, headers: Mapping[str, str]) -> Answer:
    size = len(found.content)
    if start >= size:
        refused = _refuse(416, "The requested range cannot be satisfied.")
        return dataclasses.replace(
            refused, headers={**refused.headers, "Content-Range": f"bytes */{size}"}
        )
    part = found.content[start : int(last) + 1 if last else None]
    content_range = f"bytes {start}-{start + len(part) - 1}/{size}"
    return Answer(206, part, {**headers, "Content-Range": content_range})


def _copy(bucket: Bucket, name: str, target: list[str], how: str) -> Answer:
    found = bucket.find(name)
    if found is None or target[:3:2] != ["b", "o"] or target[1] != bucket.name:
        return _refuse(404, f"No such object: {name}")
    copied = bucket.write(target[3], found.content, found.content_type).describe(bucket.name)
    if how == "copyTo":
        return _say(copied)
    size = str(len(found.content))
    return _say(
        {
            "kind": "storage#rewriteResponse",
            "totalBytesRewritten": size,
            "objectSize": size,
            "done": True,
            "resource": copied,
        }
    )


def _upload(bucket: Bucket, request: Request) -> Answer:
    if "upload_id" in request.query:
        return _take_part(bucket, request)
    content_type = request.headers.get("Content-Type", "application/octet-stream")
    match (request.method, request.query.get("uploadType")):
        case ("POST", "media"):
            return _write(bucket, {}, request.query, request.body, content_type)
        case ("POST", "multipart"):
            described, content = _read_parts(content_type, request.body)
            data = content.get_payload(decode=True)
            meta = json.loads(described.get_payload(decode=True))
            return _write(bucket, meta, request.query, data, content.get_content_type())
        case ("POST", "resumable"):
            meta = json.loads(request.body or b"{}")
            name = request.query.get("name", meta.get("name"))
            content_type = request.headers.get("X-Upload-Content-Type", "application/octet-stream")
            query = urllib.parse.urlencode(
                {"uploadType": "resumable", "upload_id": bucket.begin_upload(name, content_type)}
            )
            where = f"{request.base}/upload/storage/v1/b/{bucket.name}/o?{query}"
            return Answer(200, headers={"Location": where})
    return _refuse(400, "Uploads are media, multipart or resumable.")


def _write(
    bucket: Bucket,
    meta: Mapping[str, str],
    query: Mapping[str, str],
    content: bytes,
    content_type: str,
) -> Answer:
    """Writes an object, unless it did not arrive as it was sent."""
    name = query.get("name", meta.get("name", ""))
    sent = Object(name, content, content_type, 0, "")
    if meta.get("crc32c", sent.crc32c) != sent.crc32c:
        return _refuse(400, f"Provided CRC32C {meta['crc32c']} does not match {sent.crc32c}.")
    return _say(bucket.write(name, content, content_type).describe(bucket.name))


def _take_part(bucket: Bucket, request: Request) -> Answer:
    """Takes a part of an upload, says how much has come, or forgets the upload."""
    upload = bucket.find_upload(request.query["upload_id"])
    if upload is None:
        return _refuse(404, "No such upload.")
    if request.method == "DELETE":
        bucket.abandon_upload(request.query["upload_id"])
        return Answer(499)
    content_range = request.headers.get("Content-Range")
    if content_range is None:
        bucket.take_part(upload, 0, request.body, len(request.body))
    elif part := _PART.fullmatch(content_range):
        total = None if part["total"] is None else int(part["total"])
        start = len(upload.received) if part["start"] is None else int(part["start"])
        bucket.take_part(upload, start, request.body, total)
    else:
        return _refuse(400, f"Content-Range: {content_range} cannot be read.")
    if upload.finished is not None:
        return _say(upload.finished.describe(bucket.name))
    last = len(upload.received) - 1
    headers = {"Range": f"bytes=0-{last}"} if last >= 0 else {}
    return Answer(HTTPStatus.PERMANENT_REDIRECT, headers=headers)  # Here: "resume incomplete".


def _answer_batch(bucket: Bucket, request: Request) -> Answer:
    """Answers several requests in one."""
    parts = []
    for sent in _read_parts(request.headers["Content-Type"], request.body):
        line, _, rest = str(sent.get_payload()).lstrip().partition("\n")
        method, url, _ = line.split(" ", 2)
        headers, _, body = rest.replace("\r\n", "\n").partition("\n\n")
        inner = read_request(
            method, url, email.message_from_string(headers), body.encode(), request.base
        )
        given = answer(bucket, inner)
        head = f"HTTP/1.1 {given.status} {HTTPStatus(given.status).phrase}"
        lines = [head, *(f"{name}: {value}" for name, value in given.headers.items()), "", ""]
        content = "\r\n".join(lines).encode() + given.body
        parts.append(b"Content-Type: application/http\r\n\r\n" + content)
    edge = f"--{_BOUNDARY}".encode()
    body = b"".join(edge + b"\r\n" + part + b"\r\n" for part in parts) + edge + b"--\r\n"
    return Answer(200, body, {"Content-Type": f"multipart/mixed; boundary={_BOUNDARY}"})


def _read_parts(content_type: str, body: bytes) -> list[email.message.Message]:
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    return email.parser.BytesParser().parsebytes(head + body).get_payload()
