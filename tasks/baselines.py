"""What a run's rows are compared with: what this output's last run left, or another output's."""

from collections.abc import Sequence

from tasks.errors import InvalidSpec
from tasks.kinds.gates.gate import Gate, LastRun
from tasks.ledgers import ledger_of
from tasks.protocol.ledger import Snapshot
from tasks.spec import BatchInferenceSpec


def last_runs(spec: BatchInferenceSpec, seen: Snapshot) -> list[LastRun]:
    """What each gate compares with.

    Args:
        spec: has the gates.
        seen: what is published.

    Raises:
        InvalidSpec: the output that a gate names has published nothing to compare with.
    """
    return [last_run_for(spec, at, gate, seen) for at, gate in enumerate(spec.gates)]


def last_run_for(spec: BatchInferenceSpec, at: int, gate: Gate, seen: Snapshot) -> LastRun:
    """What one gate compares with."""
    if gate.compared_with is None:
        return last_run(seen)
    there = spec.with_part("sink", path=gate.compared_with)
    found = last_run(ledger_of(there).look(), gate.compared_with)
    for column in gate.columns.values():
        if column not in found.distributions:
            problem = f"has published no run with a drift gate of {column}: name an output "
            problem += "that has, or run one with such a gate there first"
            raise InvalidSpec.at(f"gates.{at}.baseline", gate.compared_with, problem)
    return found


def last_run(seen: Snapshot, output: str | None = None) -> LastRun:
    """The latest distribution of each column that some published run has left.

    Args:
        seen: what is published.
        output: where, if not in the run's own output.
    """
    distributions, versions = {}, {}
    where = f" of {output}" if output else ""
    for version, entry in seen.entries.items():
        for column, distribution in entry.get("distributions", {}).items():
            distributions[column], versions[column] = distribution, f"version {version}{where}"
    return LastRun(distributions, versions)


def notes(gates: Sequence[Gate], seen: Snapshot) -> list[str]:
    """What to tell of gates that have nothing to compare with."""
    return [
        f"gates.{at}: {gate.subject} has nothing to compare with yet. Where each scheduled time "
        "has an output of its own, that stays so: name one of them in baseline"
        for at, gate in enumerate(gates)
        if gate.compares and gate.compared_with is None
        if not {*gate.columns.values()} <= last_run(seen).distributions.keys()
    ]
