"""What tests know of an object store on loopback, whichever it is."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol


class ObjectStore(Protocol):
    """A store with one bucket."""

    @property
    def bucket(self) -> str:
        """Its name."""

    @property
    def storage_options(self) -> dict[str, str]:
        """What a source or sink needs to reach it, beside the environment."""

    def url(self, path: str) -> str:
        """An object or folder in the bucket."""


class Answers(BaseHTTPRequestHandler):
    """Answers requests, and says nothing of them."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # headers and body go together: else each answer takes 40 ms

    def log_message(self, *_: object) -> None:
        """One of a request's."""


class QuietServer(ThreadingHTTPServer):
    """Says nothing of a client that has gone."""

    def handle_error(self, *_: object) -> None:
        """One of a request's."""


@contextmanager
def serving(answers: type[Answers]) -> Iterator[int]:
    """A server on loopback for as long as the context lasts; its port."""
    server = QuietServer(("127.0.0.1", 0), answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
