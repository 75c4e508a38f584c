"""A Hugging Face Hub on loopback: a few models in folders, each at one commit."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class StandInHub:
    """What it serves, and what it was asked."""

    models: dict[str, Path] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    revisions: dict[str, str] = field(default_factory=lambda: {"main": COMMIT, COMMIT: COMMIT})
    down: bool = False
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body for a path."""
        self.asked.append(path)
        if self.down:
            return 503, {}, b"Service Unavailable"
        parts = path.partition("?")[0].strip("/").removeprefix("api/models/").split("/")
        name, verb, rest = "/".join(parts[:2]), parts[2:3], parts[3:]
        if name in self.gated:
            return 403, {"X-Error-Code": "GatedRepo"}, b""
        if name not in self.models:
            return 404, {"X-Error-Code": "RepoNotFound"}, b""
        commit = self.revisions.get(rest[0]) if rest else None
        if commit is None:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        return self.content(self.models[name], verb == ["tree"], commit, "/".join(rest[1:]))

    def content(
        self, folder: Path, tree: bool, commit: str, file: str
    ) -> tuple[int, dict[str, str], bytes]:
        """A file, or a list of all."""
        headers = {"X-Repo-Commit": commit}
        if tree and not file:
            file_of = {"type": "file", "size": 1, "oid": commit}
            listed = [{**file_of, "path": each.name} for each in folder.iterdir()]
            return 200, headers, json.dumps(listed).encode()
        if tree or not (folder / file).is_file():
            return 404, {**headers, "X-Error-Code": "EntryNotFound"}, b""
        body = (folder / file).read_bytes()
        return 200, {**headers, "ETag": f'"{file}-{commit}"'}, body


@contextmanager
def serving(hub: StandInHub) -> Iterator[str]:
    """Serve it; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send(with_body=False)

        def do_GET(self) -> None:
            self.send(with_body=True)

        def send(self, with_body: bool) -> None:
            status, headers, body = hub.answer(self.path)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def instead_of_the_hub(address: str) -> Iterator[None]:
    """Have this process ask a stand-in, and not wait between attempts.

    The library reads HF_ENDPOINT once, when it is imported.
    """
    from huggingface_hub import constants
    from huggingface_hub.utils import _http

    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(constants, "ENDPOINT", address)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        changed.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        changed.setattr(constants, "HF_HUB_OFFLINE", False)
        without_sleep = {**vars(time), "sleep": lambda _: None}
        changed.setattr(_http, "time", SimpleNamespace(**without_sleep))
        yield
