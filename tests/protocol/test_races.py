"""Publishers who meet at one output: whoever loses race after race has its turn in the end."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from pathlib import Path
from threading import Barrier

import pytest

from tasks.errors import StaleLedger
from tasks.protocol import backoff
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.ledger import Entry, Snapshot
from tasks.protocol.publication import Publication
from tasks.protocol.publishing import COMMIT_ATTEMPTS, publish
from tasks.protocol.storage import open_storage
from tests.protocol.bench import Bench, in_memory, on_disk

AT_ONCE = 8


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.s3)])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    if request.param == "disk":
        return on_disk(tmp_path)
    s3 = request.getfixturevalue("s3")
    url, options = s3.url(f"{uuid.uuid4().hex}/out"), s3.storage_options
    storage, path = open_storage(url, options)
    return Bench(storage, DeltaLedger(f"{url}.state/ledger", options), path)


def put(bench: Bench, what: Publication) -> int:
    return publish(bench.storage, bench.ledger, bench.output, what)


def prepared(bench: Bench, runs: int) -> list[Publication]:
    """Runs over an input each."""
    return [bench.prepare(f"{run:02}", {f"{run:02}": "v1"}) for run in range(runs)]


def rows(runs: int) -> list[tuple[str, str, int]]:
    return [(f"{run:02}", "v1", row) for run in range(runs) for row in range(3)]


def test_who_is_slower_than_many_publishes_after_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty others, one after the other, were more than a run held out."""
    monkeypatch.setattr(backoff, "LONGEST_WAIT_SECONDS", 0.0)
    runs = COMMIT_ATTEMPTS + 3
    slow, *others = prepared(bench, runs)
    commit = bench.ledger.commit

    def commit_after_another(entry: Entry, seen: Snapshot) -> int:
        if entry.run_key == slow.run_key and others:
            put(bench, others.pop())
        return commit(entry, seen)

    monkeypatch.setattr(bench.ledger, "commit", commit_after_another)
    assert put(bench, slow) == runs
    assert bench.published() == bench.listed() == rows(runs)


def test_all_who_begin_at_the_same_moment_publish(bench: Bench) -> None:
    begin = Barrier(AT_ONCE, timeout=30)

    def put_by_itself(what: Publication) -> int:
        begin.wait()
        return publish(bench.storage, copy(bench.ledger), bench.output, what)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        versions = pool.map(put_by_itself, prepared(bench, AT_ONCE))
        assert sorted(versions) == [*range(1, AT_ONCE + 1)]
    assert bench.published() == bench.listed() == rows(AT_ONCE)


def test_who_loses_waits_longer_each_time_but_for_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who comes again at once meets the same others again."""
    bench = in_memory()
    asked, waited = list[float](), list[float]()

    def longest(least: float, most: float) -> float:
        asked.append(most)
        return most

    def refuse(entry: Entry, seen: Snapshot) -> int:
        raise StaleLedger("no")

    monkeypatch.setattr("random.uniform", longest)
    monkeypatch.setattr("time.sleep", waited.append)
    monkeypatch.setattr(bench.ledger, "commit", refuse)
    (what,) = prepared(bench, 1)
    with pytest.raises(StaleLedger):
        put(bench, what)
    assert waited == asked == sorted(asked)
    assert (waited[0], waited[1], waited[-1]) == (0.0, 0.01, backoff.LONGEST_WAIT_SECONDS)
