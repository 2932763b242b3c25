"""The same bucket as Amazon's store answers for it: the part of S3 that obstore uses.

Written after https://docs.aws.amazon.com/AmazonS3/latest/API. Signatures are not checked, but what
was signed: a body that is not what its SHA-256 says is refused.
"""

import datetime
import email.utils
import hashlib
import re
from html import unescape
from xml.sax.saxutils import escape

from tests.object_store.bucket import PAGE_OBJECTS, Bucket, Object
from tests.object_store.messages import Answer, Request

_GOOGLE_S = ("storage", "upload", "download", "batch")


def is_amazon_s(request: Request) -> bool:
    """Tells whether a request is one of S3's: signed, and by the bucket's name alone."""
    return "x-amz-content-sha256" in request.headers and request.names[0] not in _GOOGLE_S


def kind_of(request: Request) -> str:
    """What a request is about, in one word."""
    if "delete" in request.query or (request.method == "DELETE" and request.names[1:]):
        return "delete"
    kinds = {"PUT": "upload", "POST": "upload", "HEAD": "stat", "DELETE": "upload"}
    return "list" if "list-type" in request.query else kinds.get(request.method, "read")


def answer(bucket: Bucket, request: Request) -> Answer | None:
    """Answers a request; None for what Google's store answers alike."""
    name = "/".join(request.names[1:])
    found = bucket.find(name)
    if request.names[0] != bucket.name:
        return _say("<Error><Code>NoSuchBucket</Code></Error>", 404)
    if hashlib.sha256(request.body).hexdigest() != request.headers["x-amz-content-sha256"]:
        return _say("<Error><Code>XAmzContentSHA256Mismatch</Code></Error>", 400)
    match (request.method, *(key for key in request.query if key in ("uploads", "uploadId"))):
        case ("GET",):
            return _list(bucket, request) if "list-type" in request.query else None
        case ("HEAD",):
            return Answer(404) if found is None else Answer(200, found.content, describe(found))
        case ("PUT" | "POST" | "DELETE", "uploads" | "uploadId"):
            return _take_part(bucket, name, request)
        case ("PUT",):
            return Answer(200, headers=describe(bucket.write(name, request.body, "")))
        case ("POST",) if "delete" in request.query:
            keys = re.findall("<Key>(.*?)</Key>", request.body.decode())
            for key in keys:  # One that is not there counts as deleted.
                bucket.delete(unescape(key))
            deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            return _say(f"<DeleteResult>{deleted}</DeleteResult>")
    return _say("<Error><Code>NotImplemented</Code></Error>", 501)


def describe(found: Object) -> dict[str, str]:
    """The headers that S3 has of an object, and Google's store, too."""
    changed = datetime.datetime.fromisoformat(found.updated)
    return {
        "ETag": f'"{found.generation}"',
        "Last-Modified": email.utils.format_datetime(changed, usegmt=True),
    }


def _list(bucket: Bucket, request: Request) -> Answer:
    query = request.query
    first = query.get("continuation-token", "")
    page = bucket.list_page(query.get("prefix", ""), "", first, PAGE_OBJECTS)
    lines = [
        f"<Contents><Key>{escape(each.name)}</Key><Size>{len(each.content)}</Size>"
        f"<LastModified>{each.updated}</LastModified></Contents>"
        for each in page.objects
    ]
    if page.next_name is not None:
        token = escape(page.next_name)
        lines.append(f"<NextContinuationToken>{token}</NextContinuationToken>")
    return _say(f"<ListBucketResult>{''.join(lines)}</ListBucketResult>")


def _take_part(bucket: Bucket, name: str, request: Request) -> Answer:
    """Begins an upload in parts, takes one of them, makes them an object, or forgets them."""
    upload_id = request.query.get("uploadId", "")
    if "uploads" in request.query:
        begun = f"<UploadId>{bucket.begin_upload(name, '')}</UploadId>"
        return _say(f"<InitiateMultipartUploadResult>{begun}</InitiateMultipartUploadResult>")
    begun = bucket.find_upload(upload_id)
    if begun is None:
        return Answer(404)
    if request.method == "PUT":
        begun.parts[int(request.query["partNumber"])] = request.body
        return Answer(200, headers={"ETag": f'"{request.query["partNumber"]}"'})
    if request.method == "DELETE":
        bucket.abandon_upload(upload_id)
        return Answer(204)
    content = b"".join(part for _, part in sorted(begun.parts.items()))
    begun.finished = begun.finished or bucket.write(name, content, "")
    tag = f"<ETag>{begun.finished.generation}</ETag>"
    return _say(f"<CompleteMultipartUploadResult>{tag}</CompleteMultipartUploadResult>")


def _say(xml: str, status: int = 200) -> Answer:
    return Answer(status, xml.encode(), {"Content-Type": "application/xml"})
