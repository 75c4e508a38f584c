"""All that lies at a spec's source, as a first run would find it."""

from dataclasses import dataclass

from tasks.kinds.sources.likely_rows import INPUTS_ASKED, reckon_rows
from tasks.ledgers import ledger_of
from tasks.planning.known_types import lasting_columns
from tasks.planning.new_inputs import NewInputs
from tasks.spec import BatchInferenceSpec


@dataclass(frozen=True)
class FullRun:
    """All that lies at the source, published or not."""

    inputs: int
    size: int
    """Bytes."""
    shards: int
    rows: int | None
    """None where only reading tells."""
    rows_are_known: bool
    """Whether they were counted; else reckoned from a look at some of the inputs."""


def full_run(spec: BatchInferenceSpec) -> FullRun:
    """Look at all of the source, as a first run would.

    Raises:
        InputNotFound: nothing lies there, and `on_empty` is `fail`.
    """
    seen = ledger_of(spec).look()
    found = NewInputs.find(spec, seen, replaces=True, limit=None)
    plan = found.plan(None, {"limit": None}, lasting_columns(spec, seen.schema))
    rows, all_tell = plan.known_rows, len(plan.shards) <= INPUTS_ASKED and not spec.source.reads_on
    rows_are_known = rows is not None or all_tell
    if rows is None:
        pins = plan.pins["reader"]
        rows = reckon_rows(spec.source.as_planned(pins), found.storage, plan.shards, pins)
    return FullRun(
        inputs=len(found.left),
        size=sum(stat.size for stat in found.left),
        shards=len(plan.shards),
        rows=rows,
        rows_are_known=rows_are_known,
    )
