"""How good the prediction is class by class."""

from collections import Counter
from typing import Literal

from pydantic import ConfigDict, Field

from tasks.kinds.gates.comparison import Comparison, Pair
from tasks.kinds.gates.labels_gate import LabelsGate

Average = Literal["macro", "micro", "weighted"]


class F1Gate(LabelsGate):
    """Requires an F1 score, the harmonic mean of precision and recall."""

    model_config = ConfigDict(title="F1 score")
    kind: Literal["f1"] = "f1"
    average: Average = Field(
        "macro",
        description="macro: every class counts the same; weighted: by its number of rows; micro: "
        "over all rows together.",
    )

    @property
    def subject(self) -> str:
        """What is measured."""
        return f"F1 ({self.average}) of {self.prediction} against {self.label}"

    def score(self, compared: Comparison) -> float:
        """The score.

        Raises:
            ValueError: there are too many kinds of pairs to tell apart.
        """
        if compared.left_out:
            raise ValueError(
                f"more than {len(compared.pairs):,} pairs of values: these are not classes"
            )
        return f1_score(compared.pairs, self.average)


def f1_score(pairs: Counter[Pair], average: Average) -> float:
    """The F1 score over the classes that are a label or a prediction, as scikit-learn has it.

    A missing prediction is wrong, and no class of its own.
    """
    labels, guesses, right = Counter[str](), Counter[str](), Counter[str]()
    for (label, guess), count in pairs.items():
        labels[label] += count
        right[label] += count * (label == guess)
        if guess is not None:
            guesses[guess] += count
    if average == "micro":
        return 2 * right.total() / (labels.total() + guesses.total())
    # Every class here was seen, so that no divisor is zero.
    scores = {name: 2 * right[name] / (labels[name] + guesses[name]) for name in labels | guesses}
    if average == "macro":
        return sum(scores.values()) / len(scores)
    return sum(scores[name] * count for name, count in labels.items()) / labels.total()
