"""The ledger's table as others maintain it, who do that to each Delta table of a bucket."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tasks.errors import InvalidSpec
from tasks.kinds.sinks import DeltaSink, IcebergSink, LanceSink, Sink
from tasks.plan import make_plan
from tasks.protocol import delta_ledger
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.ledger import Ledger
from tasks.protocol.publishing import publish
from tests.damaged.states import unfinished
from tests.protocol.bench import Bench, on_disk, put
from tests.protocol.test_ledger_contract import entry, file
from tests.reporting import run_spec
from tests.tables.bench import TableBench, rows_of
from tests.tables.readers import rows_in

Maintain = Callable[[DeltaTable], object]


def vacuum(table: DeltaTable) -> None:
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


def clean_log(table: DeltaTable) -> None:
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
    table.create_checkpoint()
    table.cleanup_metadata()


MAINTENANCE: dict[str, Maintain] = {
    "compact": lambda table: table.optimize.compact(),
    "cluster": lambda table: table.optimize.z_order(["path"]),
    "vacuum": vacuum,
    "clean log": clean_log,
}


@pytest.fixture(params=[*MAINTENANCE])
def maintain(request: pytest.FixtureRequest) -> Callable[[Ledger], None]:
    """Maintains a ledger's table, each time by versions of its own."""

    def maintain(ledger: Ledger) -> None:
        assert isinstance(ledger, DeltaLedger)
        table = DeltaTable(ledger.url)
        before = table.version()
        vacuum(table)
        MAINTENANCE[request.param](table)
        table.alter.set_table_description("maintained")  # of one file nothing is compacted
        assert DeltaTable(ledger.url).version() > before

    return maintain


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return on_disk(tmp_path)


def test_versions_of_others_publish_nothing(
    bench: Bench, maintain: Callable[[Ledger], None]
) -> None:
    rows = []
    for number, path in enumerate("abc"):
        what = bench.prepare(path, {path: "v1", "same": f"v{number}"}, rejects=1)
        if number:
            maintain(bench.ledger)
        version = publish(bench.storage, bench.ledger, bench.output, what)
        rows += [(path, "v1", row) for row in (0, 2)]
        seen = bench.ledger.look()
        assert (seen.version, len(seen.entries)) == (version, number + 1)
        assert bench.published() == bench.listed()
        assert bench.published() == sorted([*rows, *(("same", f"v{number}", r) for r in (0, 2))])
        before = bench.storage.read(bench.output.applied)
        maintain(bench.ledger)
        again = bench.ledger.look()
        assert (again.version, again.entries) == (version, seen.entries)
        assert publish(bench.storage, bench.ledger, bench.output, what) == version
        assert bench.storage.read(bench.output.applied) == before


@pytest.mark.parametrize("sink", [DeltaSink, IcebergSink, LanceSink])
def test_a_table_is_published_to_beside_them(
    tmp_path: Path, sink: type[Sink], maintain: Callable[[Ledger], None]
) -> None:
    """The run that had brought such a version was looked for: a KeyError."""
    bench = TableBench(sink(path=str(tmp_path / "out")))
    bench.run("k1", {"a": "v1", "b": "v1"})
    maintain(bench.ledger)
    bench.run("k2", {"b": "v2"})
    maintain(bench.ledger)
    bench.run("k3", {"c": "v1"}, replaces=True, drops_others=True)
    assert rows_in(bench) == rows_of({"c": "v1"})


def test_a_run_goes_on_that_was_begun_before_them(
    tmp_path: Path, maintain: Callable[[Ledger], None]
) -> None:
    """It was planned anew, and `clean` took what it had predicted for given up."""
    state = unfinished(tmp_path)
    begun = make_plan(state.spec)
    assert begun.rows_before
    maintain(begun.ledger)
    again = make_plan(state.spec)
    assert (again.run, again.rows_before) == (begun.run, begun.rows_before)
    run_spec(state.spec)
    assert len(state.ids()) == len(set(state.ids()))


def test_the_entry_after_them_gathers_where_they_took_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_ledger, "MERGED", 4)
    ledger = DeltaLedger(str(tmp_path / "ledger"))
    many = 0
    while (seen := ledger.look()).version < 18:
        if seen.next_version in (4, 12, 16):
            MAINTENANCE["compact"](DeltaTable(ledger.url))
            vacuum(DeltaTable(ledger.url))
            continue
        many += 1
        made = entry(f"k{many}", (f"in-{many}", "v1", 0), files=(file(f"part-{many}"),))
        assert ledger.commit(made, seen) == seen.next_version
    seen = DeltaLedger(str(tmp_path / "ledger")).look()
    assert [each["run_key"] for each in seen.entries.values()] == [f"k{n + 1}" for n in range(many)]
    assert {*Counter(seen.lines["version"].to_pylist()).values()} == {3}
    assert len(DeltaTable(ledger.url).file_uris()) < 4


@pytest.mark.parametrize("how", ["restored", "deleted from"])
def test_a_ledger_that_others_have_put_back_is_refused(bench: Bench, how: str) -> None:
    """Its version went up, as by any commit: what it had forgotten was published once more."""
    for path in "abc":
        put(bench, path, **{path: "v1"})
    rows, ledger = bench.published(), bench.ledger
    assert isinstance(ledger, DeltaLedger)
    table = DeltaTable(ledger.url)
    if how == "restored":
        table.restore(1)
    else:
        table.delete("version > 1")
    said = r"ends with version 1, although version 3 was published: .*\.restore\(3\)$"
    with pytest.raises(InvalidSpec, match=said):
        bench.ledger.look()
    DeltaTable(ledger.url).restore(3)
    assert put(bench, "d", d="v1") == bench.ledger.look().version == 6
    assert bench.published() == bench.listed() == [*rows, *(("d", "v1", row) for row in range(3))]
