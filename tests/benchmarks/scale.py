"""Planning and resuming beyond what any disk here holds: a listing that is made up as it is asked.

`SCALE=10000000 make bench ROW=scale` plans ten million objects, a million of them done.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

OBJECTS = int(os.environ.get("SCALE", "1000000"))
DONE_FRACTION = 0.1
ROWS_PER_RECORD = 2_048

MEASURE = """
import json, resource, sys, time

import fsspec, numpy as np, psutil, pyarrow as pa
from tasks.kinds.sources.images import ImagesSource
from tasks.kinds.sources.listing import list_inputs
from tasks.new_inputs import unpublished
from tasks.protocol.acceptance import accept, find_gap
from tasks.protocol.batch import ShardEnd
from tasks.protocol.ids import ROW_BITS, IdRuns
from tasks.protocol.ledger import LINE_SCHEMA, Entry, Snapshot
from tasks.protocol.plan_file import first_plan, parquet_bytes, plan_from_bytes, plan_to_bytes
from tasks.protocol.records import Record, StagedFile, from_json, to_json

objects, done, per_record = (int(each) for each in sys.argv[1:])


class MadeUp(fsspec.AbstractFileSystem):
    protocol = "madeup"

    def find(self, path, detail=False, **options):
        names = (f"bucket/in/{n // 1000:06d}/{n:09d}.jpg" for n in range(objects))
        return {name: {"name": name, "size": 99, "type": "file", "ETag": f'"{n:032x}"'}
                for n, name in enumerate(names)}

    def exists(self, path, **options):
        return True


fsspec.register_implementation("madeup", MadeUp)
process = psutil.Process()
before, begun, lines = process.memory_info().rss, time.process_time(), []


def lap(name, size=None):
    global begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    lines.append([name, time.process_time() - begun, (peak - before) / 2**20, size])
    begun = time.process_time()


source = ImagesSource(kind="images", path="madeup://bucket/in")
storage, stats = list_inputs(source)
lap("list")
seen = Snapshot(0, LINE_SCHEMA.empty_table())
inputs = {"path": [s.path for s in stats[:done]], "identity": [s.identity for s in stats[:done]]}
entry = Entry("k", "r", pa.table({**inputs, "shard": np.arange(done)}))
del inputs
seen = Snapshot(1, entry.lines(1))
lap("the ledger of what is published", seen.lines.nbytes)
left = unpublished(source, storage, stats, seen)
assert len(left) == objects - done
lap("subtract it")
plan = first_plan([shard for stat in stats for shard in source.split(storage, stat)], {})
lap("plan all")
data = plan_to_bytes(plan)
lap("write the plan", len(data))
plan = plan_from_bytes(data)
lap("read it")
records, size = [], 0
for start in range(0, done, per_record):
    ids = IdRuns(((start << ROW_BITS, min(per_record, done - start), 1 << ROW_BITS),))
    ends = tuple(ShardEnd(n, 1) for n in range(start, min(done, start + per_record)))
    made = to_json(Record(f"{start:020d}", plan.digest, "s", (StagedFile("f", ids, 1),), ok=ids,
                          ends=ends))
    size += len(made)
    records.append(from_json(made))
lap("write and read the records", size)
gap = find_gap(plan, accept(records, plan), retry_rejected=True)
assert len(gap.shards) == objects - done
lap("what is left")
todo = parquet_bytes(gap.todo(plan))
lap("write the todo", len(todo))
print(json.dumps(lines))
"""


def measure(folder: Path) -> list[str]:
    """CPU seconds, memory and bytes of each part, and the same for each object."""
    done = int(OBJECTS * DONE_FRACTION)
    command = [sys.executable, "-c", MEASURE, *map(str, (OBJECTS, done, ROWS_PER_RECORD))]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [
        f"{OBJECTS:,} objects, {done:,} of them done.",
        "",
        "| part | CPU seconds | µs an object | peak MiB so far | bytes an object | stored |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, seconds, mib, size in json.loads(out):
        stored = f"{size / 2**20:.1f} MiB" if size else ""
        lines.append(
            f"| {name} | {seconds:.1f} | {seconds / OBJECTS * 1e6:.1f} | {mib:,.0f} | "
            f"{mib * 2**20 / OBJECTS:,.0f} | {stored} |"
        )
    return lines
