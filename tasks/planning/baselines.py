"""What a run's rows are compared with: what this output's last run left, or another output's."""

from tasks.errors import InvalidSpec
from tasks.kinds.gates.gate import Gate, LastRun
from tasks.ledgers import ledger_of
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.ledger import Snapshot
from tasks.spec import BatchInferenceSpec

NAME_ONE = (
    ". Where each scheduled time has an output of its own, that stays so: name one of them in "
    "baseline"
)


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
    if names_own_output(spec, gate):
        return last_run(seen)
    found = last_run(ledger_at(spec, gate).look(), gate.compared_with)
    for column in gate.columns.values():
        if column not in found.distributions:
            problem = f"has published no run with a drift gate of {column}: name an output "
            problem += "that has, or run one with such a gate there first"
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


def notes(spec: BatchInferenceSpec, seen: Snapshot) -> list[str]:
    """What to tell of gates that have nothing to compare with."""
    distributions = last_run(seen).distributions
    return [
        f"gates.{at}: {gate.subject} has nothing to compare with yet"
        + ("" if gate.compared_with else NAME_ONE)
        for at, gate in enumerate(spec.gates)
        if gate.compares and names_own_output(spec, gate)
        if not {*gate.columns.values()} <= distributions.keys()
    ]
