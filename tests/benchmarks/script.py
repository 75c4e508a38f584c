"""What the scripts of all contenders take, and what they print at their end."""

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.clock import read_clocks


@dataclass(frozen=True)
class Arguments:
    """Where a script finds its things."""

    inputs: Path
    weights: Path
    output: Path
    knobs: dict[str, int] = field(default_factory=dict)

    @property
    def clocks(self) -> Path:
        """Where its models note their moments."""
        return self.output.with_name(f"{self.output.name}-clocks")

    def finish(self) -> None:
        """Print what the models have noted: the last line of output."""
        print(json.dumps(read_clocks(self.clocks)), flush=True)


def arguments(**knobs: int) -> Arguments:
    """Read the command line.

    Args:
        knobs: what can be set with an option of that name, and its default; whole numbers.
    """
    parser = argparse.ArgumentParser()
    for name in ("inputs", "weights", "output"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name, default in knobs.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    given = vars(parser.parse_args())
    inputs, weights, output = (given.pop(name) for name in ("inputs", "weights", "output"))
    return Arguments(inputs, weights, output, given)
