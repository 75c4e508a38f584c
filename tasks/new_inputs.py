"""A run's work: inputs that are new or have changed since they were published."""

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tasks.errors import InvalidSpec
from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.source import Source
from tasks.kinds.sources.table_reading.carried import GONE
from tasks.kinds.tables.iceberg import METADATA
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import Plan
from tasks.protocol.stats import Stats
from tasks.protocol.storage import FsspecStorage
from tasks.protocol.texts import large
from tasks.ray_job.job import output_of
from tasks.sharding import resume_plan
from tasks.spec import BatchInferenceSpec


@dataclass(frozen=True)
class NewInputs:
    """What lies at the source and is not published as it is."""

    spec: BatchInferenceSpec
    storage: FsspecStorage
    left: Stats
    skipped: int
    """Inputs that are published already."""

    @classmethod
    def find(
        cls,
        spec: BatchInferenceSpec,
        seen: Snapshot,
        *,
        replaces: bool,
        limit: int | None,
        old: Plan | None = None,
    ) -> "NewInputs":
        """List the source, as an earlier attempt has pinned it, and subtract the ledger.

        Raises:
            InputNotFound: nothing lies at a path, and `on_empty` is `fail`.
            InvalidSpec: it would take rows of another table out of the output.
        """
        source = spec.source.as_planned(old.pins["reader"]) if old else spec.source
        storage, inputs = list_inputs(source)
        left = inputs if replaces else unpublished(source, storage, inputs, seen)
        if limit is not None and seen.entries and not replaces:
            left = Stats.of(())  # its first rows are published; those after them are not asked for
        gone = left.table.filter(pc.equal(left.table["identity"], GONE))["path"]
        if len(gone) and not seen.holds(inputs.table["path"]):
            refuse_other_table(spec, seen, gone)
        return cls(spec, storage, left, len(inputs) - len(left) + len(gone))

    @staticmethod
    def key(spec: BatchInferenceSpec) -> Any:
        """What the run's key says of it."""
        return spec.source.identity()

    def plan(self, old: Plan | None, pins: dict[str, Any]) -> Plan:
        """The run's plan: as it is, superseded where inputs have changed, or the first one."""
        return resume_plan(old, self.spec, pins, self.storage, self.left)


def unpublished(source: Source, storage: FsspecStorage, inputs: Stats, seen: Snapshot) -> Stats:
    """Inputs whose rows are not published as the source has them now."""
    return source.left(storage, inputs, seen.inputs.select(["path", "identity"]))


def refuse_other_table(spec: BatchInferenceSpec, seen: Snapshot, gone: pa.ChunkedArray) -> None:
    """Refuse to take out rows that are of another source than the table that is read now.

    An output follows its table. What is published of others has not left that, so that of a path
    with a time in it each run would take out what the one before has published.

    Args:
        spec: what is read now.
        seen: what is published.
        gone: published inputs that are not in the table.

    Raises:
        InvalidSpec: names the source that they are of, and the ways out.
    """
    known = seen.inputs.filter(pc.is_in(large(seen.inputs["path"]), large(gone)))
    run_id = known.sort_by("version")["run_id"][-1].as_py()
    storage, output = output_of(spec)
    now = spec.source
    with suppress(FileNotFoundError):
        was = json.loads(storage.read(output.run(run_id).header))["spec"]["source"]
        if (was["kind"], place_of(was["path"])) != (now.kind, place_of(now.path)):
            problem = (
                f"is not what run {run_id} has published rows of, {was['kind']} at {was['path']}: "
                "an output follows its table, and these rows would leave it. Publish to another "
                "sink.path, as by a {scheduled:...} in it too; or --replace-output predicts what "
                "is there now and leaves these rows out"
            )
            raise InvalidSpec.at("source.path", now.path, problem)


def place_of(path: str | list[str]) -> str | list[str]:
    """What stays of a source's path while its table changes."""
    if isinstance(path, str):
        return path.rpartition("/")[0] if path.endswith(METADATA) else path.rstrip("/")
    return path
