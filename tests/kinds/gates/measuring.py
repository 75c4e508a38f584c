"""Runs a gate over rows, cut anywhere."""

from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter

from tasks.kinds.gates import AnyGate, Gate
from tasks.kinds.gates.gate import Judgement, LastRun

ADAPTER: TypeAdapter[Gate] = TypeAdapter(AnyGate)


def gate_of(**fields: Any) -> Gate:
    """A gate as a spec has it."""
    return ADAPTER.validate_python(fields)


def judge(gate: Gate, rows: pa.Table, cut: int = 7, last: LastRun | None = None) -> Judgement:
    """What a gate says of rows that come some at a time."""
    meter = gate.meter(rows.schema, last or LastRun())
    for start in range(0, len(rows), cut):
        meter.add(rows.slice(start, cut))
    return meter.judge()
