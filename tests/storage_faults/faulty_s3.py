"""A proxy before an S3 server that does to requests what it is told to."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import urlsplit

CHUNK = 4096


@dataclass(frozen=True)
class Fault:
    """What happens to a request."""

    status: int = 0
    """Answered instead of the store's answer; 0: that is passed on."""
    code: str = ""
    """S3's word for it."""
    is_late: bool = False
    """The store does what it is asked, and only its answer gets lost."""
    cut: bool = False
    """Half of the body comes, and then the connection ends."""
    pause_seconds: float = 0.0
    """Before each piece of the body."""
    omit: str = ""
    """A listing lacks the objects whose key matches."""
    drop_header: str = ""
    """A header of the request that the store does not know."""


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    method: str
    path: str
    """With the query."""
    number: int
    """Of the requests with this method and path, from 0."""
    agent: str = ""
    """Who asks."""


Behave = Callable[[Request], Fault | None]


@dataclass
class FaultyS3:
    """The proxy: where it is, and how it behaves."""

    target: str
    behave: Behave = lambda request: None
    endpoint_url: str = ""
    seen: dict[tuple[str, str], int] = field(default_factory=dict)
    keys: set[str | None] = field(default_factory=set)
    """Those that requests were signed with; None: some were not."""
    faults: int = 0
    """How many requests met with one."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self, method: str, path: str, agent: str) -> Fault:
        """What happens to a request."""
        with self.lock:
            number = self.seen.get((method, path), 0)
            self.seen[method, path] = number + 1
            found = self.behave(Request(method, path, number, agent))
            self.faults += found is not None
        return found or Fault()


@contextmanager
def faulty_s3(target: str) -> Iterator[FaultyS3]:
    """A proxy on loopback, for as long as the context lasts."""
    proxy = FaultyS3(target)
    handler = type("Handler", (Handler,), {"proxy": proxy})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    proxy.endpoint_url = f"http://127.0.0.1:{server.server_address[1]}"
    yield proxy
    server.shutdown()
    server.server_close()
    thread.join()


class Handler(BaseHTTPRequestHandler):
    """Passes a request on, and the answer back."""

    protocol_version = "HTTP/1.1"
    proxy: ClassVar[FaultyS3]

    def do_GET(self) -> None:
        """Any method: see what is to happen to it."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        signed = re.search(r"Credential=([^/]*)/", self.headers.get("Authorization") or "")
        self.proxy.keys.add(signed and signed[1])
        fault = self.proxy.fault(self.command, self.path, self.headers.get("User-Agent") or "")
        if fault.status and not fault.is_late:
            self.refuse(fault)
            return
        target = urlsplit(self.proxy.target)
        connection = HTTPConnection(str(target.hostname), target.port, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        headers["Host"] = target.netloc
        headers = {n: v for n, v in headers.items() if n.lower() != fault.drop_header.lower()}
        connection.request(self.command, self.path, body, headers)
        reply = connection.getresponse()
        data, status, named = reply.read(), reply.status, dict(reply.getheaders())
        connection.close()
        if fault.status:
            self.refuse(fault)
            return
        if fault.omit and b"<ListBucketResult" in data:
            data = without(data, fault.omit.encode())
            named = {name: value for name, value in named.items() if name != "Content-Length"}
        self.answer(status, named, data, fault)

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET

    def refuse(self, fault: Fault) -> None:
        """Answer in the store's place."""
        said = f"<Error><Code>{fault.code}</Code><Message>{fault.code}</Message></Error>"
        self.answer(fault.status, {}, said.encode(), Fault())

    def answer(self, status: int, headers: dict[str, str], data: bytes, fault: Fault) -> None:
        """Send an answer, as far as the fault lets it."""
        self.send_response(status)
        length = {"Content-Length": str(len(data))}
        for name, value in {**length, **headers, "Connection": "close"}.items():
            if name.lower() not in ("transfer-encoding", "date", "server"):
                self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        if self.command == "HEAD":
            return
        sent = data[: len(data) // 2] if fault.cut else data
        for at in range(0, len(sent), CHUNK):
            time.sleep(fault.pause_seconds)
            self.wfile.write(sent[at : at + CHUNK])

    def log_message(self, *_: object) -> None:
        """Nothing."""


def without(listing: bytes, keys: bytes) -> bytes:
    """A listing without some objects."""
    each = re.compile(rb"<Contents>.*?</Contents>", re.DOTALL)
    return each.sub(lambda found: b"" if re.search(keys, found[0]) else found[0], listing)
