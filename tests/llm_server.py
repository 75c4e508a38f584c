"""A server that speaks OpenAI's HTTP API on loopback, and can be told to behave badly."""

import hashlib
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "tiny-chat"
WIDTH = 6


@dataclass
class Said:
    """A reply."""

    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


Behaviour = Callable[[list[str], int], Said | None]
"""Given the texts of a request and how many came before it: what to reply instead of an answer."""


def answer_to(text: str) -> str:
    """What the model says to a text."""
    return f"{text[::-1]} ({len(text)})"


def vector_of(text: str) -> list[float]:
    """What the model makes of a text."""
    digest = hashlib.sha256(text.encode()).digest()
    return [byte / 255 for byte in digest[:WIDTH]]


def error(status: int, message: str, code: str | None = None, **headers: str) -> Said:
    """An error in OpenAI's form."""
    body = {"error": {"message": message, "type": "some_error", "code": code}}
    return Said(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass
class LlmServer:
    """What the server was asked, and how it is to behave."""

    url: str = ""
    behave: Behaviour = lambda texts, before: None
    delay_seconds: float = 0.0
    blank_lines: int = 0
    """Sent before an answer, one each 50 ms."""
    key: str | None = None
    """The only one that is let in."""
    lists_models: bool = True
    listed: Said | None = None
    """The list of models, where it is not in OpenAI's form."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    """Of requests for answers, in the order they came."""
    times: list[float] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0

    @property
    def texts(self) -> Counter[str]:
        """How often each text was asked about."""
        return Counter(text for body in self.bodies for text in texts_of(body))

    def reply(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> Said:
        """The reply to a request."""
        if self.key is not None and headers.get("Authorization") != f"Bearer {self.key}":
            return error(401, f"Incorrect API key provided: {headers.get('Authorization')}")
        if path == "/v1/models":
            listed = {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
            told = self.listed or Said(200, listed)
            return told if self.lists_models else error(404, "no such page")
        if path not in ANSWERS:
            return error(404, "no such page")
        if body.get("model") != MODEL:
            return error(404, f"The model {body.get('model')!r} does not exist", "model_not_found")
        with self.lock:
            before = len(self.bodies)
            self.bodies.append(body)
            self.headers.append(headers)
            self.times.append(time.monotonic())
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            time.sleep(self.delay_seconds)
            return self.behave(texts_of(body), before) or ANSWERS[path](body)
        finally:
            with self.lock:
                self.in_flight -= 1


def texts_of(body: dict[str, Any]) -> list[str]:
    """The texts that a request is about."""
    if "messages" in body:
        return [str(body["messages"][-1]["content"])]
    given = body.get("input", body.get("prompt"))
    return list(given) if isinstance(given, list) else [str(given)]


def chat(body: dict[str, Any]) -> Said:
    """A chat's reply."""
    message = {"role": "assistant", "content": answer_to(texts_of(body)[0])}
    return writing(body, {"message": message})


def completion(body: dict[str, Any]) -> Said:
    """A completion's reply."""
    return writing(body, {"text": answer_to(texts_of(body)[0])})


def writing(body: dict[str, Any], choice: dict[str, Any]) -> Said:
    """The reply of a model that writes."""
    length = len(texts_of(body)[0])
    usage = {"prompt_tokens": length, "completion_tokens": 7, "total_tokens": length + 7}
    choices = [{"index": 0, "finish_reason": "stop", **choice}]
    fields = {"model": f"{MODEL}-2026-01-31", "system_fingerprint": "fp_1"}
    return Said(200, {**fields, "choices": choices, "usage": usage})


def embeddings(body: dict[str, Any]) -> Said:
    """Vectors, last text first: only their indices say which is whose."""
    data = [{"index": n, "embedding": vector_of(text)} for n, text in enumerate(texts_of(body))]
    return Said(200, {"model": MODEL, "data": data[::-1], "usage": {"total_tokens": len(data)}})


ANSWERS: dict[str, Callable[[dict[str, Any]], Said]] = {
    "/v1/chat/completions": chat,
    "/v1/completions": completion,
    "/v1/embeddings": embeddings,
}
CUT = Said(0, None)
"""The connection breaks in mid-answer."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    told: LlmServer

    def do_GET(self) -> None:
        self.send(self.told.reply(self.path, {}, dict(self.headers)))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send(self.told.reply(self.path, body, dict(self.headers)))

    def send(self, said: Said) -> None:
        """Send a reply, whole or cut."""
        if said is CUT:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{")
            self.close_connection = True
            return
        content = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
        blank = b"\n" * self.told.blank_lines
        content = blank + content
        self.send_response(said.status)
        for name, value in {**said.headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        for _ in blank:
            self.wfile.write(b"\n")
            time.sleep(0.05)
        self.wfile.write(content[len(blank) :])

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """Answers each connection in a thread, which may outlive the test."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing where whoever asked waits no longer: another test would be shown it."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def llm_server() -> Iterator[LlmServer]:
    """A server on a free port, until the end of the block."""
    told = LlmServer()
    handler = type("ToldHandler", (Handler,), {"told": told})
    server = Server(("127.0.0.1", 0), handler)
    told.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
