"""How a run was called; none of it is part of the spec."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tasks.errors import InvalidSpec
from tasks.spec import BatchInferenceSpec


@dataclass(frozen=True)
class RunOptions:
    """What `run` and its like take beside the spec."""

    restart: bool = False
    """Start anew where another run is unfinished; nothing published is lost."""
    replace_output: bool = False
    """Make this run a complete new version."""
    limit: int | None = None
    """Only the first so many rows; the output must be one of its own."""
    accept: bool = False
    """Publish what the gates hold back, on the word of whoever calls."""
    redrive: bool = False
    """Do again what published runs have set aside, instead of new inputs."""
    profile: bool = False
    """Leave profiles of the stages in the run's folder."""
    scheduled_time: datetime | None = None
    """What the spec's paths are filled in with; of a plan None, where they name no time."""
    shares_output: bool = False
    """Whether other scheduled times publish other inputs to the same output."""
    timed_inputs: tuple[str, ...] = ()
    """Globs for the inputs of all scheduled times; none where the source's paths name no time."""
    is_backfill: bool = False
    """Whether its very time is asked for: with mode replace no later one's rows stay in its way."""
    finished_after: tuple[str, ...] = ()
    """Scheduled times of unfinished runs that wait for this one, which is finished before them."""
    flow_runs: tuple[str, ...] = ()
    """Ids of the flow run that asks for it and of the one that has started that, where there are
    any: started again after its worker died, it is the same."""

    def __post_init__(self) -> None:
        """See that a part of the rows is some.

        Raises:
            InvalidSpec: it is none.
        """
        if self.limit is not None and self.limit < 1:
            raise InvalidSpec.at("limit", self.limit, "must be at least 1")

    @property
    def call(self) -> dict[str, Any]:
        """What of it makes another run."""
        names = ("replace_output", "limit", "redrive")
        return {name: getattr(self, name) for name in names}

    def makes_new_version(self, spec: BatchInferenceSpec) -> bool:
        """Whether all that is published is replaced."""
        return not self.redrive and (self.replace_output or spec.sink.mode == "replace")

    @property
    def scheduled_iso(self) -> str | None:
        """The scheduled time as reports name it."""
        return self.scheduled_time.isoformat() if self.scheduled_time else None
