"""A stand-in for the Kubernetes API: RayClusters in a dict, spoken to over HTTP.

It knows the few requests that runs make, and plays KubeRay's part: a cluster is ready after a
while, and has a Secret with its token. No pod ever starts: what answers as the head is up to the
test.
"""

import base64
import json
import re
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

NAMESPACE = "batch"
TOKEN = "token-of-the-service-account"
CLUSTERS = re.compile(r"/apis/ray\.io/v1/(?:namespaces/([^/]+)/)?rayclusters(?:/([^/]+))?$")
SECRETS = re.compile(r"/api/v1/namespaces/([^/]+)/secrets/([^/]+)$")
Answer = tuple[int, dict[str, Any]]


@dataclass
class Kubernetes:
    """What the stand-in holds, and how it behaves."""

    url: str = ""
    head_token: str | None = None
    """Token of every cluster's head, in its Secret."""
    ready_after: float = 0.0
    """Seconds from a cluster's creation to the readiness of its head."""
    going_for: float = 0.0
    """Seconds from a cluster's deletion until its pods are gone."""
    slow: float = 0.0
    """Seconds before any answer."""
    clock_ahead: float = 0.0
    """Seconds that its clock is ahead of this machine's."""
    refusals: dict[str, list[int]] = field(default_factory=dict)
    """Statuses to answer a method's next requests with."""
    clusters: dict[str, dict[str, Any]] = field(default_factory=dict)
    times: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    """Of each cluster: when it was made, and when it will be gone."""
    seen: list[tuple[str, str]] = field(default_factory=list)
    """Requests that were let in: method, and path with query."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, method: str) -> int:
        """Requests of a method."""
        return sum(each == method for each, _ in self.seen)

    def count_made(self) -> int:
        """Requests to make a cluster; not those that only ask whether it would be made."""
        return sum(method == "POST" and "dryRun" not in target for method, target in self.seen)

    def answer(self, method: str, target: str, body: dict[str, Any], token: str) -> Answer:
        """Answer one request."""
        time.sleep(self.slow)
        with self.lock:
            if token != f"Bearer {TOKEN}":
                return failure(401, "Unauthorized")
            self.seen.append((method, target))
            if self.refusals.get(method):
                return failure(self.refusals[method].pop(0), f"no {method} now")
            self.pass_time()
            parts = urlsplit(target)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if found := SECRETS.match(parts.path):
                return self.secret(found[2])
            if (found := CLUSTERS.match(parts.path)) and found[1] in (NAMESPACE, None):
                return self.cluster(method, found[2], query, body)
            return failure(404, f"nothing lies at {parts.path}")

    def pass_time(self) -> None:
        """KubeRay's part, and the garbage collector's."""
        now = time.monotonic()
        for name, (at, gone) in list(self.times.items()):
            found = self.clusters[name]
            if gone is not None and now >= gone:
                del self.clusters[name], self.times[name]
            elif now >= at + self.ready_after and "status" not in found:
                condition = {"type": "HeadPodReady", "status": "True", "reason": "Running"}
                found["status"] = {"state": "ready", "conditions": [condition]}
                self.touch(found)

    def cluster(
        self, method: str, name: str | None, query: dict[str, str], body: dict[str, Any]
    ) -> Answer:
        """Requests for RayClusters."""
        if method == "POST":
            return self.create(query, body)
        if name is None:
            wanted = dict(each.split("=") for each in query["labelSelector"].split(","))
            items = [c for c in self.clusters.values() if holds(c["metadata"]["labels"], wanted)]
            return 200, {"kind": "RayClusterList", "items": items}
        if name not in self.clusters:
            return failure(404, f'rayclusters.ray.io "{name}" not found')
        found = self.clusters[name]
        if method == "PATCH":
            merge(found, body)
            self.touch(found)
        if method == "DELETE":
            return self.delete(name, found, body)
        return 200, found

    def create(self, query: dict[str, str], body: dict[str, Any]) -> Answer:
        """Make a cluster, or only say whether it would be made."""
        meta = body["metadata"]
        if "headGroupSpec" not in body["spec"]:
            return failure(422, "spec.headGroupSpec: Required value")
        if meta["name"] in self.clusters:
            return failure(409, f'rayclusters.ray.io "{meta["name"]}" already exists')
        made = {**body, "metadata": {**meta, "uid": uuid.uuid4().hex}}
        self.touch(made)
        if query.get("dryRun") != "All":
            self.clusters[meta["name"]] = made
            self.times[meta["name"]] = (time.monotonic(), None)
        return 201, made

    def delete(self, name: str, found: dict[str, Any], options: dict[str, Any]) -> Answer:
        """Begin to delete a cluster, if it is the one that is meant."""
        meta = found["metadata"]
        if not holds(meta, options.get("preconditions") or {}):
            return failure(409, "the object has been modified")
        assert options["propagationPolicy"] == "Foreground"
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.times[name] = (self.times[name][0], time.monotonic() + self.going_for)
        return 200, found

    def secret(self, name: str) -> Answer:
        """KubeRay makes a Secret for each cluster that asks for a token."""
        found = self.clusters.get(name)
        if found is None or "authOptions" not in found["spec"] or self.head_token is None:
            return failure(404, f'secrets "{name}" not found')
        data = {"auth_token": base64.b64encode(self.head_token.encode()).decode()}
        return 200, {"apiVersion": "v1", "kind": "Secret", "data": data}

    def touch(self, found: dict[str, Any]) -> None:
        """Give a cluster another version."""
        found["metadata"]["resourceVersion"] = uuid.uuid4().hex


@contextmanager
def kubernetes(folder: Path) -> Iterator[tuple[Kubernetes, Path]]:
    """Serve on a free port; yield what it holds, and a kubeconfig that leads there."""
    held = Kubernetes()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def speak(self) -> None:
            """Answer a request."""
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            if self.command == "PATCH":
                assert self.headers["Content-Type"] == "application/merge-patch+json"
            token = self.headers.get("Authorization") or ""
            status, answer = held.answer(self.command, self.path, body, token)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def date_time_string(self, timestamp: float | None = None) -> str:
            """What each answer says of the time."""
            return formatdate(time.time() + held.clock_ahead, usegmt=True)

        do_GET = do_POST = do_PATCH = do_DELETE = speak

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()
    held.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield held, write_kubeconfig(folder, held.url)
    finally:
        server.shutdown()
        server.server_close()


def write_kubeconfig(folder: Path, url: str) -> Path:
    """A kubeconfig with two contexts: `stand-in`, the current one, and `stranger`, not let in."""
    users = {"stand-in": TOKEN, "stranger": "another"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "stand-in",
        "clusters": [{"name": "here", "cluster": {"server": url}}],
        "users": [{"name": name, "user": {"token": token}} for name, token in users.items()],
        "contexts": [{"name": n, "context": {"cluster": "here", "user": n}} for n in users],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def failure(status: int, message: str) -> Answer:
    """How Kubernetes says no."""
    return status, {"kind": "Status", "status": "Failure", "message": message, "code": status}


def holds(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether all that is wanted is there."""
    return wanted.items() <= {k: v for k, v in found.items() if isinstance(v, str)}.items()


def merge(into: dict[str, Any], patch: dict[str, Any]) -> None:
    """A JSON merge patch."""
    for key, value in patch.items():
        if isinstance(value, dict):
            merge(into.setdefault(key, {}), value)
        else:
            into[key] = value
