"""How often the prediction is the label."""

from typing import Literal

from pydantic import ConfigDict

from tasks.kinds.gates.comparison import Comparison
from tasks.kinds.gates.labels_gate import LabelsGate


class AccuracyGate(LabelsGate):
    """Requires a share of correct predictions."""

    model_config = ConfigDict(title="Accuracy")
    kind: Literal["accuracy"] = "accuracy"

    @property
    def subject(self) -> str:
        """What is measured."""
        return f"accuracy of {self.prediction} against {self.label}"

    def score(self, compared: Comparison) -> float:
        """The share of right predictions."""
        return compared.accuracy
