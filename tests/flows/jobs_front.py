"""A proxy before a cluster's Jobs API: may speak TLS, may lose a submission or the reply to it."""

import http.client
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

Lost = Literal["request", "reply"]
SUBMIT = ("POST", "/api/jobs/")


class JobsFront(ThreadingHTTPServer):
    """Hands on what it is asked, and counts submissions."""

    daemon_threads = True

    def __init__(self, target: str, lose: Sequence[Lost], tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.target, self.lose, self.tls = urlsplit(target).netloc, iter(lose), tls
        self.submissions = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{'https' if self.tls else 'http'}://localhost:{self.server_port}"

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Shake hands in the connection's own thread: a stranger must not hold up the others."""
        if self.tls is None:
            return super().finish_request(request, client_address)
        # Whoever does not trust us hangs up.
        with suppress(OSError), self.tls.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)


class Handler(BaseHTTPRequestHandler):
    server: JobsFront

    def answer(self) -> None:
        """Hand on one request; of the first submissions something may be lost."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_submission = (self.command, self.path) == SUBMIT
        self.server.submissions += is_submission
        lost = next(self.server.lose, None) if is_submission else None
        self.close_connection = True
        if lost == "request":
            return
        there = http.client.HTTPConnection(self.server.target, timeout=60)
        there.request(self.command, self.path, body, dict(self.headers))
        reply = there.getresponse()
        said = reply.read()
        there.close()
        if lost == "reply":
            return
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.headers.get("Content-Type", "text/plain"))
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, format: str, *_: object) -> None:
        """Say nothing."""


@contextmanager
def jobs_front(
    target: str, lose: Sequence[Lost] = (), tls: ssl.SSLContext | None = None
) -> Iterator[JobsFront]:
    """Stand before a Jobs API.

    Args:
        target: its URL.
        lose: what is lost of the first submission, of the second, ...
        tls: certificate to show, and whose to ask for; None: plain HTTP.
    """
    front = JobsFront(target, lose, tls)
    thread = threading.Thread(target=front.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield front
    finally:
        front.shutdown()
        thread.join()
        front.server_close()
