"""A table and its ledger, in memory: every call of publishing goes wrong once, in every way."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from unittest.mock import Mock

import pytest

from tasks.errors import StaleLedger, StaleTable
from tasks.protocol.ids import IdRuns, Mask, row_of
from tasks.protocol.layout import OutputFolder
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.publication import Publication
from tasks.protocol.publishing import publish
from tasks.protocol.table import TableState, change_for, refuse_moved, taken_out
from tests.protocol.bench import Bench, in_memory
from tests.simulation.storage import Calm, Lost
from tests.simulation.table import SimTable
from tests.simulation.world import Killed

BEFORE, AFTER, LOST_REQUEST, LOST_REPLY = "before", "after", "lost request", "lost reply"


class OneFault(Calm):
    """Strikes at one call, once."""

    def __init__(self) -> None:
        self.calls, self.at, self.how = 0, -1, ""

    def before(self, call: str, path: str, lost: Lost) -> None:
        self.calls += 1
        self.strike(BEFORE, LOST_REQUEST, lost)

    def after(self, call: str, path: str, lost: Lost) -> None:
        self.strike(AFTER, LOST_REPLY, lost)

    def strike(self, crash: str, loss: str, lost: Lost) -> None:
        if self.calls == self.at and self.how in (crash, loss):
            self.at = -1
            raise Killed if self.how == crash else lost()


def table_bench(fault: OneFault) -> tuple[Bench, SimTable]:
    bench, table = in_memory(), SimTable(fault)
    bench.storage.faults = bench.ledger.faults = fault  # type: ignore[attr-defined]
    bench.output = OutputFolder("out", table)
    return bench, table


def put(bench: Bench, what: Publication) -> None:
    publish(bench.storage, bench.ledger, bench.output, what)


class FirstRows:
    """Each input's first row replaces those of all others."""

    @property
    def chosen(self) -> dict[str, Mask]:
        return {}

    def left(self, files: list[LedgerFile]) -> Iterator[Mask]:
        return (row_of(file.ids.ids()) != 0 for file in files)


@pytest.mark.parametrize(("keys", "left"), [(None, 9), (FirstRows(), 8)])
@pytest.mark.parametrize("how", [BEFORE, AFTER, LOST_REQUEST, LOST_REPLY])
def test_the_table_has_what_the_ledger_says_after_any_crash(
    how: str, keys: FirstRows | None, left: int
) -> None:
    for call in count(1):
        fault = OneFault()
        bench, table = table_bench(fault)
        put(bench, bench.prepare("k1", {"a": "v1", "b": "v1"}))
        what = bench.prepare("k2", {"b": "v2", "c": "v1"}, keys=keys)
        fault.calls, fault.at, fault.how = 0, call, how
        with suppress(Killed, ConnectionError, StaleLedger, StaleTable):
            put(bench, what)
        calls, fault.at = fault.calls, -1
        put(bench, what)
        assert table.files == set(bench.ledger.look().files), f"{how} call {call}"
        assert (table.version, len(bench.published())) == (2, left), f"{how} call {call}"
        if calls < call:
            break
    assert call > 15


def test_ids_are_not_read_to_tell_what_is_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A publication looks back at earlier versions time and again, and years have many files."""
    bench, table = table_bench(OneFault())
    for number in range(6):
        put(bench, bench.prepare(f"k{number}", {f"{number}": "v1"}))
    read = Mock(wraps=IdRuns.of_json)
    monkeypatch.setattr(IdRuns, "of_json", read)
    seen = replace(bench.ledger.look())  # as somebody sees it who has looked at nothing yet
    assert change_for(table, table.look(seen.id), seen, seen.version) is None
    assert taken_out(table, seen) == set()
    refuse_moved(table, seen)
    assert (len(seen.files), read.call_count) == (6, 0)


class Restless(SimTable):
    """Somebody has always just committed."""

    def look(self, ledger_id: str) -> TableState:
        return replace(super().look(ledger_id), version=-1)


def test_others_who_never_stop_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.protocol.backoff.LONGEST_WAIT_SECONDS", 0.0)
    bench, _ = table_bench(OneFault())
    bench.output = OutputFolder("out", Restless(Calm()))
    with pytest.raises(StaleTable, match="did not accept version 1"):
        put(bench, bench.prepare("k1", {"a": "v1"}))
