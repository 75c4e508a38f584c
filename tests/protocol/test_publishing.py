"""Publishing and applying: one entry a run, and a folder that follows the ledger."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tasks.errors import InvalidSpec, OutputHeld, RowsMissing, StaleLedger
from tasks.protocol import backoff, publishing
from tasks.protocol.acceptance import accept
from tasks.protocol.applying import MOVERS, applied_version, bring_up_to_date
from tasks.protocol.ledger import Entry, Snapshot
from tasks.protocol.publication import Publication
from tasks.protocol.publishing import publish
from tasks.protocol.rewriting import shards_by_run
from tests.protocol.bench import Bench, Row, in_memory, on_disk
from tests.simulation.storage import Calm, SimStorage

SCHEMAS = [pa.schema([pa.field("value", pa.string(), metadata={"a": each})]) for each in "xy"]


@pytest.fixture(params=["in memory", "on disk"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return in_memory() if request.param == "in memory" else on_disk(tmp_path)


def put(bench: Bench, what: Publication) -> int:
    return publish(bench.storage, bench.ledger, bench.output, what)


def three(path: str, identity: str) -> list[Row]:
    return [(path, identity, row) for row in range(3)]


def test_shards_are_told_apart_by_run() -> None:
    lines = pa.table({"run_id": ["b", "a", "b", "b"], "shard": [7, 7, 2, 8]})
    chunked = pa.concat_tables([lines.slice(2), lines.slice(0, 2)])
    found = {run_id: shards.tolist() for run_id, shards in shards_by_run(chunked).items()}
    assert found == {"a": [7], "b": [2, 7, 8]}
    assert shards_by_run(lines.slice(0, 0)) == {}


def test_rows_are_published_once(bench: Bench) -> None:
    what = bench.prepare("k", {"a": "v1", "b": "v1"}, writes=3)
    assert put(bench, what) == 1
    expected = three("a", "v1") + three("b", "v1")
    assert bench.published() == bench.listed() == expected
    assert bench.storage.read(bench.output.success) == b""


def test_publishing_again_changes_nothing(bench: Bench) -> None:
    what = bench.prepare("k", {"a": "v1"})
    before = put(bench, what), bench.storage.list(bench.output.path)
    assert (put(bench, what), bench.storage.list(bench.output.path)) == before


def test_a_schema_is_told_again_only_where_another_was_since(bench: Bench) -> None:
    """That of a wide table is long, and hourly runs would fill the ledger with it."""
    x, y = (schema.serialize().to_pybytes().hex() for schema in SCHEMAS)
    runs = [(x, False), (x, False), (y, False), (x, False), (x, True), (x, False)]
    for number, (schema, replaces) in enumerate(runs):
        more: dict[str, Any] = {"details": {"schema": schema}, "replaces": replaces}
        put(bench, bench.prepare(f"{number}", {f"{number}": "v1"}, **more))
        assert bench.ledger.look().schema == bytes.fromhex(schema)
    entries = bench.ledger.look().entries.values()
    assert [entry["schema"] for entry in entries] == [x, None, y, x, x, None]


def test_a_gap_is_never_published(bench: Bench) -> None:
    what = bench.prepare("k", {"a": "v1", "b": "v1"}, writes=3)
    less = accept(list(what.accepted.records[:-1]), what.plan)
    with pytest.raises(RowsMissing, match="do not cover 1 shard, the first of b: nothing is"):
        put(bench, replace(what, accepted=less))
    assert bench.ledger.look().version == 0


def test_rejected_rows_are_set_aside(bench: Bench) -> None:
    put(bench, bench.prepare("k", {"a": "v1"}, rejects=1, writes=2))
    assert bench.published() == [("a", "v1", 0), ("a", "v1", 2)]
    assert bench.set_aside() == [("a", "v1", 1)]


def test_changed_input_replaces_its_own_rows_only(bench: Bench) -> None:
    put(bench, bench.prepare("k1", {"a": "v1", "b": "v1"}, rejects=1))
    put(bench, bench.prepare("k2", {"b": "v2"}))
    a = [("a", "v1", 0), ("a", "v1", 2)]
    assert bench.published() == bench.listed() == a + three("b", "v2")
    assert bench.set_aside() == [("a", "v1", 1)]
    put(bench, bench.prepare("k3", {"a": "v2"}))
    assert bench.published() == bench.listed() == three("a", "v2") + three("b", "v2")
    assert bench.set_aside() == []


def test_files_of_other_inputs_are_not_touched(bench: Bench) -> None:
    put(bench, bench.prepare("k1", {"a": "v1", "b": "v1"}, writes=2))
    before = set(bench.ledger.look().files)
    put(bench, bench.prepare("k2", {"b": "v2"}))
    assert len(before & set(bench.ledger.look().files)) == 1


def test_replacing_removes_all_that_was_there(bench: Bench) -> None:
    put(bench, bench.prepare("k1", {"a": "v1", "b": "v1"}, rejects=1))
    put(bench, bench.prepare("k2", {"a": "v2"}, replaces=True))
    assert bench.published() == bench.listed() == three("a", "v2")
    assert bench.storage.list(bench.output.quarantine) == []


def test_two_publishers_of_one_run_make_one_entry(bench: Bench) -> None:
    one, other = (bench.prepare("k", {"a": "v1"}) for _ in range(2))
    assert put(bench, one) == put(bench, other) == 1
    assert bench.ledger.look().version == 1
    assert bench.published() == three("a", "v1")


def test_another_run_on_the_same_inputs_is_refused(bench: Bench) -> None:
    one = bench.prepare("k1", {"a": "v1", "b": "v1"})
    other = bench.prepare("k2", {"b": "v1", "c": "v1"})
    put(bench, one)
    with pytest.raises(OutputHeld, match="run run-k1 has published b since this run was planned;"):
        put(bench, other)
    assert bench.published() == bench.listed() == three("a", "v1") + three("b", "v1")


def test_a_new_version_drops_nothing_that_was_published_since_it_was_planned(bench: Bench) -> None:
    put(bench, bench.prepare("k1", {"a": "v1", "gone": "v1"}))
    new = bench.prepare("k2", {"a": "v1", "b": "v1"}, replaces=True)
    same = bench.prepare("k3", {"b": "v1"})
    other = bench.prepare("k4", {"c": "v1", "d": "v1"})
    put(bench, same)
    put(bench, other)
    said = "run run-k4 has published c and 1 other input since this run was planned, which this new"
    with pytest.raises(OutputHeld, match=said):
        put(bench, new)
    everything = [row for path in ("a", "b", "c", "d", "gone") for row in three(path, "v1")]
    assert bench.published() == bench.listed() == everything
    put(bench, replace(new, drops_others=True))
    assert bench.published() == bench.listed() == three("a", "v1") + three("b", "v1")


def test_a_run_looks_at_what_is_published_by_the_moment_of_its_entry(bench: Bench) -> None:
    versions = list[int]()

    def check(seen: Snapshot) -> None:
        versions.append(seen.version)
        if seen.version:
            raise OutputHeld("no")

    one, other = bench.prepare("k1", {"a": "v1"}), bench.prepare("k2", {"b": "v1"}, check=check)
    put(bench, one)
    with pytest.raises(OutputHeld, match="no"):
        put(bench, other)
    assert versions == [1]
    assert bench.published() == three("a", "v1")


def test_another_run_on_other_inputs_goes_on(bench: Bench) -> None:
    one, other = bench.prepare("k1", {"a": "v1"}), bench.prepare("k2", {"b": "v1"})
    assert (put(bench, one), put(bench, other)) == (1, 2)
    assert bench.published() == bench.listed() == three("a", "v1") + three("b", "v1")


def test_predictions_of_two_models_are_never_mixed(bench: Bench) -> None:
    """Also of two runs that began at the same time, on inputs of their own."""

    def run(path: str, config: str | None, *same: str) -> Publication:
        configs = tuple(each for each in (config, *same) if each)
        details = {"config": config, "model": config}
        return bench.prepare(path, {path: "v1"}, configs=configs, details=details)

    one, other, anew = run("a", "x"), run("b", "y"), run("c", "y")
    neither, earlier = run("d", None), run("e", "z", "x")
    assert put(bench, one) == 1
    message = r"run run-a has published predictions of another model.* use another sink\.path"
    with pytest.raises(OutputHeld, match=message):
        put(bench, other)
    assert put(bench, earlier) == 2, "the digest that an earlier release gives"
    with pytest.raises(OutputHeld):
        put(bench, neither)
    assert bench.published() == three("a", "v1") + three("e", "v1")
    assert put(bench, replace(anew, replaces=True, drops_others=True)) == 3
    assert put(bench, other) == 4, "what is replaced is no more"
    assert bench.published() == three("b", "v1") + three("c", "v1")


def test_half_applied_entry_is_finished_by_the_next_run(bench: Bench) -> None:
    what = bench.prepare("k1", {"a": "v1", "b": "v1"}, writes=3)
    other = bench.prepare("k2", {"c": "v1"})
    seen = bench.ledger.look()
    entry = publishing.entry_for(bench.storage, bench.output, seen, what)
    bench.ledger.commit(entry, seen)
    first = next(iter(bench.ledger.look().files.values()))
    bench.storage.move(first.source(bench.output), first.target(bench.output))
    expected = three("a", "v1") + three("b", "v1")
    assert bench.published() == expected
    put(bench, other)
    assert bench.listed() == expected + three("c", "v1")
    assert applied_version(bench.storage, bench.output, bench.ledger.look().id) == 2


def test_many_files_are_moved(bench: Bench) -> None:
    inputs = {f"i{number:02d}": "v1" for number in range(MOVERS + 4)}
    put(bench, bench.prepare("k", inputs, writes=MOVERS + 4))
    assert len(bench.listed()) == 3 * len(inputs)


def test_a_new_version_is_without_what_was_moved_in_too_late(bench: Bench) -> None:
    """By who had begun with it before another version replaced it, and was killed then."""
    put(bench, bench.prepare("k", {"a": "v1"}))
    late = {file.target(bench.output) for file in bench.ledger.look().files.values()}
    put(bench, bench.prepare("l", {"a": "v1"}, replaces=True))
    for path in late:
        bench.storage.write(path, b"[]")
    put(bench, bench.prepare("m", {"a": "v1"}, replaces=True))
    assert late.isdisjoint(stat.path for stat in bench.storage.list(bench.output.path))
    assert bench.listed() == three("a", "v1")


def test_a_file_that_somebody_deleted_is_reported(bench: Bench) -> None:
    what = bench.prepare("k", {"a": "v1"})
    for stat in bench.storage.list(what.run.staging):
        bench.storage.delete(stat.path)
    message = r"sink\.path: .* is gone, and so is its staged copy\. Restore .*; or delete "
    with pytest.raises(InvalidSpec, match=message):
        put(bench, what)
    with pytest.raises(InvalidSpec, match=message):
        bring_up_to_date(bench.storage, bench.ledger, bench.output)


def test_a_deleted_file_whose_rows_are_to_be_replaced_is_named(bench: Bench) -> None:
    put(bench, bench.prepare("k", {"a": "v1", "b": "v1"}))
    (published,) = [file.target(bench.output) for file in bench.ledger.look().files.values()]
    bench.storage.delete(published)
    with pytest.raises(InvalidSpec, match=rf"to be replaced: .*{published}.*--replace-output"):
        put(bench, bench.prepare("l", {"a": "v2"}))
    put(bench, bench.prepare("m", {"a": "v2", "b": "v1"}, replaces=True))
    assert bench.listed() == three("a", "v2") + three("b", "v1")


class Meanwhile(Calm):
    """Does something once, just before a call."""

    def __init__(self, call: str, act: Callable[[], object], below: str = "") -> None:
        self.call, self.act, self.below = call, act, below

    def before(self, call: str, path: str, lost: Callable[[], Exception]) -> None:
        if call == self.call and path.startswith(self.below):
            self.call = ""
            self.act()


def test_rows_to_rewrite_may_go_while_they_are_read() -> None:
    bench = in_memory()
    put(bench, bench.prepare("k1", {"a": "v1", "b": "v1"}))
    late = bench.prepare("k3", {"a": "v2"})
    winner = bench.prepare("k2", {"b": "v2"})
    assert isinstance(bench.storage, SimStorage)
    bench.storage.faults = Meanwhile("read", lambda: put(bench, winner), "out/")
    assert put(bench, late) == 3
    assert bench.published() == bench.listed() == three("a", "v2") + three("b", "v2")


def test_who_is_late_with_an_old_entry_brings_nothing_back() -> None:
    """Else a removed file would lie in the folder for ever."""
    bench = in_memory()
    old = bench.prepare("k1", {"a": "v1"})
    new = bench.prepare("k2", {"b": "v1"}, replaces=True, drops_others=True)
    assert isinstance(bench.storage, SimStorage)
    bench.storage.faults = Meanwhile("copy", lambda: put(bench, new))
    put(bench, old)
    assert bench.published() == bench.listed() == three("b", "v1")


def test_a_ledger_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "LONGEST_WAIT_SECONDS", 0.0)
    bench = in_memory()
    what = bench.prepare("k", {"a": "v1"})

    def refuse(*arguments: object) -> int:
        raise StaleLedger("no")

    monkeypatch.setattr(bench.ledger, "commit", refuse)
    with pytest.raises(
        StaleLedger,
        match=r"did not accept the entry in 20 attempts, nor any other; the last error: no",
    ):
        put(bench, what)


def test_an_entry_that_the_last_attempt_commits_is_applied(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "LONGEST_WAIT_SECONDS", 0.0)
    what, commit, tried = bench.prepare("k", {"a": "v1"}), bench.ledger.commit, count(1)

    def refuse_but_the_last(entry: Entry, seen: Snapshot) -> int:
        if next(tried) < publishing.COMMIT_ATTEMPTS:
            raise StaleLedger("no")
        return commit(entry, seen)

    monkeypatch.setattr(bench.ledger, "commit", refuse_but_the_last)
    assert put(bench, what) == 1
    assert bench.published() == bench.listed() == three("a", "v1")


def test_a_lost_reply_is_resolved_by_looking(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = bench.ledger.commit

    def lose(entry: Entry, seen: Snapshot) -> int:
        commit(entry, seen)
        raise StaleLedger("the reply got lost")

    what = bench.prepare("k", {"a": "v1"})
    monkeypatch.setattr(bench.ledger, "commit", lose)
    assert put(bench, what) == bench.ledger.look().version == 1
    assert bench.published() == bench.listed() == three("a", "v1")
