"""A ledger of years: hourly runs over a hundred new files each, 17,500 in two years."""

from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tasks.protocol import delta_ledger
from tasks.protocol.delta_ledger import KEPT, DeltaLedger
from tasks.protocol.ids import IdRuns
from tasks.protocol.ledger import Entry, Snapshot
from tasks.protocol.publishing import publish
from tests.protocol.bench import on_disk

FILES = 100
RUNS = 17_500


def hourly(run: int) -> Entry:
    """A run over so many new files."""
    names = [f"bucket/events/2026-12-31/23/part-{run:05}-{number:03}" for number in range(FILES)]
    inputs = pa.table({"path": names, "identity": ["v1" * 16] * FILES, "shard": [*range(FILES)]})
    return Entry(f"{run:032}", f"{run:016}", inputs, details={"model": "m" * 64})


def of_runs(runs: int) -> pa.Table:
    """The ledger's lines, as they come of the files of so many commits."""
    return pa.concat_tables([hourly(run).lines(run) for run in range(1, runs + 1)])


def test_it_is_read_once_for_each_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run looks ten times: that was ten times all of it, once it had more than 64 MiB."""
    lines = pa.concat_tables([hourly(2).lines(2)] * RUNS)

    def all_of_it(table: DeltaTable) -> pa.Table:
        assert not KEPT, "two versions of it would be in memory"
        return lines

    read = Mock(side_effect=all_of_it)
    monkeypatch.setattr(delta_ledger, "lines_of", read)
    ledger = DeltaLedger(str(tmp_path / "ledger"))
    for run in (1, 2):
        ledger.commit(hourly(run), Snapshot(run - 1, lines[:0]))
        assert ledger.look().lines is ledger.look().lines is lines
    assert read.call_count == 2


def test_ids_of_earlier_runs_files_are_not_read_to_publish_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 35,000 files that takes a second, once for each version of the ledger."""
    bench = on_disk(tmp_path)
    read = Mock(wraps=IdRuns.of_json)
    monkeypatch.setattr(IdRuns, "of_json", read)
    for run in range(6):
        read.reset_mock()
        what = bench.prepare(f"{run}", {f"{run}": "v1"})
        publish(bench.storage, bench.ledger, bench.output, what)
        assert read.call_count == 1, "of its own file, to move it in"
    assert len(bench.published()) == 6 * 3


def test_inputs_of_many_commits_take_no_more_memory_than_those_of_one() -> None:
    lines = of_runs(200)
    assert peak_of_inputs(lines) < 1.5 * peak_of_inputs(lines.combine_chunks())


def peak_of_inputs(lines: pa.Table) -> int:
    """The most of Arrow's memory that it takes to tell which inputs are published."""
    pool, others = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        assert len(Snapshot(200, lines).inputs) == 200 * FILES
        return int(pool.max_memory())
    finally:
        pa.set_memory_pool(others)
