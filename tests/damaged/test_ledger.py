"""A ledger with a damaged file, and a damaged note of what was applied: each is named."""

from pathlib import Path

import pytest

from tasks.errors import InvalidSpec
from tasks.protocol.applying import bring_up_to_date
from tasks.protocol.delta_ledger import KEPT
from tests.damaged.states import CONTENTS
from tests.protocol.bench import Bench, on_disk, put


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = on_disk(tmp_path)
    for number in range(2):
        put(bench, f"k{number}", a=f"v{number}")
    return bench


@pytest.mark.parametrize("pattern", ["*.parquet", "_delta_log/*0.json", "_delta_log/*2.json"])
def test_a_damaged_file_of_a_ledger_is_named(bench: Bench, pattern: str) -> None:
    file = max(Path(bench.output.ledger).glob(pattern))
    content = file.read_bytes()
    for how in ("cut short", "a list", "no text"):
        file.write_bytes(CONTENTS[how](content))
        KEPT.clear()  # as in the next night's process
        with pytest.raises(InvalidSpec, match=rf"{file}.* Restore it from a copy"):
            bench.ledger.look()
    file.write_bytes(content)
    assert bench.ledger.look().version == 2


def test_a_ledger_that_says_nothing_does_not_pass_for_one_without_rows(tmp_path: Path) -> None:
    """Else all would be published once more beside what is there."""
    bench = on_disk(tmp_path)
    put(bench, "k", a="v")
    max(Path(bench.output.ledger).glob("_delta_log/*1.json")).write_bytes(b"{}")
    KEPT.clear()
    with pytest.raises(InvalidSpec, match="none of its versions lists what it has published"):
        bench.ledger.look()


def test_what_was_noted_as_applied_is_named_and_made_anew(bench: Bench) -> None:
    applied = Path(bench.output.applied)
    before = applied.read_bytes()
    for how in ("empty", "another object", "no text"):
        applied.write_bytes(CONTENTS[how](before))
        with pytest.raises(InvalidSpec, match=rf"{applied}.* delete it and run again"):
            bring_up_to_date(bench.storage, bench.ledger, bench.output)
    applied.unlink()
    bring_up_to_date(bench.storage, bench.ledger, bench.output)
    assert applied.read_bytes() == before
