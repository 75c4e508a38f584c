"""What may stand in a prefect.yaml here; Prefect drops a misspelt key without a word."""

from collections import Counter
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tasks.errors import InvalidSpec
from tasks.spec_yaml import parse_yaml

PREFECT_FILE = Path(__file__).parent / "prefect.yaml"
Step = dict[str, dict[str, Any]]


class Strict(BaseModel):
    """A misspelt key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class WorkPool(Strict):
    """Where the runs of a deployment start."""

    name: str
    work_queue_name: str | None = None
    job_variables: dict[str, Any] = {}


class Schedule(Strict):
    """When a deployment runs by itself."""

    cron: str
    timezone: str
    """As in Europe/Zurich; nobody is to guess."""
    active: bool = True
    slug: str | None = None
    parameters: dict[str, Any] = {}

    @model_validator(mode="after")
    def _comes_round(self) -> Self:
        from prefect.client.schemas.schedules import CronSchedule

        CronSchedule(cron=self.cron, timezone=self.timezone)
        return self


class ConcurrencyLimit(Strict):
    """How many runs of a deployment there may be at once, and what becomes of others."""

    limit: int = Field(ge=1)
    collision_strategy: Literal["ENQUEUE", "CANCEL_NEW"]
    grace_period_seconds: int | None = None


class Deployment(Strict):
    """A flow with parameters and schedules of its own."""

    name: str
    entrypoint: str
    description: str
    tags: list[str] = []
    version: str | None = None
    build: list[Step] = []
    parameters: dict[str, Any] = {}
    schedules: list[Schedule] = []
    paused: bool = False
    concurrency_limit: ConcurrencyLimit | None = None
    work_pool: WorkPool
    triggers: list[dict[str, Any]] = []


class PrefectFile(Strict):
    """The whole file."""

    name: str
    definitions: dict[str, Any] = {}
    """Parts that others refer to by YAML's anchors; Prefect passes over them."""
    pull: list[Step] = []
    deployments: list[Deployment]

    @model_validator(mode="after")
    def _each_has_its_own_name(self) -> Self:
        # Of two, Prefect would keep the one that is deployed last.
        names = Counter((each.entrypoint, each.name) for each in self.deployments)
        if twice := [name for (_, name), count in names.items() if count > 1]:
            raise ValueError(f"several deployments of one flow are called {', '.join(twice)}")
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
        places = [(".".join(map(str, each["loc"])), each["msg"]) for each in error.errors()]
        problems = "\n".join(f"{place}: {message}" for place, message in places)
        raise InvalidSpec(f"{path} does not fit:\n{problems}") from None
