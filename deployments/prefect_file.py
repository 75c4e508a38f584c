"""What may stand in a prefect.yaml; Prefect drops a misspelt key without a word."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    model_validator,
)

from deployments.placeholders import refuse_unfilled
from tasks.calendar import find_zone
from tasks.errors import InvalidSpec
from tasks.spec_reading.yaml import parse_yaml

if TYPE_CHECKING:
    from prefect.server.schemas.schedules import SCHEDULE_TYPES

PREFECT_FILE = Path(__file__).parent / "prefect.yaml"
Step = dict[str, dict[str, Any]]
Steps = Annotated[
    list[Step],
    BeforeValidator(lambda given: [given] * bool(given) if isinstance(given, dict) else given),
]
"""Steps, or the only one."""
Templated = bool | str
"""A truth value, or what Prefect is to fill in."""


class Strict(BaseModel):
    """A misspelt key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_left_out(cls, given: Any) -> Any:
        """As to Prefect, whose own files have `version: null` and the like."""
        if not isinstance(given, dict):
            return given
        known = cls.model_fields
        return {key: value for key, value in given.items() if value is not None or key not in known}


class WorkPool(Strict):
    """Where the runs of a deployment start."""

    name: str
    work_queue_name: str | None = None
    job_variables: dict[str, Any] = {}


class Schedule(Strict):
    """When a deployment runs by itself."""

    cron: str | None = None
    interval: float | str | None = None
    """In seconds, or as ISO 8601 has it."""
    rrule: str | None = None
    timezone: str | None = None
    """As in Europe/Zurich; for a cron nobody is to guess."""
    day_or: Templated = True
    anchor_date: str | None = None
    active: Templated = True
    slug: str | None = None
    replaces: str | None = None
    parameters: dict[str, Any] = {}

    @model_validator(mode="after")
    def _comes_round(self) -> Self:
        given = [each for each in (self.cron, self.interval, self.rrule) if each is not None]
        if len(given) != 1:
            raise ValueError("give one of cron, interval and rrule")
        if self.cron is not None and self.timezone is None:
            raise ValueError("give the timezone of cron, such as Europe/Zurich or UTC")
        if not self.is_filled_in:
            self.on_clock(self.zone)
        return self

    @property
    def is_filled_in(self) -> bool:
        """Whether only Prefect knows the times: of its variables, or of a rule that is JSON."""
        return "{" in f"{self.cron} {self.interval} {self.anchor_date} {self.rrule} {self.timezone}"

    @property
    def kind(self) -> str:
        """The field that says when."""
        return "cron" if self.cron else "interval" if self.interval else "rrule"

    @property
    def zone(self) -> str:
        """Whose clock it goes by: Prefect takes UTC's where none is given."""
        return self.timezone or "UTC"

    def on_clock(self, zone: str) -> "SCHEDULE_TYPES":
        """The schedule as Prefect's server has it, were its times those of another clock.

        Raises:
            ValueError: Prefect takes none of that kind.
        """
        from prefect.server.schemas.schedules import CronSchedule, IntervalSchedule, RRuleSchedule

        if self.cron is not None:
            return CronSchedule(cron=self.cron, timezone=zone)
        if self.rrule is not None:
            return RRuleSchedule(rrule=self.rrule, timezone=zone)
        given = {"anchor_date": self.anchor_date} if self.anchor_date else {}
        own = IntervalSchedule.model_validate(
            {"interval": self.interval, "timezone": self.zone, **given}
        )
        shown = own.anchor_date.astimezone(find_zone(self.zone)).replace(tzinfo=find_zone(zone))
        return own.model_copy(update={"anchor_date": shown, "timezone": zone})


class ConcurrencyLimit(Strict):
    """How many runs of a deployment there may be at once, and what becomes of others."""

    limit: int = Field(ge=1)
    collision_strategy: Literal["ENQUEUE", "CANCEL_NEW"]
    grace_period_seconds: int | None = None


class Deployment(Strict):
    """A flow with parameters and schedules of its own."""

    name: str
    entrypoint: str
    flow_name: str | None = None
    description: str | None = None
    """What the run form says first; where empty, the flow's own."""
    tags: list[str] = []
    version: str | None = None
    version_type: str | None = None
    build: Steps = []
    push: Steps = []
    pull: Steps = []
    parameters: dict[str, Any] = {}
    enforce_parameter_schema: bool = True
    schedules: list[Schedule] = []
    paused: Templated = False
    concurrency_limit: ConcurrencyLimit | PositiveInt | None = None
    """To Prefect 0 is one too, below which each run waits for ever."""
    work_pool: WorkPool
    triggers: list[dict[str, Any]] = []
    sla: list[dict[str, Any]] = []


class PrefectFile(Strict):
    """The whole file."""

    name: str
    definitions: dict[str, Any] = {}
    """Parts that others refer to by YAML's anchors; Prefect passes over them."""
    prefect_version: str | None = Field(None, alias="prefect-version")
    build: Steps = []
    push: Steps = []
    pull: Steps = []
    deployments: list[Deployment]

    @model_validator(mode="after")
    def _each_has_its_own_name(self) -> Self:
        # Of two, Prefect would keep the one that is deployed last.
        names = Counter((each.entrypoint, each.name) for each in self.deployments)
        if twice := [name for (_, name), count in names.items() if count > 1]:
            raise ValueError(f"several deployments of one flow are named {', '.join(twice)}")
        return self

    @model_validator(mode="after")
    def _steps_give_what_is_asked_for(self) -> Self:
        for each in self.deployments:
            steps = [*(each.build or self.build), *(each.push or self.push)]
            given = [each.parameters, *(schedule.parameters for schedule in each.schedules)]
            try:
                refuse_unfilled(given, steps)
            except ValueError as error:
                raise ValueError(f"parameters of {each.name}: {error}") from None
        return self


def load_prefect_file(path: Path = PREFECT_FILE) -> PrefectFile:
    """Read a prefect.yaml.

    Raises:
        InvalidSpec: a key is unknown at any level, or a value does not fit; all in one message.
            It is not there, is no YAML, or has a key twice.
    """
    try:
        raw = parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSpec(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InvalidSpec(f"{path} {error}") from None
    try:
        return PrefectFile.model_validate(raw)
    except ValidationError as error:
        problems = "\n".join(map(explain, error.errors()))
        raise InvalidSpec(f"{path} does not fit:\n{problems}") from None


def explain(error: Any) -> str:
    """One of pydantic's errors: where it is, unless it is of the whole file, and what is wrong."""
    place = ".".join(map(str, error["loc"]))
    is_rule_of_ours = error["type"] == "value_error"
    problem = str(error["ctx"]["error"]) if is_rule_of_ours else error["msg"]
    return f"{place}: {problem}" if place else problem
