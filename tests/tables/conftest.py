"""An output of each format, on a local disk or on S3, and who reads it without having made it."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.kinds.sinks import DeltaSink, IcebergSink, LanceSink, Sink
from tests.s3_server import S3
from tests.tables.bench import TableBench

SINKS: dict[str, type[Sink]] = {"delta": DeltaSink, "iceberg": IcebergSink, "lance": LanceSink}
OpenBench = Callable[..., TableBench]


@pytest.fixture(params=[*SINKS])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_bench(kind: str, tmp_path: Path) -> OpenBench:
    """Opens the same output as many times as one likes."""
    return lambda **more: TableBench(SINKS[kind](path=str(tmp_path / "out"), **more))


@pytest.fixture
def bench(open_bench: OpenBench) -> TableBench:
    return open_bench()


@pytest.fixture
def bench_on_s3(kind: str, s3: S3, tmp_path: Path) -> TableBench:
    name = "an out? #1" if kind == "lance" else "out"  # Polars and Iceberg do not read others
    url = s3.url(f"{uuid.uuid4().hex}/{name}")
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
    more = {"catalog": catalog} if kind == "iceberg" else {}
    return TableBench(SINKS[kind](path=url, storage_options=s3.storage_options, **more))
