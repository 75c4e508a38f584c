"""An output that is used for months: what its runs leave, and what commands take behind them.

`RUNS=300 make bench ROW=months`: runs of one new input each, in this process, on a local disk.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.cleaning import find_orphans
from tasks.plan import make_plan
from tasks.protocol import delta_ledger
from tasks.protocol.storage import FsspecStorage
from tasks.running_jobs import live_jobs, runs_at_work, tell_to_stop
from tasks.spec import BatchInferenceSpec
from tests.reporting import classify_spec, run_spec

RUNS = int(os.environ.get("RUNS", "1000"))
CALLS = ("write", "read", "list", "stat", "move", "delete", "folders", "list_with_ages")
HEADER = ("runs", "command", "CPU seconds", "calls of the storage", "names listed")


def measure(folder: Path) -> list[str]:
    """Ten runs, a hundred, and all."""
    spec = classify_spec(folder)
    (folder / "in").mkdir()
    lines = [f"| {' | '.join(HEADER)} |", "| --- " * len(HEADER) + "|"]
    notes, counts = [], sorted({10, 100, RUNS})
    for number in range(RUNS):
        run_one(spec, folder, number)
        if number + 1 not in counts:
            continue
        for name, command in commands(spec, folder).items():
            lines.append(f"| {number + 1:,} | {name} | {cost(command)} |")
        files = [file for file in (folder / "out.state").rglob("*") if file.is_file()]
        mib = sum(file.stat().st_size for file in files) / 2**20
        process = psutil.Process()
        notes.append(
            f"- after {number + 1:,} runs the state has {len(files):,} files, {mib:.1f} MiB; this "
            f"process {process.memory_info().rss >> 20:,} MiB and {process.num_fds()} open files"
        )
    return [*lines, "", *notes]


def run_one(spec: BatchInferenceSpec, folder: Path, number: int) -> None:
    """A run of one new input."""
    pq.write_table(pa.table({"id": [number]}), folder / "in" / f"{number:06}.parquet")
    run_spec(spec)


def commands(spec: BatchInferenceSpec, folder: Path) -> dict[str, Callable[[], Any]]:
    """What people and schedules call, as far as it asks the output's storage."""
    more = len(list((folder / "in").iterdir())) + RUNS
    return {
        "a run of nothing new": partial(make_plan, spec),
        "a run of one new input": partial(run_one, spec, folder, more),
        "status": lambda: (live_jobs(spec), runs_at_work(spec)),
        "cancel": partial(tell_to_stop, spec),
        "clean": partial(find_orphans, spec),
    }


def cost(command: Callable[[], Any]) -> str:
    """What it takes of a process that has not read the ledger yet."""
    delta_ledger.KEPT.clear()
    with counted() as calls:
        begun = time.process_time()
        command()
        seconds = time.process_time() - begun
    names = calls.pop("names", 0)
    return f"{seconds:.2f} | {calls.total():,} | {names:,}"


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Calls of the storage while the block lasts, and names that its listings gave."""
    calls = Counter[str]()

    def noting(storage: FsspecStorage, *given: Any, name: str, call: Any) -> Any:
        found = call(storage, *given)
        calls[name] += 1
        if name in ("list", "folders", "list_with_ages"):
            calls["names"] += len(found)
        return found

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(FsspecStorage, name, bound(noting, name))
        yield calls


def bound(noting: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A method that notes each call of another one."""
    call = getattr(FsspecStorage, name)
    return lambda storage, *given: noting(storage, *given, name=name, call=call)
