"""What a plan leaves in its run's folder: itself, a header, the schema of what is published."""

import json
import time
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from tasks.kinds.gates.gate import check_columns
from tasks.protocol.layout import RunFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import Plan, path_in_force, path_of, read_plan, save_plan
from tasks.protocol.read_back import json_object, read_back
from tasks.protocol.storage import FsspecStorage
from tasks.ray_job.new_columns import extends
from tasks.ray_job.output_schema import (
    PUBLISHED_PLACE,
    Pinned,
    find_pinned,
    pinned,
    read_schema,
)
from tasks.spec import BatchInferenceSpec

HEADER = ("run_key", "run_id", "ledger_version", "call", "spec")
"""What each header says, of whatever release."""
OF_UNPUBLISHED = (
    "Restore it from a copy; or delete it and run again, which continues from what the run has "
    "recorded if the spec is the same"
)
"""What to do where that of a run which is not published is damaged."""


def run_id_of(run_key: str) -> str:
    """A run's id, derived from its key."""
    return run_key[:16]


def save_and_reload(storage: FsspecStorage, run: RunFolder, plan: Plan) -> Plan:
    """Save a plan; of two that were made at once, take the one that counts.

    Where its inputs are not what lies there, reading says so and the run is planned anew.
    """
    save_plan(storage, run, plan)
    path = path_in_force(storage, run)
    # A listing may lag behind; then our own plan counts. What bears its name is the same plan.
    found = read_plan(storage, path) if path and path != path_of(run, plan) else None
    return found if found and len(found.ancestors) >= len(plan.ancestors) else plan


def save_header(
    storage: FsspecStorage,
    run: RunFolder,
    key: str,
    call: dict[str, Any],
    spec: BatchInferenceSpec,
    version: int,
    flow_runs: tuple[str, ...] = (),
    scheduled_time: str | None = None,
) -> bool:
    """Say what the run is, for whoever finds it unfinished; return whether nobody had said so."""
    if storage.stat(run.header) is not None:
        return False
    header = {
        "run_key": key,
        "run_id": run.run_id,
        "ledger_version": version,
        "call": call,
        "created": time.time(),
        "flow_runs": flow_runs,
        "scheduled_time": scheduled_time,
        "spec": spec.as_json(),
    }
    storage.write(run.header, json.dumps(header).encode())
    return True


def day_of(header: dict[str, Any]) -> str:
    """Day on which a run was first planned, in UTC, as in `2026-11-30`."""
    return datetime.fromtimestamp(header["created"], UTC).date().isoformat()


def read_header(
    storage: FsspecStorage, run: RunFolder, way_out: str = OF_UNPUBLISHED
) -> dict[str, Any]:
    """What a run is, as it says.

    Args:
        storage: of the output.
        run: its folder.
        way_out: what to do where that is damaged.

    Raises:
        FileNotFoundError: it does not say, or no more.
        InvalidSpec: it is damaged.
    """

    def decode(content: bytes) -> dict[str, Any]:
        found = json_object(content)
        kinds = [type(found[name]) for name in HEADER]
        if kinds != [str, str, int, dict, dict]:
            raise TypeError("some of its values are of another type")
        return found

    return read_back(storage, run.header, decode, way_out)


def pin_schema(
    storage: FsspecStorage, run: RunFolder, published: bytes | None, *, takes_new_columns: bool
) -> bool:
    """Give the run the schema of what is published, so that versions fit each other.

    Its rows may have been written under another, where nothing was published as it began. They are
    made anew: else readers of the output would find two types of one column.

    Args:
        storage: of the output.
        run: to give it to.
        published: the schema.
        takes_new_columns: whether rows may have columns beyond those.

    Returns:
        Whether there were such rows.
    """
    if not published:
        return False
    path, place = find_pinned(storage, run), PUBLISHED_PLACE
    if path is not None:
        own, there = read_schema(storage, path), pa.ipc.read_schema(pa.py_buffer(published))
        if own.equals(there) or (takes_new_columns and extends(own, there)):
            return False
        place = min(Pinned(path, own).place - 1, PUBLISHED_PLACE)
    storage.write(f"{run.schemas}/{place:020d}-published.arrow", published)
    return path is not None


def published_schema(seen: Snapshot, replaces: bool) -> bytes | None:
    """The schema of what is published; None where nothing is that the run must fit."""
    return None if replaces else seen.schema


def check_schema(
    spec: BatchInferenceSpec, storage: FsspecStorage, run: RunFolder, published: bytes | None
) -> None:
    """See that gates and table fit the output, where its schema is known already.

    Raises:
        InvalidSpec: a gate looks at a column that the output does not have; or others have
            changed the table's columns.
    """
    if not spec.gates and spec.sink.as_table() is None:
        return
    schema = pinned(storage, run)
    if schema is None and published:
        schema = pa.ipc.read_schema(pa.py_buffer(published))
    if schema is not None:
        check_columns(spec.gates, schema, may_come=spec.sink.takes_new_columns)
        spec.sink.schema_for(schema)
