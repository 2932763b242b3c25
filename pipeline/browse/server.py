"""The page's server: for this machine only, behind a random token.

Three things keep other pages and other people out. It listens to the loopback address; every
address begins with a token that only its starter is told; and it answers only under this machine's
own names, so that no foreign name that is made to lead here (DNS rebinding) is answered. Records
are asked for by number or by the path that the index has: no request opens a file by its name.
What is sent takes little memory, token or not: a body is limited here, lines and headers by Python.
"""

import contextlib
import hmac
import html
import json
import pathlib
import secrets
import socket
import tempfile
import threading
import traceback
import webbrowser
from collections.abc import Iterable, Iterator
from typing import Any

import pydantic
from werkzeug.exceptions import HTTPException, MisdirectedRequest, NotFound, UnsupportedMediaType
from werkzeug.routing import Map, Rule
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler
from werkzeug.wrappers import Request, Response

from image_pipeline.browse.pictures import Content, NoPicture, Report
from image_pipeline.browse.session import Session
from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.messages import describe_error, show
from image_pipeline.components.threads import start

HOST = "127.0.0.1"
MOST_SENT_BYTES = 2**17
"""Of a request's body; the page's are below 100 bytes."""
_NAMES = (HOST, "localhost")
# A browser that has not come by then did not understand what it was asked for.
_COMES_WITHIN_S = 120.0
# Browsers open 6 to 8 connections to one address.
_MOST_CONNECTIONS = 64
_FRAMES = "frame-ancestors 'none'"
_SAFETY = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self' data:; style-src 'self'; "
    f"script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; {_FRAMES}",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_ASSETS = {"page.css": "text/css", "page.js": "text/javascript"}
_EPOCH, _STEP = (f"<int(max={2**31 - 1}):{name}>" for name in ("epoch", "step"))
# By their addresses, the methods of `Session` that answer, and what else there is.
_URLS = Map(
    [
        Rule("/mark", endpoint="mark", methods=["POST"]),
        *(
            Rule(address, endpoint=name, methods=["GET"])
            for address, name in {
                "/": "page",
                f"/<any{tuple(_ASSETS)}:name>": "asset",
                "/search": "search",
                "/report": "report",
                "/record/<int:number>": "describe",
                "/record/<int:number>/views": "list_views",
                "/record/<int:number>/<any(original, stored, thumbnail):name>.picture": "draw",
                f"/batch/{_EPOCH}/{_STEP}/<int:index>.picture": "draw_fed",
            }.items()
        ),
    ]
)


class App:
    """The WSGI application.

    Attributes:
      is_open: set once a browser has the page.
    """

    def __init__(self, session: Session, token: str):
        """Takes what is looked at, and what every address begins with."""
        self._session, self.token = session, token
        self.is_open = threading.Event()

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        """Answers a request: with JSON, or what is `Content`; what is wrong, in a sentence."""
        status = 200
        try:
            found = self._find(Request(environ))
        except HTTPException as error:
            found, status = error.description or error.name, error.code or 500
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            found, status = f"{name} cannot be {show(first['input'])}: {first['msg']}.", 400
        except (IndexError, NoPicture) as error:
            found, status = str(error), 404
        except (UserError, ValueError) as error:
            found, status = str(error), 422
        except Exception as error:
            known = find_user_error(error)
            if known is None:
                traceback.print_exc()  # To the command's log.
            found, status = str(known or describe_error(error)), 422 if known else 500
        found = found if status == 200 else {"error": found}
        if not isinstance(found, Content):
            found = Content("application/json", json.dumps(found).encode())
        policy = {"Content-Security-Policy": _FRAMES} if isinstance(found, Report) else {}
        response = Response(found.data, status, _SAFETY | policy, content_type=found.kind)
        return response(environ, start_response)

    def _find(self, request: Request) -> Any:
        """What a request asks for; raises HTTPException if it is not the page's own."""
        if request.host.partition(":")[0] not in _NAMES:
            raise MisdirectedRequest(f"This server answers as {HOST} and localhost only.")
        token, slash, path = request.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.token.encode()) or not slash:
            raise NotFound("Use the whole address that `image-pipeline browse` printed.")
        urls = _URLS.bind(HOST, path_info=f"/{path}", default_method=request.method)
        name, matched = urls.match()
        values: dict[str, Any] = dict(matched)
        self.is_open.set()
        if name == "page":
            return self._session.page
        if name == "asset":
            data = pathlib.Path(__file__).with_name(values["name"]).read_bytes()
            return Content(f"{_ASSETS[values['name']]}; charset=utf-8", data)
        if name == "search":
            values = {"asked": request.args.to_dict()}
        elif name in ("draw", "list_views"):
            values["drawn"] = "drawn" in request.args
        elif name == "mark":
            # A form of another page cannot send this type without being asked for leave.
            if request.mimetype != "application/json":
                raise UnsupportedMediaType("Marks are sent as application/json.")
            request.max_content_length = MOST_SENT_BYTES
            values = {"body": request.get_data()}
        return getattr(self._session, name)(**values)


class Server(ThreadedWSGIServer):
    """Listens and answers, a thread for each connection; the oldest ends if there are too many."""

    def __init__(self, session: Session, port: int = 0):
        """Listens to a port, 0 for any that is free.

        Raises:
          UserError: if it is taken.
        """
        app = App(session, secrets.token_urlsafe(24))
        self.is_open, self._lock = app.is_open, threading.Lock()
        self._connections: dict[socket.socket, None] = {}
        with socket.socket() as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listening.bind((HOST, port))
                listening.listen()
            except OSError as error:
                raise UserError(
                    f"--port must be one that is free, got {port} ({error.strerror}); leave it "
                    "out for any."
                ) from error
            super().__init__(HOST, port, app, _Handler, fd=listening.fileno())
        self.url = f"http://{HOST}:{self.socket.getsockname()[1]}/{app.token}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts a thread that answers."""
        with self._lock:
            self._connections[request] = None
            if len(self._connections) > _MOST_CONNECTIONS:
                oldest = next(iter(self._connections))
                del self._connections[oldest]
                with contextlib.suppress(OSError):  # Its client is gone.
                    oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Closes a connection."""
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of connections that break off: the log would grow with them."""


@contextlib.contextmanager
def open_page(url: str, is_open: threading.Event) -> Iterator[None]:
    """Asks the browser to open an address, which it keeps from everybody else.

    Everyone on a machine can read the command line of a browser. So it is given the name of a
    private file that leads to the page, and is there until that is open, or the block ends.
    """
    with tempfile.TemporaryDirectory() as folder:  # Only its owner may look into it.
        path, quoted = pathlib.Path(folder, "browse.html"), html.escape(url)
        path.touch(0o600)
        path.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={quoted}">'
            f'<a href="{quoted}">To the data set</a>',
            encoding="utf-8",
        )

        def delete_when_open() -> None:
            is_open.wait(_COMES_WITHIN_S)
            path.unlink(missing_ok=True)

        start(delete_when_open)
        webbrowser.open(path.as_uri())
        yield


class _Handler(WSGIRequestHandler):
    """Waits for nobody for ever, and does not say what was asked for, with the token in it."""

    timeout = 300.0  # seconds; an original of 100 MB through a forwarded port takes 100

    def log(self, type: str, message: str, *args: Any) -> None:
        """Says nothing."""
