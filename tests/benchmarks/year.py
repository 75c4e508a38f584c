"""An hourly run of one new file, behind a year of them over two hundred new files each.

`RUNS=500 make bench ROW=year` tries it behind fewer runs. The source keeps new files only.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.outputs import output_of
from tasks.protocol.ledger import Entry
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import load_spec
from tests.benchmarks.incremental import details_of, hourly, publish, write_spec

RUNS, FILES, TIMES = int(os.environ.get("RUNS", "8760")), 200, 3

RUN = """
import sys, time
from pathlib import Path
from tasks.spec_file import load_spec
from tests.reporting import run_spec
begun, busy = time.monotonic(), time.process_time()
planned, report = run_spec(load_spec(sys.argv[1]))
print(time.monotonic() - begun, time.process_time() - busy)
print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024)
print(len(planned.plan.shards), report.version)
"""


def measure(folder: Path) -> list[str]:
    """A few such runs, each in a process that has not seen the ledger."""
    (folder / "in").mkdir()
    spec = load_spec(write_spec(folder))
    begun = time.monotonic()
    publish(spec, hours(spec))
    print(f"{RUNS:,} entries: {time.monotonic() - begun:.0f} s", flush=True)
    files = [each for each in Path(output_of(spec)[1].ledger).rglob("*") if each.is_file()]
    names = ("runs before", "input files", "stored", "seconds", "CPU seconds", "memory at most")
    lines = [f"| {' | '.join(names)} |", "| --- " * len(names) + "|"]
    stored = sum(each.stat().st_size for each in files) / 2**20
    for number in range(TIMES):
        seconds, busy, memory = run_one(folder, number)
        lines.append(
            f"| {RUNS + number:,} | {RUNS * FILES + number:,} | {stored:.0f} MiB | {seconds:.1f} | "
            f"{busy:.1f} | {memory:,.0f} MiB |"
        )
    return [*lines, "", "Imports are not counted."]


def run_one(folder: Path, number: int) -> tuple[float, float, float]:
    """A run of one new input: seconds, CPU seconds, and the peak of its process in MiB."""
    pq.write_table(pa.table({"id": [number], "x": [1.0]}), folder / "in" / f"new-{number}.parquet")
    command = [sys.executable, "-c", RUN, str(folder / "spec.yaml")]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    seconds, busy, memory, shards, version = (float(each) for each in out[-5:])
    assert (shards, version) == (1, RUNS + number + 1), "only the new one is read"
    return seconds, busy, memory


def hours(spec: BatchInferenceSpec) -> Iterator[Entry]:
    """What each run published, of inputs that are gone from the source since."""
    details = details_of(spec)
    for run in range(RUNS):
        paths = [f"{spec.source.path}/{run:05}/{number:03}.parquet" for number in range(FILES)]
        identities = [f"{1_790_000_000 + run * 3600 + number}-1000000" for number in range(FILES)]
        yield hourly(run, {"path": paths, "identity": identities}, details)
