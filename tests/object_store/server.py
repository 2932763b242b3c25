"""A store like Google's and Amazon's on loopback, as slow and as unreliable as is asked for.

    python -m tests.object_store.server FOLDER [--delay-ms 50]

prints the address. Each connection has a thread and stays open, and every request waits, whatever
others do. Google's client finds the store by STORAGE_EMULATOR_HOST, obstore by AWS_ENDPOINT_URL:
`gs://bucket` and `s3://bucket` are one bucket. TensorFlow's has Google's host
names and TLS built in, but takes a proxy and a certificate authority from the environment: for
CONNECT the store itself speaks TLS, as these hosts, with a certificate that it writes to FOLDER.
"""

import argparse
import datetime
import functools
import http.server
import ipaddress
import json
import pathlib
import socket
import ssl
import sys
import urllib.parse
from http import HTTPStatus
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.object_store.answers import answer, kind_of
from tests.object_store.bucket import Bucket
from tests.object_store.desk import DROP, HALF, Desk
from tests.object_store.messages import Answer, read_request

BUCKET = "bucket"
CERTIFICATE = "certificate.pem"
GOOGLE_HOSTS = ("www.googleapis.com", "storage.googleapis.com")


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection, to its end: requests one after another, maybe with TLS."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # Headers and body in one packet: two would wait for each other's receipt.
    tls: ssl.SSLContext

    def __init__(self, bucket: Bucket, desk: Desk, *args: Any):
        """Serves the connection."""
        self._bucket, self._desk = bucket, desk
        self._is_tls = False
        super().__init__(*args)

    def handle_method(self) -> None:
        """Reads the whole request, waits, and answers or does what is asked for instead."""
        body = self._read_body()
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/_control":
            counted = self._desk.control(dict(urllib.parse.parse_qsl(url.query)))
            return self._send(Answer(200, json.dumps(counted).encode()))
        base = f"https://{GOOGLE_HOSTS[0]}" if self._is_tls else f"http://{self._address()}"
        request = read_request(self.command, self.path, self.headers, body, base)
        self._desk.wait()
        fault = self._desk.note(kind_of(request))
        if fault == DROP:
            return self._hang_up()
        if fault.isdigit():
            return self._send(Answer(int(fault), b'{"error": {"message": "a fault"}}'))
        given = answer(self._bucket, request)
        if fault == HALF:
            return self._send_half(given)
        self._send(given)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = handle_method

    def do_CONNECT(self) -> None:
        """From now on speaks TLS on this connection, as whatever host was asked for."""
        self.send_response(200)
        self.end_headers()
        self.wfile.flush()
        self.connection = self.tls.wrap_socket(self.connection, server_side=True)
        self._is_tls = True
        self.rfile = self.connection.makefile("rb", self.rbufsize)
        self.wfile = self.connection.makefile("wb", self.wbufsize)
        self.close_connection = False

    def handle_expect_100(self) -> bool:
        """Says at once that the body is welcome: TensorFlow's client waits a second for that."""
        welcome = super().handle_expect_100()
        self.wfile.flush()
        return welcome

    def log_message(self, *args: Any) -> None:
        """Says nothing: the log is for what goes wrong."""

    def _address(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"

    def _read_body(self) -> bytes:
        """The body, to its very end: what is left of it would be taken for the next request."""
        if "chunked" not in self.headers.get("Transfer-Encoding", "").lower():
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""  # Where both are there, the length means nothing (RFC 9112, 6.3).
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # Trailers, up to an empty line.
        return body

    def _send(self, given: Answer) -> None:
        self._send_head(given)
        if self.command != "HEAD":
            self.wfile.write(given.body)

    def _send_head(self, given: Answer) -> None:
        known = given.status in HTTPStatus._value2member_map_
        self.send_response(given.status, None if known else "Closed")
        for name, value in given.headers.items():
            self.send_header(name, value)
        if given.status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(given.body)))
        self.end_headers()

    def _send_half(self, given: Answer) -> None:
        """The connection ends in the middle of the body."""
        self._send_head(given)
        self.wfile.write(given.body[: len(given.body) // 2])
        self.wfile.flush()
        self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


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


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client may leave whenever it likes; all else belongs into the log."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def main() -> None:
    """Serves until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--delay-ms", type=float, default=0)
    arguments = parser.parse_args()
    Handler.tls = write_certificate(arguments.folder)
    serve = functools.partial(Handler, Bucket(BUCKET), Desk(arguments.delay_ms / 1000))
    with _Server(("127.0.0.1", 0), serve) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
