"""Iceberg's REST catalog, as far as publishing asks for it, over an SQLite catalog."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

NAMESPACES = "/v1/namespaces"


class Catalog:
    """Answers requests; `loses` replies to commits that have happened."""

    def __init__(self, folder: Path) -> None:
        from pyiceberg.catalog import load_catalog

        uri = f"sqlite:///{folder}/rest.db"
        self.tables = load_catalog("rest", type="sql", uri=uri, warehouse=str(folder))
        self.lock, self.loses, self.commits = Lock(), 0, 0

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Status and JSON."""
        from pyiceberg import exceptions as ice

        try:
            with self.lock:
                return self.found(method, path, body)
        except (ice.NoSuchTableError, ice.NoSuchNamespaceError) as error:
            return 404, problem(error, 404)
        except (ice.CommitFailedException, ice.NamespaceAlreadyExistsError) as error:
            return 409, problem(error, 409)

    def found(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path == "/v1/config":
            return 200, {"defaults": {}, "overrides": {}}
        if path == NAMESPACES:
            self.tables.create_namespace(tuple(body["namespace"]))
            return 200, {"namespace": body["namespace"], "properties": {}}
        namespace, _, name = path.removeprefix(f"{NAMESPACES}/").partition("/tables")
        identifier = (namespace, name.strip("/"))
        if not name:
            return self.staged(namespace, body)
        return self.committed(identifier, body) if method == "POST" else self.loaded(identifier)

    def staged(self, namespace: str, body: Any) -> tuple[int, Any]:
        from pyiceberg.schema import Schema

        assert body["stage-create"]
        transaction = self.tables.create_table_transaction(
            (namespace, body["name"]), Schema.model_validate(body["schema"]), body["location"]
        )
        return 200, {"metadata": as_json(transaction.table_metadata)}

    def loaded(self, identifier: tuple[str, str]) -> tuple[int, Any]:
        table = self.tables.load_table(identifier)
        metadata = as_json(table.metadata)
        return 200, {"metadata-location": table.metadata_location, "metadata": metadata}

    def committed(self, identifier: tuple[str, str], body: Any) -> tuple[int, Any]:
        from pyiceberg.table import CommitTableRequest

        class Named:
            def name(self) -> tuple[str, str]:
                return identifier

        request = CommitTableRequest.model_validate(body)
        done = self.tables.commit_table(Named(), request.requirements, request.updates)
        self.commits += 1
        if self.loses:
            self.loses -= 1
            return 503, problem(TimeoutError("the reply got lost"), 503)
        return 200, {
            "metadata-location": done.metadata_location,
            "metadata": as_json(done.metadata),
        }


def as_json(model: Any) -> Any:
    return json.loads(model.model_dump_json())


def problem(error: Exception, code: int) -> Any:
    return {"error": {"message": str(error), "type": type(error).__name__, "code": code}}


@contextmanager
def rest_catalog(folder: Path) -> Iterator[tuple[str, Catalog]]:
    """A server on a free port of loopback, and what it serves."""
    catalog = Catalog(folder)

    class Handler(BaseHTTPRequestHandler):
        def reply(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            status, content = catalog.answer(self.command, self.path.partition("?")[0], body)
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = reply

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", catalog
        finally:
            server.shutdown()
            thread.join()
            catalog.tables.close()
