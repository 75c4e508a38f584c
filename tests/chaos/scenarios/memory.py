"""A replica whose batch is more than its node has memory for: Ray kills it, batches are halved."""

from pathlib import Path

import psutil

from tests.chaos.inputs import BATCH, doubled, spread, write_parquet, write_spec
from tests.chaos.outcome import Outcome, judge
from tests.chaos.session import Place, Session

ROOM = 4 << 30
"""Bytes that Ray and its processes may use on top of what the machine uses already."""
MEBIBYTES = 100
"""Of each row: a batch of 64 does not fit beside Ray's own processes, one of 16 does."""


def memory(session: Session, seed: int, *, rows: int = 400) -> Outcome:
    """The first run learns what fits, and the second begins with that."""
    with session.place(f"memory-{seed}") as place:
        write_parquet(place.folder / "in", spread(rows, 4))
        model = {"kind": "python", "class": "chaos_code:Hungry", "init": {"mebibytes": MEBIBYTES}}
        spec = write_spec(place, model=model)
        first = halvings(place, spec)
        again = halvings(place, spec, "--replace-output")
        problems: tuple[str, ...] = () if first else ("batches were not halved",)
        if set(first) & set(again):
            problems += ("the next run did not know",)
        print(f"  batches of {BATCH} became {BATCH >> len(first)}", flush=True)
        return judge(place, spec, doubled(rows), seed, len(first), problems=problems)


def halvings(place: Place, spec: Path, *arguments: str) -> list[int]:
    """Run with so much room; how often batches were halved, at each time that memory ran out."""
    machine = psutil.virtual_memory()
    limits = {
        "RAY_memory_usage_threshold": str(
            (machine.total - machine.available + ROOM) / machine.total
        ),
        "RAY_memory_monitor_refresh_ms": "100",
    }
    report = place.finish(spec, *arguments, **limits)
    return [each["halvings"] for each in report["batch_halvings"]]
