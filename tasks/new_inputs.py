"""A run's work: inputs that are new or have changed since they were published."""

from dataclasses import dataclass
from typing import Any

from tasks.kinds.sources.listing import list_inputs
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import Plan
from tasks.protocol.storage import FsspecStorage, Stat
from tasks.sharding import resume_plan
from tasks.spec import BatchInferenceSpec


@dataclass(frozen=True)
class NewInputs:
    """What lies at the source and is not published as it is."""

    spec: BatchInferenceSpec
    storage: FsspecStorage
    left: list[Stat]
    skipped: int
    """Inputs that are published already."""

    @classmethod
    def find(
        cls, spec: BatchInferenceSpec, seen: Snapshot, *, replaces: bool, limit: int | None
    ) -> "NewInputs":
        """List the source and subtract the ledger.

        Raises:
            InputNotFound: nothing lies at a path, and `on_empty` is `fail`.
        """
        storage, inputs = list_inputs(spec.source)
        left = inputs if replaces else unpublished(inputs, seen)
        if limit is not None and seen.entries and not replaces:
            left = []  # its first rows are published; those after them are not asked for
        return cls(spec, storage, left, len(inputs) - len(left))

    @property
    def key(self) -> Any:
        """What the run's key says of it."""
        return self.spec.source.model_dump(mode="json")

    def plan(self, old: Plan | None, pins: dict[str, Any]) -> Plan:
        """The run's plan: as it is, superseded where inputs have changed, or the first one."""
        return resume_plan(old, self.spec, pins, self.storage, self.left)


def unpublished(inputs: list[Stat], seen: Snapshot) -> list[Stat]:
    """Inputs that are new or have changed since they were published."""
    table = seen.inputs.select(["path", "identity"])
    known = set(zip(table["path"].to_pylist(), table["identity"].to_pylist(), strict=True))
    return [stat for stat in inputs if (stat.path, stat.identity) not in known]
