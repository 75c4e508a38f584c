"""What a run's rows are compared with: what this output's last run left, or another output's.

The last run that has at least half as many rows: shares of few rows are mostly chance, so that of a
late file of ten rows nobody can say that the next full night has drifted from it.
"""

from collections.abc import Sequence
from dataclasses import replace

from tasks.errors import InvalidSpec
from tasks.kinds.gates.distribution import rows_of
from tasks.kinds.gates.gate import Earlier, Gate, LastRun
from tasks.ledgers import ledger_of
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.ledger import Snapshot
from tasks.spec import BatchInferenceSpec

MANY_ROWS = 2_000
"""Of half as many chance makes a PSI of 0.06, in ten classes: no run needs a larger measure."""
NAME_ONE = (
    ". If each scheduled time has its own output, this will not change: name one of them in "
    "baseline"
)


def last_runs(spec: BatchInferenceSpec, seen: Snapshot, rows: int = 0) -> list[LastRun]:
    """What each gate compares with.

    Args:
        spec: has the gates.
        seen: what is published.
        rows: how many are judged; 0 where nobody knows yet, and any will do.

    Raises:
        InvalidSpec: the output that a gate names has published nothing to compare with.
    """
    return [last_run_for(spec, at, gate, seen, rows) for at, gate in enumerate(spec.gates)]


def last_run_for(
    spec: BatchInferenceSpec, at: int, gate: Gate, seen: Snapshot, rows: int
) -> LastRun:
    """What one gate compares with."""
    if names_own_output(spec, gate):
        return last_run(seen, rows)
    found = last_run(ledger_at(spec, gate).look(), rows, gate.compared_with)
    for column in gate.columns.values():
        if column not in found.columns:
            problem = f"has no published run with a drift gate on {column}: name an output "
            problem += "that has one, or run there with such a gate first"
            raise InvalidSpec.at(f"gates.{at}.baseline", gate.compared_with, problem)
    return found


def names_own_output(spec: BatchInferenceSpec, gate: Gate) -> bool:
    """Whether a gate compares with what the run's own output had before.

    It does where it names none, and in the run whose output is the one that all others are measured
    by: else that could never be made by the spec that they have.
    """
    return gate.compared_with is None or ledger_at(spec, gate).url == ledger_of(spec).url


def ledger_at(spec: BatchInferenceSpec, gate: Gate) -> DeltaLedger:
    """The ledger of the output that a gate names."""
    return ledger_of(spec.with_part("sink", path=gate.compared_with))


def last_run(seen: Snapshot, rows: int = 0, output: str | None = None) -> LastRun:
    """The latest distribution of each column that a published run with enough rows has left.

    Args:
        seen: what is published.
        rows: how many are judged.
        output: where, if not in the run's own output.
    """
    left: dict[str, list[Earlier]] = {}
    where = f" of {output}" if output else ""
    for version, entry in seen.entries.items():
        for column, distribution in entry.get("distributions", {}).items():
            left.setdefault(column, []).append(Earlier(distribution, f"version {version}{where}"))
    return LastRun({column: with_enough(each, rows) for column, each in left.items()})


def with_enough(left: Sequence[Earlier], rows: int) -> Earlier:
    """The last with at least half as many rows; where none has, half as many as the largest."""
    sizes = [rows_of(each.distribution) for each in left]
    enough = min(rows, max(sizes), MANY_ROWS) / 2
    at = max(at for at, size in enumerate(sizes) if size >= enough)
    return replace(left[at], is_last=at == len(left) - 1)


def notes(spec: BatchInferenceSpec, seen: Snapshot) -> list[str]:
    """What to tell of gates that have nothing to compare with."""
    columns = last_run(seen).columns
    return [
        f"gates.{at}: {gate.subject} has nothing to compare with yet"
        + ("" if gate.compared_with else NAME_ONE)
        for at, gate in enumerate(spec.gates)
        if gate.compares and names_own_output(spec, gate)
        if not {*gate.columns.values()} <= columns.keys()
    ]
