"""A store like Google's on loopback: PyPI's `gcp-storage-emulator`, as slow as a far one.

    python -m tests.object_store.server FOLDER [--delay-ms 50]

prints the address. The emulator alone answers one connection after the other and without a delay;
here each has a thread, stays open, and every request waits, whatever others do. Beam's client finds
the store by STORAGE_EMULATOR_HOST. TensorFlow's has Google's host names and TLS built in, but takes
a proxy and a certificate authority from the environment: for CONNECT the store itself speaks TLS,
as these hosts, with a certificate that it writes to FOLDER.
"""

import argparse
import collections
import datetime
import functools
import http.server
import io
import ipaddress
import json
import pathlib
import ssl
import threading
import time
import urllib.parse
from typing import Any, ClassVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from gcp_storage_emulator import server as emulator
from gcp_storage_emulator.handlers.buckets import create_bucket
from gcp_storage_emulator.storage import Storage

BUCKET = "bucket"
CERTIFICATE = "certificate.pem"
GOOGLE_HOSTS = ("www.googleapis.com", "storage.googleapis.com")


class Handler(emulator.RequestHandler):
    """The emulator's, for connections that stay open, with a delay, a count and TLS."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # Headers and body in one packet: two would wait for each other's receipt.
    delay_s = 0.0
    counts: ClassVar[collections.Counter[str]] = collections.Counter()
    waiting = most_waiting = 0
    lock = threading.Lock()  # The emulator's storage is not made for threads.
    tls: ssl.SSLContext

    def __init__(self, storage: Storage, *args: Any):
        """Serves one connection, to its end."""
        self.is_tls = False
        super().__init__(storage, *args)

    def handle_method(self) -> None:
        """Waits, then has the emulator answer; reads the whole request in any case."""
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/_control":
            return self._control(dict(urllib.parse.parse_qsl(url.query)))
        if "Transfer-Encoding" in self.headers:  # TensorFlow's also say the content's length.
            del self.headers["Content-Length"]
        body = emulator._read_raw_data(self) or b""
        with self.lock:
            Handler.waiting += 1
            Handler.most_waiting = max(Handler.waiting, Handler.most_waiting)
        time.sleep(Handler.delay_s)
        own = f"127.0.0.1:{self.server.server_address[1]}"  # Links lead here, whoever asks.
        for name, value in {"Host": own, "Content-Length": str(len(body))}.items():
            del self.headers[name]
            self.headers[name] = value
        del self.headers["Transfer-Encoding"]
        stream, self.rfile = self.rfile, io.BufferedReader(io.BytesIO(body))
        with self.lock:
            Handler.waiting -= 1
            self.counts[_kind(self.command, url)] += 1
            if url.path.endswith("/storageLayout"):  # The emulator does not know it.
                self._answer({"location": "US", "hierarchicalNamespace": {"enabled": False}})
            else:
                emulator.Router(self).handle(self.command)
        self.rfile = stream

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_method

    def do_CONNECT(self) -> None:
        """From now on speaks TLS on this connection, as whatever host was asked for."""
        self.send_response(200)
        self.end_headers()
        self.wfile.flush()
        self.connection = self.tls.wrap_socket(self.connection, server_side=True)
        self.is_tls = True
        self.setup_streams()

    def handle_expect_100(self) -> bool:
        """Says at once that the body is welcome: TensorFlow's client waits a second for that."""
        welcome = super().handle_expect_100()
        self.wfile.flush()
        return welcome

    def setup_streams(self) -> None:
        """Reads from and writes to the connection as it is now."""
        self.rfile = self.connection.makefile("rb", self.rbufsize)
        self.wfile = self.connection.makefile("wb", self.wbufsize)
        self.close_connection = False

    def send_header(self, keyword: str, value: str) -> None:
        """Where an upload goes on must be the host where it began."""
        if self.is_tls and keyword == "Location":
            value = f"https://{GOOGLE_HOSTS[0]}/{value.split('/', 3)[3]}"
        super().send_header(keyword, value)

    def _control(self, wanted: dict[str, str]) -> None:
        """Sets the delay; answers with what was counted since the last time."""
        Handler.delay_s = float(wanted.get("delay_s", Handler.delay_s))
        with self.lock:
            counted = {"requests": dict(self.counts), "at_once": Handler.most_waiting}
            self.counts.clear()
            Handler.most_waiting = 0
        self._answer(counted)

    def _answer(self, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _kind(method: str, url: urllib.parse.SplitResult) -> str:
    """What a request is about, in one word."""
    if url.path.startswith("/upload"):
        return "upload"
    if url.path.startswith("/batch"):
        return "delete"
    if method == "GET" and url.path.endswith("/o"):
        return "list"
    if url.path == f"/storage/v1/b/{BUCKET}":  # Google's client asks once, for its own reports.
        return "bucket"
    is_media = "alt=media" in url.query or not url.path.startswith("/storage/")
    return "read" if method == "GET" and is_media else {"GET": "stat"}.get(method, method)


def write_certificate(folder: pathlib.Path) -> ssl.SSLContext:
    """Makes a certificate for Google's host names that is its own authority, for two days."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a store on loopback")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    hosts = [*map(x509.DNSName, GOOGLE_HOSTS), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        builder.not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / CERTIFICATE).write_bytes(certificate.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, *plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / CERTIFICATE, folder / "key.pem")
    return context


class _Memory(Storage):
    """The emulator's, without a copy of all objects' descriptions after every write: 40 ms of it
    when there are 2,000."""

    def _write_config_to_file(self) -> None:
        """Keeps nothing beyond the process's end."""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def main() -> None:
    """Serves until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--delay-ms", type=float, default=0)
    arguments = parser.parse_args()
    Handler.delay_s = arguments.delay_ms / 1000
    Handler.tls = write_certificate(arguments.folder)
    storage = _Memory(use_memory_fs=True)
    create_bucket(BUCKET, storage)
    with _Server(("127.0.0.1", 0), functools.partial(Handler, storage)) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
