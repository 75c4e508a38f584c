"""Texts that a GPT-2 goes on from prompts of differing lengths, on a GPU."""

import pyarrow as pa

from tests.benchmarks.workloads import generation
from tests.benchmarks.workloads.workload import Size, Target

KEY = generation.KEY
SIZES: dict[Size, int] = {"whole": 100_000, "small": 10_000, "tiny": 4}
TARGETS: dict[str, tuple[Target, ...]] = {"floor": (Target(0.9),)}
SAME_TEXTS = 0.5
"""Share of them: in bfloat16 words tie often, and one tie changes all that follows it."""
make_weights = generation.make_weights
make_inputs = generation.make_inputs
spec = generation.spec


def compare(ours: pa.Table, theirs: pa.Table) -> None:
    """The same texts, up to ties."""
    pairs = zip(*(each["generated_text"].to_pylist() for each in (ours, theirs)), strict=True)
    same = sum(mine == other for mine, other in pairs) / len(ours)
    assert same >= SAME_TEXTS, f"only {same:.1%} of the texts are the same"
