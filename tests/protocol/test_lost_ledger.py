"""A ledger that was removed and began anew, beside what was noted of the old one."""

from pathlib import Path

import pytest

from tasks.errors import InvalidSpec
from tasks.protocol.applying import applied_version, bring_up_to_date
from tasks.protocol.delta_ledger import KEPT
from tests.protocol.bench import Bench, on_disk, put


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return on_disk(tmp_path)


def test_a_ledger_that_begins_anew_is_applied(bench: Bench) -> None:
    """Also where it has fewer versions than were applied of the one that was removed."""
    for number in range(3):
        put(bench, f"k{number}", a=f"v{number}")
    old = bench.ledger.look().id
    for folder in (bench.output.ledger, bench.output.path):
        bench.storage.delete_folder(folder)  # type: ignore[attr-defined]
    assert put(bench, "again", a="v9") == 1
    assert bench.listed() == bench.published() == [("a", "v9", row) for row in range(3)]
    new = bench.ledger.look().id
    assert new != old
    assert [applied_version(bench.storage, bench.output, each) for each in (old, new)] == [0, 1]


def test_what_an_earlier_release_has_noted_is_of_the_ledger_that_is_there(bench: Bench) -> None:
    put(bench, "k1", a="v1")
    put(bench, "k2", b="v1")
    bench.storage.write(bench.output.applied, b"2")
    (lost, _) = bench.storage.list(bench.output.path)[1:]
    bench.storage.delete(lost.path)
    bring_up_to_date(bench.storage, bench.ledger, bench.output)  # else it would miss that file
    seen = bench.ledger.look()
    assert applied_version(bench.storage, bench.output, seen.id) == 2
    assert put(bench, "k3", c="v1") == 3
    assert bench.storage.read(bench.output.applied) == f"3 {seen.id}".encode()


@pytest.mark.parametrize("lost", ["*.parquet", "_delta_log/*0.json", "_delta_log/*1.json"])
def test_a_ledger_that_lacks_a_file_says_so(bench: Bench, lost: str) -> None:
    """As where a bucket's lifecycle rule deletes what is so many days old."""
    for number in range(3):
        put(bench, f"k{number}", a=f"v{number}")
    first = min(Path(bench.output.ledger).glob(lost))
    content = first.read_bytes()
    first.unlink()
    KEPT.clear()  # as in the next night's process
    with pytest.raises(
        InvalidSpec, match=r"is a ledger with missing files.*Restore them from a copy"
    ):
        bench.ledger.look()
    first.write_bytes(content)
    assert bench.ledger.look().version == 3
