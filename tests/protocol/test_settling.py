"""What a local disk has after a power cut, and a store after a reply that got lost."""

import errno
import os
import stat
from pathlib import Path
from typing import Any

import deltalake
import pytest

from tasks.errors import InvalidSpec
from tasks.protocol import delta_ledger, publishing
from tasks.protocol.applying import bring_up_to_date
from tasks.protocol.publishing import publish
from tasks.protocol.storage import open_storage
from tests.protocol.bench import Bench, on_disk, put


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return on_disk(tmp_path)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files and folders as they are flushed to the disk, as files are moved to them and removed."""
    made, fsync, replace, remove = list[str](), os.fsync, os.replace, os.remove

    def flushed(opened: int) -> None:
        fsync(opened)
        made.append(f"flush {os.readlink(f'/proc/self/fd/{opened}')}")

    def moved(source: str, target: str) -> None:
        replace(source, target)
        made.append(f"move to {target}")

    def removed(path: str) -> None:
        remove(path)
        made.append(f"remove {path}")

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", moved)
    monkeypatch.setattr(os, "remove", removed)
    return made


@pytest.fixture
def other_disk(calls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that files are moved to as to another disk."""
    folder, replace = tmp_path / "mount", os.replace

    def moved(source: str, target: str) -> None:
        if is_below(target) and not is_below(source):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        replace(source, target)

    def is_below(path: str) -> bool:
        return Path(path).is_relative_to(folder)

    folder.mkdir()
    monkeypatch.setattr(os, "replace", moved)
    return folder


def test_an_entry_is_on_the_disk_before_the_first_file_is_moved(
    bench: Bench, calls: list[str]
) -> None:
    """Also that of a process which was killed before it had seen to it."""
    put(bench, "k1", a="v1")
    what, seen = bench.prepare("k2", {"b": "v1"}), bench.ledger.look()
    entry = publishing.entry_for(bench.storage, bench.output, seen, what)
    bench.ledger.commit(entry, seen)
    bring_up_to_date(bench.storage, bench.ledger, bench.output)
    ledger = bench.output.ledger
    for version in (1, 2):
        first = calls.index(f"move to {bench.output.path}/part-{version:05d}-00000.json")
        before = {each.removeprefix("flush ") for each in calls[:first]}
        assert f"{ledger}/_delta_log/{version:020}.json" in before
        assert {ledger, f"{ledger}/_delta_log"} <= before
        assert len([each for each in before if each.startswith(f"{ledger}/part-")]) == version
    assert f"flush {ledger}/_delta_log/{0:020}.json" in calls


def test_an_entry_that_a_power_cut_took_is_not_read_as_none(bench: Bench) -> None:
    put(bench, "k1", a="v1")
    what = bench.prepare("k2", {"b": "v1"})
    publish(bench.storage, bench.ledger, bench.output, what)
    before = bench.listed()
    entry = Path(bench.output.ledger, "_delta_log", f"{2:020}.json")
    entry.write_bytes(b"")
    with pytest.raises(InvalidSpec, match=r"sink\.path.*entry is empty.*002\.json.*applied"):
        bench.ledger.look()
    for lost in (entry, Path(bench.output.applied)):  # as the message says
        lost.unlink()
    assert publish(bench.storage, bench.ledger, bench.output, what) == 2
    assert bench.published() == bench.listed() == before


def test_a_reply_that_deltalake_loses_is_resolved_by_looking(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = deltalake.write_deltalake, list[Any]()

    def lose(*given: Any, **more: Any) -> None:
        written.append(write(*given, **more))
        raise OSError("Generic S3 error: connection reset")

    monkeypatch.setattr(delta_ledger, "write_deltalake", lose)
    assert put(bench, "k1", a="v1") == 1
    assert len(written) == 1
    assert bench.published() == bench.listed() == [("a", "v1", row) for row in range(3)]


def test_a_store_that_takes_nothing_says_so_itself(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any, **more: Any) -> None:
        raise OSError("Generic S3 error: access denied")

    monkeypatch.setattr(delta_ledger, "write_deltalake", refuse)
    with pytest.raises(OSError, match="access denied"):
        put(bench, "k1", a="v1")
    assert bench.ledger.look().version == 0


def test_a_file_is_on_the_other_disk_before_it_is_removed_from_this_one(
    tmp_path: Path, other_disk: Path, calls: list[str]
) -> None:
    storage, folder = open_storage(str(tmp_path))
    source, target = f"{folder}/state/a", f"{other_disk}/out/day=1/a"
    storage.write(source, b"whole")
    storage.move(source, target)
    after = calls[calls.index(f"move to {target}") + 1 :]
    new = (f"{other_disk}/out/day=1", f"{other_disk}/out", other_disk)
    assert after[:3] == [f"flush {each}" for each in new]
    assert after[-1] == f"remove {source}"
    assert storage.read(target) == b"whole"


def test_folders_that_cannot_be_flushed_hold_no_move_up(
    tmp_path: Path, other_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of some file systems none can, and those above may be somebody else's."""
    storage, folder = open_storage(str(tmp_path))
    storage.write(f"{folder}/a", b"whole")
    opened, fsync = os.open, os.fsync

    def refuse(path: str, *given: Any, **more: Any) -> int:
        if path == folder:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *given, **more)

    def flush_files(at: int) -> None:
        if stat.S_ISDIR(os.fstat(at).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(at)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "fsync", flush_files)
    storage.move(f"{folder}/a", f"{other_disk}/a")
    assert [each.path for each in storage.list(folder)] == [f"{other_disk}/a"]
