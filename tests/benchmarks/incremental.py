"""Planning what is new: 100 of 100,000 objects, behind a year of hourly runs in the ledger."""

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from tasks.ledgers import ledger_of
from tasks.outputs import output_of
from tasks.planning.config import config_digests
from tasks.planning.preflight import check_spec
from tasks.protocol.delta_ledger import gathered_after
from tasks.protocol.ids import IdRuns, as_ids
from tasks.protocol.ledger import Entry, Snapshot
from tasks.protocol.ledger_lines import LINE_SCHEMA, LedgerFile
from tasks.protocol.object_stat import Stat
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import load_spec

OBJECTS, NEW, RUNS, FOLDERS = 100_000, 100, 8_760, 100
LEFT_BEHIND = 11
"""Files that a small run leaves in its folder."""

PLAN = """
import sys, time
from pathlib import Path
def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
opened = set()
sys.addaudithook(lambda event, given: event == "open" and opened.add(given[0]))
from tasks.plan import make_plan
from tasks.spec_file import load_spec
spec = load_spec(sys.argv[1])
Path("/proc/self/clear_refs").write_text("5")  # a process begins with its parent's peak
before = peak()
begun, busy = time.monotonic(), time.process_time()
planned = make_plan(spec)
print(time.monotonic() - begun, time.process_time() - busy)
print(peak() - before)
inputs = {str(each) for each in opened if str(each).startswith(spec.source.path)}
print(len(inputs), len(inputs - set(planned.plan.shards["path"].to_pylist())))
print(len(planned.plan.shards), planned.inputs_skipped, planned.plan.pins["ledger_version"])
"""


def measure(folder: Path) -> list[str]:
    """Plan twice, each time in a process of its own: first, and again the unfinished run."""
    make_source(folder / "in")
    spec = load_spec(write_spec(folder))
    begun = time.monotonic()
    publish(spec, a_year(spec))
    print(f"{RUNS:,} entries: {time.monotonic() - begun:.0f} s", flush=True)
    leave_run_folders(spec)
    return plan_twice(folder / "spec.yaml")


def plan_twice(spec: Path) -> list[str]:
    """A table of what each took."""
    names = ("plan", "new of all", "versions", "seconds", "CPU seconds", "memory added")
    lines = [f"| {' | '.join(names)} | opened: new, published |", "| --- " * 7 + "|"]
    for name in ("new", "again"):
        command = [sys.executable, "-c", PLAN, str(spec)]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        seconds, busy, memory, opened, strays, shards, skipped, version = (float(e) for e in out)
        assert (shards, skipped, version) == (NEW, OBJECTS - NEW, RUNS)
        assert strays == 0, "none that is published is opened"
        lines.append(
            f"| {name} | {shards:,.0f} of {OBJECTS:,} | {version:,.0f} | {seconds:.1f} | "
            f"{busy:.1f} | {memory:.0f} MiB | {opened:.0f}, {strays:.0f} |"
        )
    return lines


def make_source(source: Path) -> None:
    """Only the new ones are Parquet: to open one of the others would fail."""
    stream = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1], "x": [1.0]}), stream)
    data = stream.getvalue().to_pybytes()
    for number in range(OBJECTS):
        file = path_of(source, number)
        if number % (OBJECTS // FOLDERS) == 0:
            file.parent.mkdir(parents=True)
        file.write_bytes(data if number >= OBJECTS - NEW else b"x")


def path_of(source: Path, number: int) -> Path:
    """Where an input lies."""
    return source / f"{number // (OBJECTS // FOLDERS):03}" / f"{number:06}.parquet"


def write_spec(folder: Path) -> Path:
    """The spec of the hourly run."""
    raw = {
        "source": {"kind": "parquet", "path": str(folder / "in")},
        "model": {"kind": "python", "class": "predictors:Double"},
        "sink": {"kind": "parquet", "path": str(folder / "out")},
        "cluster": {"kind": "inline"},
        "environment": {"working_dir": str(Path(__file__).parents[1] / "flows" / "user_code")},
    }
    file = folder / "spec.yaml"
    file.write_text(yaml.safe_dump(raw))
    return file


def publish(spec: BatchInferenceSpec, entries: Iterable[Entry]) -> None:
    """One commit an hour through the ledger itself, each with its inputs and one part."""
    storage, output = output_of(spec)
    ledger = ledger_of(spec)
    kept: list[pa.Table] = []
    version = 0
    for version, entry in enumerate(entries, 1):
        # What a process sees that looks first; a commit needs no more of it than this.
        gathers = gathered_after(version, version - 1) < version - 1
        seen = pa.concat_tables(kept) if gathers else LINE_SCHEMA.empty_table()
        assert ledger.commit(entry, Snapshot(version - 1, seen)) == version
        kept.append(entry.lines(version))
    storage.write(output.applied, f"{version} {ledger.look().id}".encode())
    storage.write(f"{output.path}/{part_of(version)}", b"the newest, which is looked for")


def a_year(spec: BatchInferenceSpec) -> Iterator[Entry]:
    """What each hour published."""
    source, details = Path(str(spec.source.path)), details_of(spec)
    for run in range(RUNS):
        begin, end = ((OBJECTS - NEW) * each // RUNS for each in (run, run + 1))
        stats = [stat_of(path_of(source, number)) for number in range(begin, end)]
        inputs = {"path": [e.path for e in stats], "identity": [e.identity for e in stats]}
        yield hourly(run, inputs, details)


def details_of(spec: BatchInferenceSpec) -> dict[str, Any]:
    """What its runs publish for, without which all inputs would be new."""
    return {"config": config_digests(spec, check_spec(spec), None)[0], "name": spec.name}


def hourly(run: int, inputs: dict[str, list[str]], details: dict[str, Any]) -> Entry:
    """The entry of one run over so many inputs, a row each, in one part."""
    number = len(inputs["path"])
    table = pa.table({**inputs, "shard": pa.array(range(number), pa.int64())})
    run_id, ids = f"{run:016x}", IdRuns.of(as_ids(range(number)))
    part = LedgerFile(part_of(run + 1), f"{run_id}/staging/x", run_id, 1, ids)
    return Entry(f"{run:032x}", run_id, table, files=(part,), details=details)


def part_of(version: int) -> str:
    """The file of a version."""
    return f"part-{version:05}-00000.parquet"


def stat_of(path: Path) -> Stat:
    """An input as a listing on a local disk shows it."""
    found = path.stat()
    return Stat(str(path), found.st_size, f"{found.st_mtime_ns}-{found.st_size}")


def leave_run_folders(spec: BatchInferenceSpec) -> None:
    """What published runs leave until somebody cleans up: planning has to get past them."""
    _, output = output_of(spec)
    for run in range(RUNS):
        folder = Path(output.run(f"{run:016x}").path)
        (folder / "attempts" / "1").mkdir(parents=True)
        (folder / "run.json").write_text("{}")
        for number in range(LEFT_BEHIND - 1):
            os.link(folder / "run.json", folder / "attempts" / "1" / f"{number}.json")
