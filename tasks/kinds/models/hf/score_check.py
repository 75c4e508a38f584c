"""Tells whether what a model writes was chosen by numbers."""

from typing import Any

from tasks.kinds.models.arrays import NO_NUMBERS


class ScoreCheck:
    """Looks at the scores of each token; transformers calls it before one is chosen.

    Of scores that are no numbers it would choose one all the same. What is found stays on the
    device until the text is written: to ask for it at each token would make the device wait.
    """

    def __init__(self) -> None:
        self.highest: Any = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """The scores, as they are; -inf is that of a token that is ruled out."""
        highest = scores.amax()  # NaN where any is
        self.highest = highest if self.highest is None else self.highest.maximum(highest)
        return scores

    def refuse_no_numbers(self) -> None:
        """See that all scores so far were numbers.

        Raises:
            ValueError: one was not.
        """
        if self.highest is not None and not self.highest < float("inf"):
            raise ValueError(NO_NUMBERS)
