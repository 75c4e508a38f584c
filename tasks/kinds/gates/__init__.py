"""All gates, written out: the union is the contract."""

from typing import Annotated

from pydantic import Field

from tasks.kinds.form import PickOne
from tasks.kinds.gates.accuracy import AccuracyGate
from tasks.kinds.gates.bounds import BoundsGate
from tasks.kinds.gates.drift import DriftGate
from tasks.kinds.gates.f1 import F1Gate
from tasks.kinds.gates.gate import Gate
from tasks.kinds.gates.nulls import NullsGate
from tasks.kinds.gates.rows import RowsGate

AnyGate = Annotated[
    AccuracyGate | F1Gate | NullsGate | RowsGate | BoundsGate | DriftGate,
    Field(discriminator="kind"),
    PickOne(),
]

__all__ = [
    "AccuracyGate",
    "AnyGate",
    "BoundsGate",
    "DriftGate",
    "F1Gate",
    "Gate",
    "NullsGate",
    "RowsGate",
]
