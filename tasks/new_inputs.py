"""A run's work: inputs that are new or have changed since they were published."""

from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.source import Source
from tasks.kinds.sources.table_reading.carried import GONE
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import Plan
from tasks.protocol.stats import Stats
from tasks.protocol.storage import FsspecStorage
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
        """
        source = spec.source.as_planned(old.pins["reader"]) if old else spec.source
        storage, inputs = list_inputs(source)
        left = inputs if replaces else unpublished(source, storage, inputs, seen)
        if limit is not None and seen.entries and not replaces:
            left = Stats.of(())  # its first rows are published; those after them are not asked for
        gone = pc.sum(pc.equal(left.table["identity"], GONE)).as_py() or 0
        return cls(spec, storage, left, len(inputs) - len(left) + gone)

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
