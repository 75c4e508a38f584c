"""Publishing 10,000 parts to S3 over HTTP: seconds, and requests by kind."""

import json
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tasks.protocol.acceptance import accept
from tasks.protocol.batch import RowBatch
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.layout import OutputFolder
from tasks.protocol.plan_file import Shard, first_plan, shard_table
from tasks.protocol.publication import Publication
from tasks.protocol.publishing import publish
from tasks.protocol.records import Encoded, Part, load_records, store
from tasks.protocol.storage import Storage, open_storage
from tests.protocol.bench import batch_of
from tests.simulation.writing import drop_rows

PARTS, PARTS_A_RECORD, WRITERS = 10_000, 100, 8
BUCKET = "batches"

SERVER = """
import json, sys
from collections import Counter
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server
asked = Counter()
s3 = DomainDispatcherApplication(create_backend_app)
class Quiet(WSGIRequestHandler):
    def log(self, *given): pass
def counting(environ, start_response):
    if environ["PATH_INFO"] == "/asked":
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(asked).encode()]
    kind = environ["REQUEST_METHOD"]
    if kind == "GET" and "list-type" in environ["QUERY_STRING"]:
        kind = "LIST"
    asked["COPY" if "HTTP_X_AMZ_COPY_SOURCE" in environ else kind] += 1
    return s3(environ, start_response)
server = make_server("127.0.0.1", 0, counting, threaded=True, request_handler=Quiet)
print(server.server_port, flush=True)
server.serve_forever()
"""


def measure(folder: Path) -> list[str]:
    """Stage the parts, then count what publishing them asks for."""
    with pytest.MonkeyPatch.context() as environment, serving() as endpoint:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, "testing")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        options = {"endpoint_url": endpoint}
        storage, _ = open_storage(f"s3://{BUCKET}", options)
        storage.filesystem.mkdir(BUCKET)
        output = OutputFolder(f"{BUCKET}/out")
        ledger = DeltaLedger(f"s3://{output.ledger}", options)
        what = staged(storage, output)
        before, begun = requests_at(endpoint), time.monotonic()
        assert publish(storage, ledger, output, what) == 1
        seconds = time.monotonic() - begun
        asked = requests_at(endpoint) - before
        published = storage.list(output.path)
        assert sum(stat.size > 0 for stat in published) == PARTS
    return [
        "From the audit to the applied entry; moto's S3, a Python server, in a process of its own "
        "on loopback.",
        "",
        "| parts | seconds | requests | a part | of which |",
        "| --- | --- | --- | --- | --- |",
        f"| {PARTS:,} | {seconds:.0f} | {asked.total():,} | {asked.total() / PARTS:.2f} | "
        + ", ".join(f"{count:,} {kind}" for kind, count in asked.most_common())
        + " |",
    ]


@contextmanager
def serving() -> Iterator[str]:
    """An S3 that counts; yields its URL."""
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.kill()
        server.wait()


def requests_at(endpoint: str) -> Counter[str]:
    """Requests so far, by kind."""
    with urllib.request.urlopen(f"{endpoint}/asked") as answer:
        return Counter(json.load(answer))


def staged(storage: Storage, output: OutputFolder) -> Publication:
    """A run whose records name the parts, each of one row, as writes by partition leave them."""
    shard = Shard(0, "input", "v1", 1, rows=PARTS)
    plan = first_plan(shard_table([shard]), {"ledger_version": 0})
    run = output.run("run-1")

    def write(begin: int) -> None:
        rows = [(shard, row) for row in range(begin, begin + PARTS_A_RECORD)]
        store(storage, run, plan.digest, batch_of(rows, None), one_part_a_row)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(0, PARTS, PARTS_A_RECORD)))
    accepted = accept(load_records(storage, run), plan)
    return Publication("key", run, plan, accepted, ".json", drop_rows, drop_rows)


def one_part_a_row(batch: RowBatch) -> Encoded:
    """As where each row has a partition of its own."""
    values = batch.rows["value"].to_pylist()
    pairs = [[(int(key), value)] for key, value in zip(batch.ids, values, strict=True)]
    parts = [
        Part(json.dumps(pair).encode(), ".json", batch.ids[at : at + 1])
        for at, pair in enumerate(pairs)
    ]
    return Encoded(parts, None, "schema")
