"""Everything that can go wrong, and whether trying again can help.

BatchInferenceError
│
├── Final: trying again gives the same answer
│   ├── InvalidSpec            the spec or the call is wrong             exit 2
│   │   ├── InputNotFound      nothing lies at the source's path
│   │   └── UnfinishedRun      another spec's run is unfinished here
│   ├── SchemaMismatch         rows do not fit the run's output schema
│   ├── UserCodeBroke          a step or model broke a rule of the house
│   ├── HeldBack               nothing was published, on purpose         exit 3
│   │   ├── ErrorBudgetExceeded
│   │   ├── GateFailed         what was predicted is kept; --accept publishes it
│   │   ├── KeysRepeated       two rows of a run have the same key
│   │   └── PredictionsDiffer  published rows come out otherwise
│   ├── RunStopped             somebody stopped the job
│   ├── RunTimedOut            the run took longer than it may
│   └── OutputHeld             another run holds the output              exit 4
│
└── Retryable: another attempt can help
·   ├── StageFailed            a stage raised; names stage, source, row
·   │   └── OutOfMemory        not even one row at a time fits
·   ├── InputChanged           an input was rewritten while it was read
·   ├── StaleLedger            somebody published since we looked
·   ├── StaleTable             somebody wrote to the output's table since we looked
·   ├── Orphaned               no run follows the job any more
·   ├── Unreachable            a storage or a cluster does not answer
·   ├── JobLost                the job's process is gone without a result
·   ├── RowsMissing            all jobs ended well, and rows have no record that counts
·   └── NoProgress             the job stalled
"""

import reprlib
from collections.abc import Callable
from typing import ClassVar, Self

from tasks.counted import counted

SHORT = reprlib.Repr()
SHORT.maxlevel, SHORT.maxdict, SHORT.maxlist = 3, 20, 20
SHORT.maxstring, SHORT.maxlong, SHORT.maxother = 500, 100, 500


def shown(value: object) -> str:
    """What was given, in a few words of it."""
    try:
        return SHORT.repr(value)
    except ValueError:  # Python writes out no number of thousands of digits
        return "a number with thousands of digits"


class BatchInferenceError(Exception):
    """Root of the tree; `can_retry` and `exit_code` are facts of the class."""

    can_retry: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1
    stage: str | None = None
    source: str | None = None
    row: int | None = None
    attempts: int | None = None
    """Attempts after which the run was given up."""
    hint: str = ""
    """What else may be behind it, as a sentence to follow its own."""
    node: str | None = None
    """Ray's id of the node on which a stage could not be set up, as by loading the model."""
    report: str | None = None
    """Where the report lies of the run that it has ended, as a spec would name the place."""

    def locate(self, stage: str, source: str | None = None, row: int | None = None) -> Self:
        """Say where it happened, unless that is known better already."""
        if self.stage is None:
            self.stage, self.source, self.row = stage, source, row
        return self

    def retold(self, words: str) -> Self:
        """The same in words that say more; its report is still where it was.

        Args:
            words: what was said, and the rest.
        """
        error = type(self)(words)
        error.report = self.report
        return error

    @property
    def message(self) -> str:
        """What went wrong, without where."""
        return str(self.args[0]) if self.args else type(self).__name__

    def __str__(self) -> str:
        # Data that is quoted may hold a NUL, which Postgres has not, or half of a character, which
        # no request can hold: Prefect could not be told how the run ended.
        hint = f". {self.hint}" if self.hint else ""
        said = f"{self.where}{self.message}{hint}{self.last_word}".replace("\0", "\\x00")
        return said.encode(errors="backslashreplace").decode()

    @property
    def where(self) -> str:
        """The stage, file and row, as the beginning of a sentence; empty where unknown."""
        if self.stage is None:
            return ""
        where = f" at {self.source}" if self.source else ""
        row = f", row {self.row}" if self.row is not None else ""
        return f"stage {self.stage} failed{where}{row}: "

    @property
    def last_word(self) -> str:
        """What to say in the end of a run that has tried for long."""
        if self.attempts is None:
            return ""
        tried = counted(self.attempts, "attempt")
        return f" (given up after {tried}; run it again to continue where it stopped)"


class Final(BatchInferenceError):
    """Trying again gives the same answer."""


class Retryable(BatchInferenceError):
    """Another attempt can help."""

    can_retry = True


class InvalidSpec(Final):
    """The spec or the call is wrong; the message names field, value and way out."""

    exit_code = 2

    @classmethod
    def at(cls, field: str, given: object, problem: str) -> "InvalidSpec":
        """Say what is wrong with one field, e.g. `at("source.path", "/x", "does not exist")`."""
        return cls(f"{field}: {shown(given)} {problem}")


class InputNotFound(InvalidSpec):
    """Nothing lies at the source's path."""


class UnfinishedRun(InvalidSpec):
    """The output has an unfinished run of another spec."""

    scheduled_time: str | None = None
    """Of that run, in ISO's form, where it is the same spec's of another scheduled time."""


class SchemaMismatch(Final):
    """Rows do not fit the run's output schema."""


class UserCodeBroke(Final):
    """A step or model broke a rule of the house, e.g. returned fewer rows than it got."""


class HeldBack(Final):
    """Nothing was published, on purpose."""

    exit_code = 3


class ErrorBudgetExceeded(HeldBack):
    """More rows were set aside than `errors` allows, in share and number."""


class GateFailed(HeldBack):
    """A gate of the spec does not let the run's rows pass."""


class PredictionsDiffer(HeldBack):
    """Published rows, predicted again, come out otherwise."""


class KeysRepeated(HeldBack):
    """Two rows of a run have the same key: which of them is to be published, nobody knows."""


class RunStopped(Final):
    """Somebody stopped the job on purpose; what is recorded is not done again."""


class RunTimedOut(Final):
    """The run took longer than it may; what is recorded is not done again."""


class OutputHeld(Final):
    """Another run holds the output."""

    exit_code = 4
    flow_runs: tuple[str, ...] = ()
    """Of whoever is at work there, where that is why."""
    is_over: Callable[[], bool] | None = None
    """Whether nobody is any more, to be asked again and again."""


class StageFailed(Retryable):
    """A stage raised an error that is not the fault of a row's data."""


class OutOfMemory(StageFailed):
    """Memory has run out, on the device or the host, however small the batch."""


class InputChanged(Retryable):
    """An input was rewritten between the plan and the end of its reading."""


class StaleLedger(Retryable):
    """Somebody published to this output since the ledger was looked at."""


class StaleTable(Retryable):
    """Somebody has committed to the output's table since it was looked at."""


class Unreachable(Retryable):
    """A storage or a cluster does not answer, or does not let us in."""


class Orphaned(Retryable):
    """No run has followed the job for `timeouts.orphan_seconds`."""


class JobLost(Retryable):
    """The job's process is gone and left no result, or was told to end by others than the run."""


class RowsMissing(Retryable):
    """Every job ended well, and of some rows there is no record that counts."""


class NoProgress(Retryable):
    """The job stalled: for `timeouts.no_progress_seconds`, or with no room left to go on in."""
