"""What following a job costs the Prefect server: requests while a job of two minutes goes on."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.server_for_tests import database_in, server_for_tests
from tasks.spec_file import parse_spec

ROWS, BATCH, SECONDS_PER_BATCH = 12_000, 100, 1.0


def measure(folder: Path) -> list[str]:
    """Requests a second between the first and the last row."""
    from flows.batch_inference import batch_inference

    asked: list[tuple[float, str]] = []
    with pytest.MonkeyPatch.context() as patch, server_for_tests(database_in(folder)):
        count_requests(patch, asked)
        report = batch_inference(parse_spec(spec(folder)))
    assert report["rows"]["written"] == ROWS
    begun = asked[0][0] + (report["seconds"]["startup"] or 0.0)
    ended = begun + (report["seconds"]["steady"] or 0.0)
    during = Counter(what for at, what in asked if begun <= at <= ended)
    rate = during.total() / (ended - begun)
    return [
        f"A job of {ended - begun:.0f} s, four stages followed; HTTP requests to the Prefect "
        "server between the model's first and last row.",
        "",
        "| requests | a second | of which |",
        "| --- | --- | --- |",
        f"| {during.total()} | {rate:.2f} | "
        + ", ".join(f"{count} {what}" for what, count in during.most_common())
        + " |",
    ]


def count_requests(patch: pytest.MonkeyPatch, asked: list[tuple[float, str]]) -> None:
    """Note each request of Prefect's clients, when and what for."""
    send, send_async = httpx.Client.send, httpx.AsyncClient.send

    def note(request: httpx.Request) -> None:
        kind = request.url.path.removeprefix("/api/").split("/")[0]
        asked.append((time.time(), f"{request.method} {kind}"))

    def counted(client: Any, request: httpx.Request, **options: Any) -> Any:
        note(request)
        return send(client, request, **options)

    async def counted_async(client: Any, request: httpx.Request, **options: Any) -> Any:
        note(request)
        return await send_async(client, request, **options)

    patch.setattr(httpx.Client, "send", counted)
    patch.setattr(httpx.AsyncClient, "send", counted_async)


def spec(folder: Path) -> dict[str, Any]:
    """A job whose model sleeps."""
    source = folder / "input"
    source.mkdir()
    for number in range(12):
        ids = range(number * ROWS // 12, (number + 1) * ROWS // 12)
        table = pa.table({"id": list(ids), "x": [float(each) for each in ids]})
        pq.write_table(table, source / f"{number}.parquet")
    return {
        "source": {"kind": "parquet", "path": str(source)},
        "model": {
            "kind": "python",
            "class": "predictors:Double",
            "init": {"seconds": SECONDS_PER_BATCH},
        },
        "sink": {"kind": "parquet", "path": str(folder / "out")},
        "cluster": {"kind": "inline"},
        "resources": {"batch_size": BATCH},
        "stages": {"read": {"rows_per_batch": BATCH}},
        "environment": {"working_dir": str(Path(__file__).parents[1] / "flows" / "user_code")},
    }
