"""What a module here must have to be run side by side."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa

Measure = Literal["whole", "steady"]
Size = Literal["whole", "small", "tiny"]


@dataclass(frozen=True)
class Target:
    """How much faster we want to be than another way: its seconds over ours."""

    at_least: float
    measure: Measure = "steady"
    size: Size = "whole"


class Workload(Protocol):
    """A module of this folder."""

    KEY: str
    """The column that tells one row from another."""
    SIZES: dict[Size, int]
    """Inputs of a run: at least 60 s of steady work; what starting up dominates; a moment."""
    TARGETS: dict[str, tuple[Target, ...]]
    """By contender: guide, plain, daft, daft_ray, floor."""

    make_weights: Callable[[Path, int], None]
    """Put the model, made from a seed, into a folder."""
    make_inputs: Callable[[Path, int, int], None]
    """Put so many inputs, unique to a seed, into a folder."""
    spec: Callable[[Path, Path, Path], dict[str, Any]]
    """Our run: of inputs and weights, to an output."""
    compare: Callable[[pa.Table, pa.Table], None]
    """See that ours and theirs, sorted by the key, say the same; raises AssertionError if not."""
