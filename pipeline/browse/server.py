"""The page's server: for this machine only, behind a random token.

Three things keep other pages and other people out. It listens to the loopback address; every
address begins with a token that only its starter is told; and it answers only under this machine's
own names, so that no foreign name that is made to lead here (DNS rebinding) is answered. Records
are asked for by number, so no request names a file. Nothing that is sent takes more memory than
`MOST_SENT_BYTES`, nor more time to arrive than `_ARRIVES_WITHIN_S`, token or not.
"""

import contextlib
import hmac
import io
import json
import secrets
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import pydantic
from werkzeug.exceptions import HTTPException, MisdirectedRequest, NotFound, UnsupportedMediaType
from werkzeug.routing import Map, Rule
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler
from werkzeug.wrappers import Request, Response

from image_pipeline.browse.originals import NoOriginal
from image_pipeline.browse.session import Session, read_asset
from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import describe_error

HOST = "127.0.0.1"
MOST_SENT_BYTES = 2**17
"""Of a request: its line, its headers and its body. A page's are below 4 kB."""
_NAMES = (HOST, "localhost")
_ARRIVES_WITHIN_S = 30.0
# An original of 100 MB through a forwarded port of 1 MB/s.
_SENT_WITHIN_S = 300.0
# Browsers open 6 to 8 connections to one address.
_MOST_CONNECTIONS = 64
_MOST_MARKED_AT_ONCE = 1000
_SAFETY = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self' data:; style-src 'self'; "
    "script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_ASSETS = {"page.css": "text/css", "page.js": "text/javascript"}
_URLS = Map(
    [
        Rule("/", endpoint="page", methods=["GET"]),
        Rule("/<any('page.css', 'page.js'):name>", endpoint="asset", methods=["GET"]),
        Rule("/search", endpoint="search", methods=["GET"]),
        Rule("/record/<int:number>", endpoint="record", methods=["GET"]),
        Rule("/record/<int:number>/views", endpoint="views", methods=["GET"]),
        Rule("/record/<int:number>/<name>.picture", endpoint="picture", methods=["GET"]),
        Rule("/mark", endpoint="mark", methods=["POST"]),
    ]
)


class MarkRequest(pydantic.BaseModel):
    """What the page sends to mark records."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    numbers: Annotated[list[int], pydantic.Field(max_length=_MOST_MARKED_AT_ONCE)]
    marked: bool


class App:
    """The WSGI application."""

    def __init__(self, session: Session, token: str):
        """Takes what is looked at, and what every address begins with."""
        self._session, self._token = session, token
        self.is_open = threading.Event()
        self._answers: dict[str, Callable[..., Response]] = {
            "page": self._open,
            "asset": lambda request, name: _text(read_asset(name), _ASSETS[name]),
            "search": lambda request: _json(session.search(request.args.to_dict())),
            "record": lambda request, number: _json(session.describe(number)),
            "views": self._list_views,
            "picture": self._draw,
            "mark": self._mark,
        }

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        """Answers a request."""
        response = self._answer(Request(environ))
        response.headers.extend(_SAFETY)
        return response(environ, start_response)

    def _answer(self, request: Request) -> Response:
        try:
            path = self._check(request)
            urls = _URLS.bind(HOST, path_info=path, default_method=request.method)
            endpoint, values = urls.match()
            return self._answers[endpoint](request, **values)
        except HTTPException as error:
            return _refuse(error.description or error.name, error.code or 500)
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            return _refuse(f"{place}: {first['msg']}", 400)
        except (IndexError, NoOriginal) as error:
            return _refuse(str(error), 404)
        except (UserError, ValueError) as error:
            return _refuse(str(error), 422)
        except Exception as error:
            traceback.print_exc()  # To the command's log.
            return _refuse(describe_error(error), 500)

    def _check(self, request: Request) -> str:
        """The path behind the token; raises HTTPException if the request is not the page's own."""
        if request.host.partition(":")[0] not in _NAMES:
            raise MisdirectedRequest(f"This server answers as {HOST} and localhost only.")
        token, slash, rest = request.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self._token.encode()) or not slash:
            raise NotFound("Use the whole address that `image-pipeline browse` printed.")
        return f"/{rest}"

    def _open(self, request: Request) -> Response:
        self.is_open.set()
        return _text(self._session.page, "text/html")

    def _list_views(self, request: Request, number: int) -> Response:
        return _json(self._session.list_views(number, "drawn" in request.args))

    def _draw(self, request: Request, number: int, name: str) -> Response:
        picture = self._session.draw(number, name, "drawn" in request.args)
        return Response(picture.content, content_type=picture.content_type)

    def _mark(self, request: Request) -> Response:
        # A form of another page cannot send this type without being asked for leave.
        if request.mimetype != "application/json":
            raise UnsupportedMediaType("Marks are sent as application/json.")
        request.max_content_length = MOST_SENT_BYTES
        asked = MarkRequest.model_validate_json(request.get_data())
        return _json(self._session.mark(asked.numbers, asked.marked))


class Server:
    """A running server's socket, address and loop."""

    def __init__(self, session: Session, port: int = 0):
        """Takes a port, 0 for any that is free.

        Raises:
          UserError: if it is taken.
        """
        token = secrets.token_urlsafe(24)
        self._socket = _listen(port)
        app = App(session, token)
        self._server = _Connections(HOST, port, app, _Handler, fd=self._socket.fileno())
        self.is_open = app.is_open
        """Set once a browser has the page."""
        self.url = f"http://{HOST}:{self._socket.getsockname()[1]}/{token}/"

    def serve(self) -> None:
        """Answers until the process is asked to end."""
        try:
            self._server.serve_forever(poll_interval=0.2)
        finally:
            self._server.server_close()
            self._socket.close()

    def stop(self) -> None:
        """Ends `serve`; from another thread."""
        self._server.shutdown()


class _Connections(ThreadedWSGIServer):
    """A thread for each connection, of which the oldest ends where there are too many."""

    def __init__(self, *arguments: Any, **options: Any):
        """Takes what werkzeug's servers take."""
        super().__init__(*arguments, **options)
        self._open: dict[socket.socket, None] = {}
        self._lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts a thread that answers."""
        with self._lock:
            self._open[request] = None
            if len(self._open) > _MOST_CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                with contextlib.suppress(OSError):  # Its client is gone.
                    oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Closes a connection."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of connections that break off: the log would grow with them."""


class _Handler(WSGIRequestHandler):
    """Reads a request within limits, and does not say what was asked for, with the token in it."""

    def setup(self) -> None:
        """Called for each connection."""
        super().setup()
        self.rfile = io.BufferedReader(_Arriving(self.connection))

    def log(self, type: str, message: str, *args: Any) -> None:
        """Says nothing."""


class _Arriving(io.RawIOBase):
    """What a client sends, as far as it is not too much and comes in time."""

    def __init__(self, connection: socket.socket):
        """Time begins now."""
        self._connection, self._left_bytes = connection, MOST_SENT_BYTES
        self._until_s = time.monotonic() + _ARRIVES_WITHIN_S

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Waits for the next bytes; what is too much is left out, and so the request is bad.

        Raises:
          TimeoutError: if they do not come in time.
        """
        self._connection.settimeout(max(0.001, self._until_s - time.monotonic()))
        try:
            count = (
                self._connection.recv_into(buffer[: self._left_bytes]) if self._left_bytes else 0
            )
        finally:
            self._connection.settimeout(_SENT_WITHIN_S)
        self._left_bytes -= count
        return count


def _listen(port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise UserError(
            f"--port must be one that is free, got {port} ({error.strerror}); leave it out for any."
        ) from error
    return listening


def _json(content: Any, status: int = 200) -> Response:
    return Response(json.dumps(content), status, content_type="application/json")


def _text(content: str, kind: str) -> Response:
    return Response(content, content_type=f"{kind}; charset=utf-8")


def _refuse(message: str, status: int) -> Response:
    return _json({"error": message}, status)
