"""What tests know of an object store on loopback, whichever it is."""

from http.server import ThreadingHTTPServer
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


class QuietServer(ThreadingHTTPServer):
    """Says nothing of a client that has gone."""

    def handle_error(self, *_: object) -> None:
        """One of a request's."""
