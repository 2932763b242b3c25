"""How objects come into the store: as a body, as one of two parts of a body, or part by part."""

import json
import re
import urllib.parse
from collections.abc import Mapping
from http import HTTPStatus

from tests.object_store.bucket import Bucket, Object
from tests.object_store.messages import Answer, Request, read_parts, refuse, say

_PART = re.compile(r"bytes (?:(?P<start>\d+)-\d+|\*)/(?:(?P<total>\d+)|\*)")


def upload(bucket: Bucket, request: Request) -> Answer:
    """Takes an object or a part of it, or begins an upload in parts."""
    if "upload_id" in request.query:
        return _take_part(bucket, request)
    content_type = request.headers.get("Content-Type", "application/octet-stream")
    match (request.method, request.query.get("uploadType")):
        case ("POST", "media"):
            return _write(bucket, {}, request.query, request.body, content_type)
        case ("POST", "multipart"):
            described, content = read_parts(content_type, request.body)
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
    return refuse(400, "Uploads are media, multipart or resumable.")


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
        return refuse(400, f"Provided CRC32C {meta['crc32c']} does not match {sent.crc32c}.")
    return say(bucket.write(name, content, content_type).describe(bucket.name))


def _take_part(bucket: Bucket, request: Request) -> Answer:
    """Takes a part of an upload, says how much has come, or forgets the upload."""
    begun = bucket.find_upload(request.query["upload_id"])
    if begun is None:
        return refuse(404, "No such upload.")
    if request.method == "DELETE":
        bucket.abandon_upload(request.query["upload_id"])
        return Answer(499)
    content_range = request.headers.get("Content-Range")
    if content_range is None:
        bucket.take_part(begun, 0, request.body, len(request.body))
    elif part := _PART.fullmatch(content_range):
        total = None if part["total"] is None else int(part["total"])
        start = len(begun.received) if part["start"] is None else int(part["start"])
        bucket.take_part(begun, start, request.body, total)
    else:
        return refuse(400, f"Content-Range: {content_range} cannot be read.")
    if begun.finished is not None:
        return say(begun.finished.describe(bucket.name))
    last = len(begun.received) - 1
    headers = {"Range": f"bytes=0-{last}"} if last >= 0 else {}
    return Answer(HTTPStatus.PERMANENT_REDIRECT, headers=headers)  # Here: "resume incomplete".
