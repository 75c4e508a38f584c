"""Whether a target is reached: medians, ranges and bootstrap intervals of ratios."""

from dataclasses import dataclass

import numpy as np

PAIRS_FOR_INTERVAL = 10
WIDEST = 0.04
NEAR = 0.05
DRAWS = 10_000


@dataclass(frozen=True)
class Ratio:
    """Their seconds over ours, round by round: above 1 we are faster."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The ratio to speak of."""
        return float(np.median(self.values))

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the median lies with 95 %: bootstrap; None of too few pairs."""
        if len(self.values) < PAIRS_FOR_INTERVAL:
            return None
        random = np.random.default_rng(0)
        drawn = random.choice(self.values, (DRAWS, len(self.values)))
        low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
        return float(low), float(high)

    def verdict(self, at_least: float) -> str:
        """Whether it is at least so much, at its lower end where that is close.

        Near the target it takes ten pairs and a narrow interval to say anything.
        """
        if abs(self.median / at_least - 1) > NEAR:
            return "reached" if self.median >= at_least else "missed"
        if self.interval is None:
            return f"inconclusive: {PAIRS_FOR_INTERVAL} pairs are needed this close"
        low, high = self.interval
        if high - low > WIDEST:
            return "inconclusive"
        return "reached" if low >= at_least else "missed"

    def __str__(self) -> str:
        """Median and range; the interval too, where there is one."""
        text = f"{self.median:.2f} ({min(self.values):.2f} to {max(self.values):.2f})"
        if self.interval is None:
            return text
        return f"{text}, 95 %: {self.interval[0]:.3f} to {self.interval[1]:.3f}"
