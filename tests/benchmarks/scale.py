"""Planning and resuming beyond what any disk here holds: listing and records are made up.

`SCALE=10000000 ROWS=1000000000 make bench ROW=scale` plans ten million objects, a million of them
done, and accepts a billion rows.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

OBJECTS = int(os.environ.get("SCALE", "1000000"))
ROWS = int(os.environ.get("ROWS", "100000000"))
DONE_FRACTION = 0.1
ROWS_PER_RECORD = 2_048
ROWS_PER_FILE = 1_000_000
FILTERED_ROWS = ROWS // 10
ROWS_OF_NUMBERS = 500_000
"""In a record, where they are small."""

LAPS = """
import json, resource, sys, time
import psutil


def lap(name, size=None):
    global begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    lines.append([name, time.process_time() - begun, (peak - before) / 2**20, size])
    begun = time.process_time()


def start():
    global before, begun, lines
    before, begun, lines = psutil.Process().memory_info().rss, time.process_time(), []
"""
PLANNING = """
import io, fsspec, numpy as np, pyarrow as pa, pyarrow.parquet as pq
from s3fs import S3FileSystem
from tasks.kinds.sources.images import ImagesSource
from tasks.kinds.sources.listing import list_inputs
from tasks.protocol.acceptance import accept, find_gap
from tasks.protocol.shard_ends import EndRuns
from tasks.protocol.ids import ROW_BITS, IdRuns
from tasks.protocol.ledger import Entry, Snapshot
from tasks.protocol.ledger_lines import LINE_SCHEMA
from tasks.protocol.parquet_parts import parquet_bytes
from tasks.protocol.plan_file import first_plan, plan_from_bytes, plan_to_bytes, supersede
from tasks.protocol.records import Record, StagedFile, from_json, to_json
from tasks.ray_job.opening import lines_of

objects, done, per_record = (int(each) for each in sys.argv[1:])


class MadeUp(S3FileSystem):
    protocol = ("madeup", "s3")

    def call_s3(self, method, Bucket, Prefix, ContinuationToken="0"):
        start = int(ContinuationToken)
        stop = min(objects, start + 1000)
        found = [{"Key": f"{Prefix}{n // 1000:06d}/{n:09d}.jpg", "Size": 99, "ETag": f'"{n:032x}"'}
                 for n in range(start, stop)]
        return {"Contents": found, "IsTruncated": stop < objects,
                "NextContinuationToken": str(stop)}

    def exists(self, path, **options):
        return True


class Fetched(io.BytesIO):
    fetched = 0

    def read(self, size=-1):
        data = super().read(size)
        self.fetched += len(data)
        return data


fsspec.register_implementation("madeup", MadeUp)
start()
source = ImagesSource(kind="images", path="madeup://bucket/in")
storage, stats = list_inputs(source)
lap("list")
seen = Snapshot(0, LINE_SCHEMA.empty_table())
inputs = {name: stats.table[name][:done] for name in ("path", "identity")}
entry = Entry("k", "r", pa.table({**inputs, "shard": np.arange(done)}))
del inputs
seen = Snapshot(1, entry.lines(1))
lap("the ledger of what is published", seen.lines.nbytes)
left = source.left(storage, stats, seen.inputs.select(["path", "identity"]))
assert len(left) == objects - done
del left
lap("subtract it")
plan = first_plan(source.shards(storage, stats), {})
lap("plan all")
data = plan_to_bytes(plan)
lap("write the plan", len(data))
del plan
plan = plan_from_bytes(data)
lap("read it, with the listing")
del stats, data
records, size = [], 0
for first in range(0, done, per_record):
    ids = IdRuns(((first << ROW_BITS, min(per_record, done - first), 1 << ROW_BITS),))
    ends = EndRuns(((first, 1, len(ids)),))
    made = to_json(Record(f"{first:020d}", plan.digest, "s", (StagedFile("f", ids, 1),), ok=ids,
                          ends=ends))
    size += len(made)
    records.append(from_json(made))
lap("write and read the records", size)
gap = find_gap(plan, accept(records, plan), retry_rejected=True)
assert len(gap.shards) == objects - done
lap("what is left")
todo = parquet_bytes(gap.todo(plan))
lap("write the todo", len(todo))
file = Fetched(todo)
found = sum(map(len, lines_of(pq.ParquetFile(file, pre_buffer=True), done, done + 1000)))
assert found == 1000
lap("fetch of it what 1,000 objects need", file.fetched)
del todo, file, found
first = plan.shards.slice(0, 1).set_column(2, "identity", pa.array(["another"]))
new = supersede(plan, pa.concat_tables([first, plan.shards.slice(1)]), plan.pins)
assert (new.numbers[0], new.numbers[-1], len(new.numbers)) == (1, objects, objects)
lap("plan again, where one was rewritten")
print(json.dumps(lines))
"""

ACCEPTING = """
from tasks.protocol.acceptance import accept, find_gap
from tasks.protocol.shard_ends import EndRuns
from tasks.protocol.ids import ROW_BITS, IdRuns
from tasks.protocol.plan_file import Shard, first_plan, shard_table
from tasks.protocol.records import Record, StagedFile, filled_up, from_json, to_json

import numpy as np

rows, per_file, per_record = (int(each) for each in sys.argv[1:4])
is_filtered, random = sys.argv[4:] == ["filtered"], np.random.default_rng(0)
shards = [Shard(0, f"bucket/in/{n:06d}.parquet", f"{n:032x}", 99, rows=per_file)
          for n in range(rows // per_file)]
plan = first_plan(shard_table(shards), {})
start()


def stored():
    for shard in range(rows // per_file):
        for first in range(0, per_file, per_record):
            number, stop = shard * per_file + first, min(per_file, first + per_record)
            ids, filtered = IdRuns((((shard << ROW_BITS) + first, stop - first, 1),)), IdRuns()
            together = None
            if is_filtered:
                all_ids, is_left = ids.ids(), random.random(stop - first) < 0.5
                left, filtered = all_ids[is_left], IdRuns.of(all_ids[~is_left])
                ids, together = IdRuns.of(left), filled_up(left, filtered)
            ends = EndRuns(((shard, per_file, 1),)) if stop == per_file else EndRuns()
            files = (StagedFile(f"{number:032x}.parquet", ids, 1_000_000 + number),)
            seconds = {"read": 0.125, "preprocess": 0.25, "infer": 2.5, "write": 0.0625}
            yield to_json(Record(f"{number:020d}-{shard:012x}", plan.digest, "0" * 16, files,
                                 ok=ids, filtered=filtered, ends=ends, seconds=seconds,
                                 inferred_at=(1e9 + shard, 2e9 + shard),
                                 together=together))


size, records = 0, []
for data in stored():
    size += len(data)
    records.append(from_json(data))
lap(f"write and read {len(records):,} records", size)
accepted = accept(records, plan)
assert len(accepted.settled) == rows
lap("accept them")
assert not find_gap(plan, accepted, retry_rejected=False)
lap("what is left")
print(json.dumps(lines))
"""


def measure(folder: Path) -> list[str]:
    """CPU seconds, memory and bytes of each part, and the same for each object or row."""
    done = int(OBJECTS * DONE_FRACTION)
    return [
        f"{OBJECTS:,} objects, {done:,} of them done.",
        "",
        *table(PLANNING, "object", OBJECTS, done, ROWS_PER_RECORD),
        "",
        f"{ROWS:,} rows in files of {ROWS_PER_FILE:,}, all of them done.",
        "",
        *table(ACCEPTING, "row", ROWS, ROWS_PER_FILE, ROWS_PER_RECORD),
        "",
        f"{FILTERED_ROWS:,} rows, of which a filter leaves each second one, at random.",
        "",
        *table(ACCEPTING, "row", FILTERED_ROWS, ROWS_PER_FILE, ROWS_OF_NUMBERS, "filtered"),
    ]


def table(script: str, what: str, total: int, *more: int | str) -> list[str]:
    """What the parts of a script took, in all and for each of so many."""
    command = [sys.executable, "-c", LAPS + script, *map(str, (total, *more))]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [
        f"| part | CPU seconds | µs for each {what} | peak MiB so far | bytes for each | stored |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, seconds, mib, size in json.loads(out):
        stored = f"{size / 2**20:.1f} MiB" if size else ""
        lines.append(
            f"| {name} | {seconds:.1f} | {seconds / total * 1e6:.3g} | {mib:,.0f} | "
            f"{mib * 2**20 / total:,.3g} | {stored} |"
        )
    return lines
