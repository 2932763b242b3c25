"""Requests to the store and its answers, as far as HTTP is not concerned."""

import dataclasses
import email.message
import email.parser
import json
import urllib.parse
from collections.abc import Mapping


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


def say(content: object, status: int = 200) -> Answer:
    """An answer in JSON."""
    body = json.dumps(content).encode()
    return Answer(status, body, {"Content-Type": "application/json"})


def refuse(status: int, message: str) -> Answer:
    """An answer in JSON that says what is wrong."""
    return say({"error": {"code": status, "message": message}}, status)


def read_parts(content_type: str, body: bytes) -> list[email.message.Message]:
    """The parts of a body of several."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    return email.parser.BytesParser().parsebytes(head + body).get_payload()
