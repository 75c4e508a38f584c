"""What gates on right and wrong predictions have in common."""

import math
from dataclasses import dataclass, field

import pyarrow as pa
from pydantic import Field

from tasks.counted import counted
from tasks.kinds.gates.comparison import LABEL, PREDICTION, Comparison, chart_classes
from tasks.kinds.gates.gate import Gate, Judgement, LastRun
from tasks.kinds.gates.values import refuse_nested

ROUNDING = 1e-12
"""A mean of many fractions, rounded one by one, is as far from what it would be, at most."""


class LabelsGate(Gate):
    """Requires a score of predictions against labels, over the rows that have a label."""

    minimum: float = Field(ge=0, le=1, description="Lowest score allowed.")
    label: str = Field(
        LABEL, description="Column of the true label; rows without one do not count."
    )
    prediction: str = Field(
        PREDICTION, description="Column of the prediction; of a list, the first value counts."
    )

    @property
    def limit(self) -> str:
        """What is allowed."""
        return f"at least {self.minimum:g}"

    @property
    def columns(self) -> dict[str, str]:
        """Label and prediction."""
        return {"label": self.label, "prediction": self.prediction}

    def refuse_type(self, kind: pa.DataType) -> str | None:
        """Classes are text, numbers or booleans."""
        return refuse_nested(kind)

    def score(self, compared: Comparison) -> float:
        """The score, from 0 to 1, of at least one row."""
        raise NotImplementedError

    def meter(self, schema: pa.Schema, last: LastRun) -> "LabelsMeter":
        """Counts which label met which prediction."""
        return LabelsMeter(self)


@dataclass
class LabelsMeter:
    """Compares labels."""

    gate: LabelsGate
    compared: Comparison = field(init=False)

    def __post_init__(self) -> None:
        self.compared = Comparison(self.gate.label, self.gate.prediction)

    def add(self, rows: pa.Table) -> None:
        """Count some rows."""
        self.compared.add(rows)

    def judge(self) -> Judgement:
        """The score; rows of which none has a label do not pass unseen."""
        if not self.compared.total:
            return self.gate.judgement(None, False, note="no row has a label")
        try:
            value = self.gate.score(self.compared)
        except ValueError as error:
            return self.gate.judgement(None, False, note=str(error))
        return self.gate.judgement(
            value,
            value >= self.gate.minimum or math.isclose(value, self.gate.minimum, rel_tol=ROUNDING),
            note=f"{counted(self.compared.total, 'row')} with a label",
            chart=chart_classes(self.compared),
        )
