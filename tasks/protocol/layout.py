"""Where everything lies: the output, and the state beside it (never inside it)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.protocol.table import Table


@dataclass(frozen=True)
class OutputFolder:
    """The published rows at `path`, everything else below `path.state`."""

    path: str
    table: "Table | None" = None
    """The table that the published files are the data files of, where there is one."""

    @property
    def state(self) -> str:
        """Beside the output: DuckDB and Polars would read files inside it as data."""
        return f"{self.path}.state"

    @property
    def success(self) -> str:
        """Empty marker; Polars fails on one with content."""
        return f"{self.path}/_SUCCESS"

    @property
    def applied(self) -> str:
        """Holds the ledger version last applied, and the id of that ledger."""
        return f"{self.state}/applied"

    @property
    def ledger(self) -> str:
        """The Delta table that says what is published."""
        return f"{self.state}/ledger"

    @property
    def quarantine(self) -> str:
        """Rows set aside by published runs."""
        return f"{self.state}/quarantine"

    @property
    def manifests(self) -> str:
        """One JSON file a published run."""
        return f"{self.state}/manifests"

    def manifest(self, run_id: str) -> str:
        """What happened in one run, for machines."""
        return f"{self.manifests}/{run_id}.json"

    @property
    def batch_limits(self) -> str:
        """How large a batch memory had room for, by model and device; a hint, nothing more."""
        return f"{self.state}/batch_limits"

    @property
    def equal_configs(self) -> str:
        """Which configs have been seen to give the same rows, a JSON file each time."""
        return f"{self.state}/equal_configs"

    @property
    def previews(self) -> str:
        """Outputs of previews and verifications, while these last."""
        return f"{self.state}/previews"

    @property
    def runs(self) -> str:
        """One folder a run."""
        return f"{self.state}/runs"

    def run(self, run_id: str) -> "RunFolder":
        """The folder of one run."""
        return RunFolder(f"{self.runs}/{run_id}")


@dataclass(frozen=True)
class RunFolder:
    """All that one run writes before it publishes."""

    path: str

    @property
    def run_id(self) -> str:
        """Last part of the path."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def abandoned(self) -> str:
        """Left by whoever gave the run up: it is not gone on with, nor published."""
        return f"{self.path}/abandoned"

    @property
    def header(self) -> str:
        """What the run is: its key, its spec, when it was made."""
        return f"{self.path}/run.json"

    @property
    def page(self) -> str:
        """What is to be read of the run."""
        return f"{self.path}/report.md"

    @property
    def plans(self) -> str:
        """Plans by generation and digest."""
        return f"{self.path}/plans"

    @property
    def records(self) -> str:
        """One JSON file a write."""
        return f"{self.path}/records"

    @property
    def staging(self) -> str:
        """Data files that records name; those without a record do not exist."""
        return f"{self.path}/staging"

    @property
    def schemas(self) -> str:
        """The output schema, pinned by whoever wrote first."""
        return f"{self.path}/schemas"

    @property
    def gates(self) -> str:
        """What the gates last said of the run's rows."""
        return f"{self.path}/gates.json"

    @property
    def lease(self) -> str:
        """Who works on the run; a courtesy, nothing's safety rests on it."""
        return f"{self.path}/lease.json"

    @property
    def prepared(self) -> str:
        """Says where the first job's run lies, of a run that was cut into two jobs."""
        return f"{self.path}/prepared.json"

    @property
    def runtimes(self) -> str:
        """What the model ran on, a JSON file for each answer of its replicas."""
        return f"{self.path}/runtimes"

    @property
    def profile(self) -> str:
        """Profiles of the stages, where they were asked for."""
        return f"{self.path}/profile"

    def attempt(self, number: int) -> str:
        """Folder of one attempt."""
        return f"{self.path}/attempts/{number}"
