"""The plan: shards and pins, stored once as Parquet, read back in parts."""

import hashlib
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from tasks.protocol.columns import objects_of, table_of
from tasks.protocol.hashed_file import HashedFile
from tasks.protocol.ids import MAX_SHARDS, ROW_BITS, IdRuns, Ids, RowsByRun, by_run, row_of
from tasks.protocol.layout import RunFolder
from tasks.protocol.parquet_parts import parquet_bytes
from tasks.protocol.read_back import PLAN_ANEW, read_back
from tasks.protocol.same_shards import places_in
from tasks.protocol.storage import Storage, paths_in
from tasks.protocol.texts import in_order

SHARD_SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("path", pa.string()),
        ("identity", pa.string()),
        ("size", pa.int64()),
        ("start", pa.int32()),  # row groups [start, stop) of a big Parquet file, else null
        ("stop", pa.int32()),
        ("first_row", pa.int64()),  # where the shard starts in its file
        ("rows", pa.int64()),  # null where only reading tells
    ]
)
REDRIVE_SCHEMA = pa.schema(
    [
        ("origin_run", pa.string()),  # the run that set rows of the shard aside
        ("aside", pa.string()),  # these rows, as JSON runs of that run's ids
        ("whole", pa.bool_()),  # whether all of the shard is to be read anew, and not only they
        ("read_as", pa.string()),  # the run whose reader settings it is read with
    ]
)
"""What a redrive's shards have beside: it does again what published runs have set aside."""
PUBLISHED_SHARDS = "published_shards"
"""Pin of a plan whose rows are only compared with published ones: the number that each shard has
there, in the order of the shards' own numbers, from 0 on."""
PUBLISHED_DAYS = "published_days"
"""Pin beside it: the day on which the run was planned that has published each of these shards."""
PLAN = ".parquet"
"""Ends the names of plans."""
UNKNOWN = -1
"""Rows of a shard where only reading tells."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A file, or some row groups of one."""

    number: int
    path: str
    identity: str
    size: int
    start: int | None = None
    stop: int | None = None
    first_row: int = 0
    rows: int | None = None


@dataclass(frozen=True)
class Plan:
    """What a run reads, and what must not change between its attempts."""

    shards: pa.Table
    pins: dict[str, Any]
    ancestors: tuple[str, ...] = ()
    """Digests of the plans that this one supersedes; their records are still good."""
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        """Name the plan by its content."""
        object.__setattr__(self, "digest", digest_of(self))

    @cached_property
    def lineage(self) -> frozenset[str]:
        """Plans whose records this plan takes."""
        return frozenset((*self.ancestors, self.digest))

    @cached_property
    def numbers(self) -> Ids:
        """Shard numbers, ascending."""
        return self.shards["number"].to_numpy()

    @cached_property
    def lengths(self) -> Ids:
        """Rows of each shard, or UNKNOWN."""
        return self.shards["rows"].fill_null(UNKNOWN).to_numpy()

    @property
    def redrives(self) -> bool:
        """Whether it does again what published runs have set aside."""
        return "aside" in self.shards.column_names

    @cached_property
    def wanted(self) -> dict[int, Ids]:
        """Shards of which only some rows are to be done, and these rows' ids."""
        lines = self.shards.to_pylist() if self.redrives else []
        wanted = {line["number"]: wanted_of(line) for line in lines}
        return {number: ids for number, ids in wanted.items() if ids is not None}

    @property
    def rows_aside(self) -> RowsByRun:
        """The rows that a redrive does again, by the run that set them aside."""
        lines = self.shards.select(["origin_run", "aside"]).to_pylist()
        return by_run((line["origin_run"], IdRuns.of_json(line["aside"])) for line in lines)

    @property
    def known_rows(self) -> int | None:
        """Rows in all, or None where only reading tells."""
        return total_rows(self.shards)


def shard_table(shards: Iterable[Shard]) -> pa.Table:
    """Shards as a table."""
    return table_of(shards, SHARD_SCHEMA)


def whole_files(files: pa.Table, rows: int | None) -> pa.Table:
    """Files as a table of shards, one each; they share the memory of its columns.

    Args:
        files: their path, identity and size.
        rows: of each; None where only reading tells.
    """
    same = {"number": 0, "start": None, "stop": None, "first_row": 0, "rows": rows}
    columns = [
        pa.repeat(pa.scalar(same[field.name], field.type), len(files))
        if field.name in same
        else files[field.name]
        for field in SHARD_SCHEMA
    ]
    return pa.table(columns, schema=SHARD_SCHEMA)


def each_shard(table: pa.Table) -> Iterator[Shard]:
    """Rows of a shard table as shards; extra columns are left out."""
    return objects_of(table.select(SHARD_SCHEMA.names), Shard)


def shards_of(table: pa.Table) -> list[Shard]:
    """All of them."""
    return list(each_shard(table))


def total_rows(shards: pa.Table) -> int | None:
    """Rows of all shards, or None where only reading tells."""
    return None if shards["rows"].null_count else int(pc.sum(shards["rows"]).as_py() or 0)


def wanted_of(line: dict[str, Any]) -> Ids | None:
    """The rows to do of a shard, as ids; None for all, as in every run but a redrive."""
    if line.get("aside") is None or line["whole"]:
        return None
    return line["number"] << ROW_BITS | row_of(IdRuns.of_json(line["aside"]).ids())


def digest_of(plan: Plan) -> str:
    """Content hash of a plan; over text, since Arrow's buffers differ for equal tables."""
    digest = hashlib.sha256()
    with HashedFile(digest) as file:
        csv.write_csv(plan.shards, file)
    digest.update(json.dumps([plan.pins, plan.ancestors], sort_keys=True).encode())
    return digest.hexdigest()[:16]


def path_of(run: RunFolder, plan: Plan) -> str:
    """Plans are named by generation and content: the same plan twice is the same file."""
    return f"{run.plans}/{len(plan.ancestors):04d}-{plan.digest}{PLAN}"


def save_plan(storage: Storage, run: RunFolder, plan: Plan) -> None:
    """Store a plan; the same plan again changes nothing."""
    storage.write(path_of(run, plan), plan_to_bytes(plan))


def plan_to_bytes(plan: Plan) -> bytes:
    """A plan as stored."""
    header = json.dumps({"pins": plan.pins, "ancestors": plan.ancestors})
    return parquet_bytes(plan.shards, {"plan": header})


def load_plan(storage: Storage, run: RunFolder) -> Plan | None:
    """The plan in force: of the latest generation the first by name; None where there is none.

    Raises:
        InvalidSpec: it is damaged.
    """
    path = path_in_force(storage, run)
    return None if path is None else read_plan(storage, path)


def path_in_force(storage: Storage, run: RunFolder) -> str | None:
    """Where that plan lies."""
    found = paths_in(storage, run.plans, PLAN)
    latest = max((name_of(path)[:4] for path in found), default="")
    return min((path for path in found if name_of(path).startswith(latest)), default=None)


def read_plan(storage: Storage, path: str, way_out: str = PLAN_ANEW) -> Plan:
    """The plan at a path.

    Args:
        storage: where it lies.
        path: of it.
        way_out: what to do where it is damaged.

    Raises:
        FileNotFoundError: it is gone.
        InvalidSpec: it is damaged.
    """
    return read_back(storage, path, plan_from_bytes, way_out)


def plan_from_bytes(data: bytes) -> Plan:
    """A plan read back."""
    table = pq.read_table(io.BytesIO(data))
    header = json.loads(table.schema.metadata[b"plan"])
    shards = table.replace_schema_metadata(None)
    return Plan(shards, header["pins"], tuple(header["ancestors"]))


def name_of(path: str) -> str:
    """Last part of a path."""
    return path.rsplit("/", 1)[-1]


def supersede(
    old: Plan, shards: pa.Table, pins: dict[str, Any], *, keeps_numbers: bool = True
) -> Plan:
    """A plan of what lies there now; what has not changed keeps its number.

    Changed and new inputs get numbers that no plan of this line ever used, so that a row id
    means the same row for ever. Where all get such numbers, no record of the old plan counts.
    """
    known = old.shards if keeps_numbers else old.shards.slice(0, 0)
    at = places_in(known, shards)
    is_new, fresh = at < 0, int(old.pins["next_number"])
    unused = fresh + int(is_new.sum())
    numbers = np.empty(len(shards), dtype=np.int64)
    numbers[is_new] = np.arange(fresh, unused)
    numbers[~is_new] = old.numbers[at[~is_new]]
    table = in_order(shards.set_column(0, "number", pa.array(numbers)), np.argsort(numbers))
    return Plan(table, {**pins, "next_number": unused}, (*old.ancestors, old.digest))


def first_plan(shards: pa.Table, pins: dict[str, Any]) -> Plan:
    """A plan that supersedes none; its shards are numbered in their order.

    Raises:
        OverflowError: more than 2**31 shards.
    """
    if len(shards) >= MAX_SHARDS:
        raise OverflowError(f"{len(shards)} shards; at most {MAX_SHARDS} fit a row id")
    numbered = shards.set_column(0, "number", pa.array(np.arange(len(shards))))
    return Plan(numbered, {**pins, "next_number": len(shards)})
