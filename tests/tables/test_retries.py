"""What a commit costs that others are faster than, and what outlives a power cut."""

import os
import shutil
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tasks.kinds.tables import delta_output, iceberg_output
from tasks.kinds.tables.lance_output import LanceOutput
from tasks.protocol.publication import Publication
from tests.tables.bench import TableBench, rows_of
from tests.tables.foreigners import APPEND, FOREIGN, lance
from tests.tables.readers import rows_in

FOOTERS: dict[str, tuple[Any, str]] = {
    "delta": (delta_output.DeltaOutput, "statistics"),
    "iceberg": (iceberg_output, "only_footer"),
    "lance": (LanceOutput, "footer"),
}
"""What reads one file."""


def test_a_writer_who_is_faster_than_footers_are_read_does_not_stop_a_run(
    bench: TableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.run("k1", {"a": "v1"})
    what, read = bench.prepare("k2", {"b": "v1"}), Counter[str]()
    where, name = FOOTERS[bench.kind]
    whole = getattr(where, name)

    def overtaken(*given: Any) -> Any:
        found = whole(*given)
        read[str(getattr(given[-1], "location", given[-1]))] += 1
        APPEND[bench.kind](bench)
        return found

    monkeypatch.setattr(where, name, overtaken)
    bench.put(what)
    assert [*read.values()] == [1]
    assert rows_in(bench) == rows_of({"a": "v1", "b": "v1"}) + FOREIGN


def test_a_table_of_a_backup_gets_what_it_has_no_more(bench: TableBench, tmp_path: Path) -> None:
    """That it was applied once is noted, and says nothing of the table as it is now."""
    bench.run("k1", {"a": "v1"})
    places = [each for each in tmp_path.glob("out*") if not each.name.endswith(".state")]
    for each in places:
        (shutil.copytree if each.is_dir() else shutil.copy)(each, tmp_path / f"backup-{each.name}")
    bench.run("k2", {"b": "v1"})
    (file,) = (each for each in bench.ledger.look().files.values() if each.version == 2)
    content = bench.storage.read(file.target(bench.output))
    for each in places:
        shutil.rmtree(each) if each.is_dir() else each.unlink()
        (tmp_path / f"backup-{each.name}").rename(each)
    bench.storage.write(file.target(bench.output), content)
    bench.run("k3", {"c": "v1"})
    assert rows_in(bench) == rows_of({"a": "v1", "b": "v1", "c": "v1"})


def without_rows(what: Publication) -> Publication:
    """The run, had its steps filtered every row."""
    records = tuple(replace(each, files=()) for each in what.accepted.records)
    return replace(what, accepted=replace(what.accepted, records=records))


@pytest.mark.parametrize("kind", ["lance"])
def test_a_version_of_lance_that_only_removes_rows_may_be_cleaned_away(bench: TableBench) -> None:
    """Its mark is in its transaction, which goes with it; a note says that it was applied."""
    bench.run("k1", {"a": "v1", "b": "v1"})
    bench.run("k2", {"c": "v1"})
    bench.put(without_rows(bench.prepare("k3", {"c": "v2"})))
    APPEND["lance"](bench)
    lance(bench).cleanup_old_versions(older_than=timedelta(0))
    bench.run("k4", {"d": "v1"})
    assert rows_in(bench) == rows_of({"a": "v1", "b": "v1", "d": "v1"}) + FOREIGN


@pytest.mark.parametrize("kind", ["delta"])
def test_a_transaction_is_on_the_disk_before_it_is_noted(
    bench: TableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, fsync, write = list[str](), os.fsync, type(bench.storage).write

    def flushed(opened: int) -> None:
        fsync(opened)
        made.append(os.readlink(f"/proc/self/fd/{opened}"))

    def written(storage: Any, path: str, data: bytes) -> None:
        made.append(path)
        write(storage, path, data)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(type(bench.storage), "write", written)
    bench.run("k1", {"a": "v1"})
    log = Path(bench.output.path, "_delta_log")
    before = made[: made.index(bench.output.applied)]
    assert {str(log), *(str(log / f"{version:020}.json") for version in (0, 1))} <= {*before}
