"""Judging a run's rows with every kind of gate: seconds of CPU, and memory that does not grow."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks.kinds.sinks import ParquetSink

FILES, ROWS_PER_FILE, CLASSES, DIMENSIONS = 8, 20_000, 1_000, 64
SIZES = (400_000, 4_000_000)

JUDGE = f"""
import re, sys, time
import pyarrow.parquet as pq
from pydantic import TypeAdapter
from tasks.kinds.gates import AnyGate
from tasks.kinds.gates.gate import LastRun
from tasks.kinds.sinks import ParquetSink
from tasks.publishing.output_rows import OutputFile, OutputReader
from tasks.protocol.storage import open_storage
def peak():
    # A child's ru_maxrss begins with its parent's.
    return int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
folder, rows = sys.argv[1], int(sys.argv[2])
storage, path = open_storage(folder)
gates = TypeAdapter(list[AnyGate]).validate_python([
    dict(kind="accuracy", minimum=0), dict(kind="f1", minimum=0),
    dict(kind="nulls", column="score", max_fraction=0), dict(kind="rows", minimum=1),
    dict(kind="bounds", column="score", minimum=0, maximum=1),
    dict(kind="drift", column="predicted_label", maximum=1),
    dict(kind="drift", column="score", maximum=1),
])
schema = pq.read_schema(f"{{path}}/0.parquet")
names = ["label", "predicted_label", "score"]
per_file = {ROWS_PER_FILE}
files = [OutputFile(f"{{path}}/{{n % {FILES}}}.parquet", per_file) for n in range(rows // per_file)]
meters = [gate.meter(schema, LastRun()) for gate in gates]
before = peak()
begun = time.process_time()
for table in OutputReader(storage, ParquetSink(path=path), schema, names).stream(files):
    for meter in meters:
        meter.add(table)
judged = [meter.judge() for meter in meters]
assert all(each.passed for each in judged), judged
assert judged[3].value == rows
print(time.process_time() - begun, (peak() - before) / 1024)
"""


def measure(folder: Path) -> list[str]:
    """Judge some rows, and ten times as many."""
    write_rows(folder)
    lines = [f"{CLASSES:,} classes, embeddings of {DIMENSIONS} that no gate looks at.", ""]
    lines += ["| rows | CPU seconds | memory added |", "| --- | --- | --- |"]
    for rows in SIZES:
        command = [sys.executable, "-c", JUDGE, str(folder), str(rows)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        seconds, added = (float(each) for each in out)
        lines.append(f"| {rows:,} | {seconds:.1f} | {added:.0f} MiB |")
    return lines


def write_rows(folder: Path) -> None:
    """A few files, which are judged again and again."""
    random = np.random.default_rng(0)
    names = np.array([f"class {number}" for number in range(CLASSES)], dtype=object)
    for number in range(FILES):
        labels = random.integers(0, CLASSES, ROWS_PER_FILE)
        wrong = random.random(ROWS_PER_FILE) < 0.1
        guesses = np.where(wrong, random.integers(0, CLASSES, ROWS_PER_FILE), labels)
        flat = random.random(ROWS_PER_FILE * DIMENSIONS, dtype=np.float32)
        rows = pa.table(
            {
                "label": names[labels],
                "predicted_label": names[guesses],
                "score": random.random(ROWS_PER_FILE),
                "embedding": pa.FixedSizeListArray.from_arrays(pa.array(flat), DIMENSIONS),
            }
        )
        (folder / f"{number}.parquet").write_bytes(ParquetSink(path="out").encode(rows))
