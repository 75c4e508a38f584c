"""What an Iceberg table's history says to those who follow it, and how long it is to be read."""

import time

import pytest

from tasks.errors import InvalidSpec, StaleTable
from tasks.kinds.tables.iceberg_output import IcebergOutput
from tests.tables.bench import TableBench, rows_of
from tests.tables.readers import rows_in

NIGHTS = {f"{number}": "v1" for number in range(7)}


@pytest.fixture
def kind() -> str:
    return "iceberg"


def test_new_inputs_are_appended(bench: TableBench) -> None:
    """Spark, which follows a table by its appends, ends at a snapshot that overwrites."""
    for night in NIGHTS:
        bench.run(night, {night: "v1"})
    bench.run("changed", {"0": "v2"})
    table = bench.table
    assert isinstance(table, IcebergOutput)
    with table.loaded() as loaded:
        told = [each.summary.operation.value for each in loaded.metadata.snapshots]
    assert told == ["append"] * len(NIGHTS) + ["overwrite"]
    assert rows_in(bench) == rows_of({**NIGHTS, "0": "v2"})


def test_manifests_of_many_nights_become_few(bench: TableBench) -> None:
    bench.run("first", {"first": "v1"})
    table = bench.table
    assert isinstance(table, IcebergOutput)
    with table.loaded() as loaded, loaded.transaction() as transaction:
        transaction.set_properties({"commit.manifest.min-count-to-merge": "3"})
    for night in NIGHTS:
        bench.run(night, {night: "v1"})
    with table.loaded() as loaded:
        assert len(loaded.current_snapshot().manifests(loaded.io)) <= 3
    assert rows_in(bench) == rows_of({"first": "v1", **NIGHTS})
    bench.run("changed", {"3": "v2"})
    assert rows_in(bench) == rows_of({"first": "v1", **NIGHTS, "3": "v2"})


def test_no_change_goes_back_in_time(bench: TableBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark and others read no table of which pyiceberg has written that."""
    monkeypatch.setattr("tasks.protocol.table.COMMIT_ATTEMPTS", 2)
    now = time.time
    with monkeypatch.context() as ahead:
        ahead.setattr(time, "time", lambda: now() + 300)
        bench.run("k1", {"a": "v1"})
    with pytest.raises(
        StaleTable, match=r"was last changed (2\d\d|300) s in the future, .* clocks"
    ):
        bench.run("k2", {"b": "v1"})
    assert rows_in(bench) == rows_of({"a": "v1"})
    with pytest.raises(
        InvalidSpec, match=r"^sink\.path: by .* (2\d\d|300) s in the future, .* UTC$"
    ):
        bench.sink.check()
    monkeypatch.setattr(time, "time", lambda: now() + 250)
    bench.sink.check()
    bench.run("k3", {"c": "v1"})
    assert rows_in(bench) == rows_of({"a": "v1", "b": "v1", "c": "v1"})
