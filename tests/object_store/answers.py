"""What Google's store answers to a request: the part of its JSON interface that clients here use.

Written after https://cloud.google.com/storage/docs/json_api and what Beam's, Google's and
TensorFlow's clients send. Whatever it does not know is answered with 501, so that it is seen.
"""

import dataclasses
import email
import re
from collections.abc import Mapping
from http import HTTPStatus

from tests.object_store import amazon
from tests.object_store.bucket import PAGE_OBJECTS, Bucket, Object
from tests.object_store.messages import Answer, Request, read_parts, read_request, refuse, say
from tests.object_store.uploads import upload

_RANGE = re.compile(r"bytes=(?P<start>\d+)-(?P<end>\d*)")
_BOUNDARY = "an-answer"


def kind_of(request: Request) -> str:
    """What a request is about, in one word."""
    if amazon.is_amazon_s(request):
        return amazon.kind_of(request)
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
    if amazon.is_amazon_s(request) and (given := amazon.answer(bucket, request)):
        return given
    match (request.method, *request.names):
        case ("POST", "batch", "storage", "v1"):
            return _answer_batch(bucket, request)
        case (_, "storage" | "upload", "v1", "b", name, *_) if name != bucket.name:
            return refuse(404, "The specified bucket does not exist.")
        case (_, "upload" | "download", "storage", "v1", "b", name, *_) if name != bucket.name:
            return refuse(404, "The specified bucket does not exist.")
        case ("GET", "storage", "v1", "b", name):
            return say({"kind": "storage#bucket", "id": name, "name": name, "location": "US"})
        case ("GET", "storage", "v1", "b", _, "storageLayout"):
            return say({"location": "US", "hierarchicalNamespace": {"enabled": False}})
        case ("GET", "storage", "v1", "b", _, "o"):
            return _list(bucket, request)
        case ("DELETE", "storage", "v1", "b", _, "o", name):
            return Answer(204) if bucket.delete(name) else refuse(404, f"No such object: {name}")
        case ("POST", "storage", "v1", "b", _, "o", name, "rewriteTo" | "copyTo" as how, *target):
            return _copy(bucket, name, target, how)
        case (_, "upload", "storage", "v1", "b", _, "o"):
            return upload(bucket, request)
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
            return refuse(404, "The specified bucket does not exist.")
    return refuse(501, f"This store does not know {request.method} {request.names}.")


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
    return say(content)


def _give(bucket: Bucket, name: str, request: Request, whole: bool) -> Answer:
    """An object's content, or what is known about it."""
    found = bucket.find(name)
    if found is None or request.query.get("generation", str(found.generation)) != str(
        found.generation
    ):
        return refuse(404, f"No such object: {bucket.name}/{name}")
    if not whole:
        return say(found.describe(bucket.name))
    headers = amazon.describe(found) | {
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
        refused = refuse(416, "The requested range cannot be satisfied.")
        return dataclasses.replace(
            refused, headers={**refused.headers, "Content-Range": f"bytes */{size}"}
        )
    part = found.content[start : int(last) + 1 if last else None]
    content_range = f"bytes {start}-{start + len(part) - 1}/{size}"
    return Answer(206, part, {**headers, "Content-Range": content_range})


def _copy(bucket: Bucket, name: str, target: list[str], how: str) -> Answer:
    found = bucket.find(name)
    if found is None or target[:3:2] != ["b", "o"] or target[1] != bucket.name:
        return refuse(404, f"No such object: {name}")
    copied = bucket.write(target[3], found.content, found.content_type).describe(bucket.name)
    if how == "copyTo":
        return say(copied)
    size = str(len(found.content))
    return say(
        {
            "kind": "storage#rewriteResponse",
            "totalBytesRewritten": size,
            "objectSize": size,
            "done": True,
            "resource": copied,
        }
    )


def _answer_batch(bucket: Bucket, request: Request) -> Answer:
    """Answers several requests in one."""
    parts = []
    for sent in read_parts(request.headers["Content-Type"], request.body):
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
