"""Rows replace published ones of the same key, in the transaction that brings them."""

from collections.abc import Callable
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pydantic import ValidationError

from tasks.errors import InvalidSpec, KeysRepeated
from tasks.protocol.ledger import Entry, Ledger, Snapshot
from tests.noted_calls import noted_calls
from tests.tables.bench import TableBench
from tests.tables.conftest import SINKS, OpenBench
from tests.tables.faults import CRASH, LOST_REPLY, Fault, Killed, break_at
from tests.tables.foreigners import APPEND, COMPACT, EMPTY, iceberg, lance
from tests.tables.readers import frame_of

BY_ID: dict[str, Any] = {"mode": "upsert", "key": ["id"]}


def ids(*values: int | None) -> dict[str, Any]:
    return {"extra": {"id": pa.array(values, pa.int32())}}


def owners(bench: TableBench, version: Any = None) -> dict[int, str]:
    """The input that each key's row comes from."""
    rows = frame_of(bench, version).select("id", "path").sort("id").rows()
    assert len(rows) == len(dict(rows))
    return dict(rows)


@pytest.fixture
def bench(open_bench: OpenBench) -> TableBench:
    return open_bench(**BY_ID)


def test_a_row_replaces_that_of_its_key_in_one_transaction(bench: TableBench) -> None:
    bench.run("k1", {"a": "v1"}, **ids(1, 2, 3))
    old = bench.table.look("").version
    bench.run("k2", {"b": "v1"}, **ids(3, 4, 5))
    assert owners(bench) == {1: "a", 2: "a", 3: "b", 4: "b", 5: "b"}
    assert owners(bench, old) == {1: "a", 2: "a", 3: "a"}
    bench.run("k3", {"c": "v1"}, **ids(1, 2, 4))
    assert owners(bench) == {1: "c", 2: "c", 3: "b", 4: "c", 5: "b"}


def test_a_changed_input_takes_its_keys_along(bench: TableBench) -> None:
    """And what it had replaced does not come back."""
    bench.run("k1", {"a": "v1"}, **ids(1, 2, 3))
    bench.run("k2", {"b": "v1"}, **ids(3, 4, 5))
    bench.run("k3", {"b": "v2"}, **ids(2, 4, 6))
    assert owners(bench) == {1: "a", 2: "b", 4: "b", 6: "b"}
    bench.run("k4", {"a": "v1"}, replaces=True, **ids(1, 2, 3))
    assert owners(bench) == {1: "a", 2: "a", 3: "a"}


@pytest.mark.parametrize("how", [CRASH, LOST_REPLY])
@pytest.mark.parametrize("call", ["ledger.commit", "table.commit"])
def test_a_crash_is_mended(bench: TableBench, how: str, call: str) -> None:
    before, after = {1: "a", 2: "a", 3: "a"}, {1: "a", 2: "a", 3: "b", 4: "b", 5: "b"}
    bench.run("k1", {"a": "v1"}, **ids(1, 2, 3))
    what, fault = bench.prepare("k2", {"b": "v1"}, **ids(3, 4, 5)), Fault(call, how)
    with suppress(Killed):
        break_at(bench, fault).put(what)
    assert fault.struck
    assert owners(bench) == (before if how == CRASH else after)
    bench.put(what)
    assert owners(bench) == after


def test_who_is_faster_is_replaced(bench: TableBench, open_bench: OpenBench) -> None:
    """The later entry is made anew on top of the earlier one, which it had not seen."""
    bench.run("k0", {"z": "v1"}, **ids(9, 8, 7))
    what, late = bench.prepare("k1", {"a": "v1"}, **ids(1, 2, 3)), open_bench(**BY_ID)
    late.ledger = Late(late.ledger, lambda: bench.run("k2", {"b": "v1"}, **ids(3, 4, 5)))
    late.put(what)
    assert owners(bench) == {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 7: "z", 8: "z", 9: "z"}


class Late:
    """A ledger to which somebody else commits before this process does."""

    def __init__(self, ledger: Ledger, first: Callable[[], object]) -> None:
        self.ledger, self.first = ledger, [first]
        self.look, self.settle = ledger.look, ledger.settle

    def commit(self, entry: Entry, seen: Snapshot) -> int:
        while self.first:
            self.first.pop()()
        return self.ledger.commit(entry, seen)


def test_rows_of_others_stay(bench: TableBench) -> None:
    bench.run("k1", {"a": "v1"}, **ids(1, 2, 3))
    APPEND[bench.kind](bench)
    bench.run("k2", {"b": "v1"}, **ids(1, 2, 3))
    found = frame_of(bench).select("path", "id").sort("path", "id").rows()
    assert found == [("b", 1), ("b", 2), ("b", 3), ("elsewhere", None)]


def test_rows_that_were_moved_are_never_doubled(bench: TableBench) -> None:
    bench.run("k1", {"a": "v1"}, **ids(1, 2, 3))
    bench.run("k2", {"b": "v1"}, **ids(4, 5, 6))
    COMPACT[bench.kind](bench)
    again = bench.prepare("k3", {"c": "v1"}, **ids(1, 2, 7))
    with pytest.raises(
        InvalidSpec, match=r"lost 2 files of this output, .* and has others"
    ) as error:
        bench.put(again)
    assert owners(bench) == {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "b"}
    go_back(bench, str(error.value))
    bench.put(again)
    assert owners(bench) == {1: "c", 2: "c", 3: "a", 4: "b", 5: "b", 6: "b", 7: "c"}


def go_back(bench: TableBench, said: str) -> None:
    """Do as an error says that the table is to be brought back."""
    call = said.partition("Restore it with ")[2].partition(", which")[0]
    if bench.kind == "iceberg":
        with iceberg(bench) as table:
            eval(call, {"table": table})
    else:
        import lance

        eval(call, {"DeltaTable": DeltaTable, "lance": lance})


@pytest.mark.parametrize("kind", ["lance"])
@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_column_that_others_have_filled_loses_no_value_unseen(
    bench: TableBench, *, is_dropped: bool
) -> None:
    """Of rows that stay, too, whose file is written anew."""
    bench.run("k1", {"a": "v1"}, **ids(1, 2, 3))
    lance(bench).add_columns({"theirs": "id + 100"})
    again = bench.prepare("k2", {"b": "v1"}, **ids(3, 4, 5))
    with pytest.raises(InvalidSpec, match=r"filled a column .* \(dropping it is enough\)") as error:
        bench.put(again)
    assert frame_of(bench)["theirs"].to_list() == [101, 102, 103]
    if is_dropped:
        lance(bench).drop_columns(["theirs"])
        bench.sink.check()
    else:
        go_back(bench, str(error.value))
    bench.put(again)
    assert owners(bench) == {1: "a", 2: "a", 3: "b", 4: "b", 5: "b"}


@pytest.mark.parametrize("kind", ["delta"])
def test_what_is_vacuumed_cannot_be_gone_back_to(bench: TableBench) -> None:
    bench.run("k1", {"a": "v1"}, **ids(1, 2, 3))
    bench.run("k2", {"b": "v1"}, **ids(4, 5, 6))
    COMPACT[bench.kind](bench)
    table = DeltaTable(bench.sink.path)
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    again = bench.prepare("k3", {"c": "v1"}, **ids(1, 2, 7))
    with pytest.raises(InvalidSpec, match=r"No version .* remains: delete all of the table's"):
        bench.put(again)
    EMPTY[bench.kind](bench)
    bench.run("k4", {"a": "v1", "c": "v1"}, replaces=True, **ids(1, 2, 3, 7, 8, 9))
    assert len(owners(bench)) == 6


@pytest.mark.parametrize("is_vacuumed", [False, True])
def test_an_emptied_table_is_filled_again(bench: TableBench, *, is_vacuumed: bool) -> None:
    bench.run("k1", {"a": "v1"}, **ids(1, 2, 3))
    EMPTY[bench.kind](bench)
    if is_vacuumed:
        lying(bench, "part-00001").unlink()
    bench.run("k2", {"b": "v1"}, **ids(3, 4, 5))
    assert owners(bench) == {3: "b", 4: "b", 5: "b"}
    bench.run("k3", {"c": "v1"}, **ids(4, 6, 7))
    assert owners(bench) == {3: "b", 4: "c", 5: "b", 6: "c", 7: "c"}


def lying(bench: TableBench, name: str) -> Path:
    """The one data file whose name begins so."""
    (found,) = Path(bench.sink.path).glob(f"**/{name}*")
    return found


@pytest.mark.parametrize("kind", ["delta"])
@pytest.mark.parametrize("by_key", [False, True])
@pytest.mark.parametrize("is_vacuumed", [False, True])
def test_rows_that_somebody_has_deleted_stay_deleted(
    open_bench: OpenBench, *, by_key: bool, is_vacuumed: bool
) -> None:
    """Whichever way some rows of their file are replaced."""
    key = {"mode": "upsert", "key": ["day", "id"]} if by_key else {}
    bench = open_bench(partition_by=["day"], **key)
    days = pa.array(["x", "x", "y"] * 2)
    rows = {"id": pa.array([1, 2, 3, 4, 5, 6]), "day": days}
    bench.run("k1", {"a": "v1", "b": "v1"}, extra=rows)
    DeltaTable(bench.sink.path).delete("day = 'x'")
    if is_vacuumed:
        lying(bench, "day=x/part-00001").unlink()
    again = {"c": "v1"} if by_key else {"a": "v2"}
    bench.run("k2", again, extra={"id": rows["id"][:3], "day": days[:3]})
    (new,) = again
    found = frame_of(bench).select("id", "path").sort("id").rows()
    assert found == [(1, new), (2, new), (3, new), (6, "b")]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_key_may_be_in_the_folders(open_bench: OpenBench) -> None:
    bench = open_bench(mode="upsert", key=["day", "id"], partition_by=["day"])
    days = pa.array(["x", "x", "y"])
    bench.run("k1", {"a": "v1"}, extra={"id": pa.array([1, 2, 1]), "day": days})
    bench.run("k2", {"b": "v1"}, extra={"id": pa.array([1, 3, 2]), "day": days})
    found = frame_of(bench).select("day", "id", "path").sort("day", "id").rows()
    assert found == [("x", 1, "b"), ("x", 2, "a"), ("x", 3, "b"), ("y", 1, "a"), ("y", 2, "b")]


@pytest.mark.parametrize("kind", ["delta"])
def test_a_key_names_one_row_of_a_run(bench: TableBench) -> None:
    with pytest.raises(
        KeysRepeated, match=r"\['id'\] are the same in several .* 1 time, such as \[{'id': 1}\]"
    ):
        bench.run("k1", {"a": "v1"}, **ids(1, 1, 2))
    with pytest.raises(KeysRepeated):
        bench.run("k1b", {"a": "v1"}, replaces=True, **ids(1, 1, 2))
    with pytest.raises(InvalidSpec, match=r"sink.key: \['id'\] is missing in some rows"):
        bench.prepare("k2", {"a": "v1"}, **ids(1, None, 2))
    with pytest.raises(InvalidSpec, match=r"sink.key: \['id'\] are not among \['path'"):
        bench.prepare("k3", {"a": "v1"})
    with pytest.raises(InvalidSpec, match=r"add them to sink.keep_columns; did you mean idx\?$"):
        bench.prepare("k3b", {"a": "v1"}, extra={"idx": 5})
    with pytest.raises(InvalidSpec, match=r"sink.key: {'id': 'double'} cannot identify a row"):
        bench.prepare("k4", {"a": "v1"}, extra={"id": 0.5})
    assert bench.ledger.look().version == 0


@pytest.mark.parametrize("kind", ["lance"])
@pytest.mark.parametrize(
    "key",
    [
        pa.array(["x", "y", "z"], pa.large_string()),
        pa.array([b"x", b"y", b"z"], pa.large_binary()),
        pa.array([1001, 1002, 1003], pa.timestamp("ns")),  # within one microsecond
    ],
)
def test_a_key_is_of_the_types_that_a_table_keeps(bench: TableBench, key: pa.Array) -> None:
    bench.run("k1", {"a": "v1"}, extra={"id": key})
    bench.run("k2", {"b": "v1"}, extra={"id": key.take([1, 2, 0])})
    assert frame_of(bench)["path"].to_list() == ["b"] * 3


def test_the_newest_of_a_key_counts(open_bench: OpenBench) -> None:
    """Of one run's rows; a run replaces what former runs have published."""
    bench = open_bench(**BY_ID, newest_by="at")
    dates = pa.array([date(2026, 1, 1), date(2026, 1, 2), None], pa.date32())
    keys, times = pa.array([1, 1, 1, 2, 2, 2]), pa.concat_arrays([dates] * 2)
    first: dict[str, Any] = {"extra": {"id": keys, "at": times}}
    bench.run("k1", {"a": "v1", "b": "v1"}, **first)
    assert frame_of(bench).select("id", "row").sort("id").rows() == [(1, 1), (2, 1)]
    old = pa.array([date(2025, 1, 1), date(2025, 1, 2), None], pa.date32())
    bench.run("k2", {"c": "v1"}, extra={"id": pa.array([2, 2, 3]), "at": old})
    found = frame_of(bench).select("id", "path", "row").sort("id").rows()
    assert found == [(1, "a", 1), (2, "c", 1), (3, "c", 2)]
    bench.run("k3", {"a": "v1", "b": "v1"}, replaces=True, **first)
    assert owners(bench) == {1: "a", 2: "b"}


def test_pieces_of_a_row_come_and_leave_together(bench: TableBench) -> None:
    """As those of a text that has become shorter."""
    bench.run("k1", {"a": "v1"}, **ids(1, 2, 3), pieces=[3, 1, 2])
    assert frame_of(bench)["id"].sort().to_list() == [1, 1, 1, 2, 3, 3]
    bench.run("k2", {"b": "v1"}, **ids(1, 2, 4), pieces=[2, 2, 1])
    found = frame_of(bench).select("id", "path").sort("id").rows()
    assert found == [(1, "b"), (1, "b"), (2, "b"), (2, "b"), (3, "a"), (3, "a"), (4, "b")]
    with pytest.raises(KeysRepeated, match=r"1 time, such as \[{'id': 5}\]"):
        bench.run("k3", {"c": "v1"}, **ids(5, 5, 6), pieces=[2, 1, 2])


@pytest.mark.parametrize("kind", ["delta"])
def test_pieces_of_the_newest_row_count(open_bench: OpenBench) -> None:
    bench = open_bench(**BY_ID, newest_by="at")
    keys, times = pa.array([1, 1, 2]), pa.array([5, 7, 1])
    bench.run("k1", {"a": "v1"}, extra={"id": keys, "at": times}, pieces=[3, 2, 2])
    found = frame_of(bench).select("id", "row").sort("id", "row").rows()
    assert found == [(1, 1), (1, 1), (2, 2), (2, 2)]
    with pytest.raises(KeysRepeated, match=r"\['id', 'at'\] are the same"):
        bench.run("k2", {"b": "v1"}, extra={"id": keys, "at": 5}, pieces=[2, 2, 1])


@pytest.mark.parametrize("kind", ["delta"])
def test_a_run_without_a_row_takes_none_out(open_bench: OpenBench) -> None:
    """As where all are filtered, or a redrive sets all of them aside again."""
    bench = open_bench(**BY_ID, newest_by="at")
    numbers, nothing = pa.array([1, 2, 3]), pa.array([], pa.int64())
    bench.run("k1", {"a": "v1"}, extra={"id": numbers, "at": numbers})
    what = bench.run("k2", {}, extra={"id": nothing, "at": nothing})
    assert bench.ledger.look().version_of("k2") == 2
    assert (what.chosen, owners(bench)) == ({}, {1: "a", 2: "a", 3: "a"})


@pytest.mark.parametrize("kind", ["delta"])
def test_a_tie_among_older_rows_is_none(open_bench: OpenBench) -> None:
    bench = open_bench(**BY_ID, newest_by="at")
    times = pa.array([5, 5, 7, None, None, 1])
    keys = pa.array([1, 1, 1, 2, 2, 2])
    bench.run("k1", {"a": "v1", "b": "v1"}, extra={"id": keys, "at": times})
    assert owners(bench) == {1: "a", 2: "b"}
    assert sorted(frame_of(bench)["at"].to_list()) == [1, 7]
    nothing = pa.array([None, None, None], pa.int64())
    with pytest.raises(
        KeysRepeated, match=r"newest_by: \['id', 'at'\] are the same .* a column that"
    ):
        bench.run("k2", {"c": "v1"}, extra={"id": pa.array([3, 3, 4]), "at": nothing})


@pytest.mark.parametrize("kind", ["delta"])
def test_what_tells_the_newest_is_of_use(open_bench: OpenBench) -> None:
    bench = open_bench(**BY_ID, newest_by="at")
    with pytest.raises(
        KeysRepeated, match=r"\['id', 'at'\] are the same .* such as \[{'id': 1, 'at': 5}"
    ):
        bench.run("k1", {"a": "v1"}, extra={"id": pa.array([1, 1, 2]), "at": 5})
    with pytest.raises(InvalidSpec, match=r"sink.newest_by: 'at' is not among \['path'"):
        bench.prepare("k2", {"a": "v1"}, **ids(1, 2, 3))
    with pytest.raises(
        InvalidSpec, match=r"sink.newest_by: {'at': 'list<item: int64>'} cannot be ordered"
    ):
        bench.prepare("k3", {"a": "v1"}, extra={"id": 1, "at": [1]})


@pytest.mark.parametrize("given", [{"mode": "upsert"}, {"key": ["id"]}, {"newest_by": "at"}])
def test_mode_and_key_need_each_other(kind: str, given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"must be set together|is only for mode: upsert"):
        SINKS[kind].model_validate({"path": "/out", **given})


@pytest.mark.parametrize("kind", ["delta"])
def test_keys_are_compared_a_few_files_at_a_time(
    bench: TableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.publishing.row_keys.COMPARED_AT_ONCE", 4)
    for name, first in [("a", 1), ("b", 4), ("c", 7)]:
        bench.run(f"k{name}", {name: "v1"}, **ids(first, first + 1, first + 2))
    bench.run("k4", {"d": "v1"}, **ids(9, 1, 5))
    assert owners(bench) == {
        1: "d", 2: "a", 3: "a", 4: "b", 5: "d", 6: "b", 7: "c", 8: "c", 9: "d"
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["delta"])
def test_no_large_file_is_fetched_whole_for_its_keys(
    bench: TableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.run("k1", {"a": "v1"}, **ids(1, 2, 3))
    (file,) = bench.ledger.look().files.values()
    path = file.target(bench.output)
    monkeypatch.setattr("tasks.publishing.output_rows.SMALL_BYTES", file.size - 1)
    fetched = noted_calls(monkeypatch, "read")
    bench.run("k2", {"b": "v1"}, **ids(4, 5, 6))
    assert path not in fetched
    bench.run("k3", {"c": "v1"}, **ids(1, 7, 8))
    assert path in fetched  # to be written anew
