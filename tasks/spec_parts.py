"""Parts of a spec that are of one kind only: code, error budget, cost, retries, timeouts, times."""

from pydantic import Field, field_validator

from tasks.calendar import find_zone, parse_step
from tasks.kinds.form import FormModel
from tasks.requirements import refuse_entry


class Environment(FormModel):
    """What the job's code needs."""

    working_dir: str = Field(".", description="Folder of your own modules; put on the Python path.")
    pip: list[str] = Field(
        [],
        description="Requirements that Ray installs on the cluster before the job starts; local "
        "and inline install nothing, there they must be installed already.",
    )
    env_vars: dict[str, str] = Field(
        {},
        description="Environment variables; never secrets. inline sets none: they must have these "
        "values already. On ray_jobs and kuberay, Ray expands $NAME and ${NAME} within values.",
    )

    @field_validator("working_dir")
    @classmethod
    def _is_a_path(cls, folder: str) -> str:
        if "\0" in folder:
            raise ValueError("a path cannot contain a NUL character")
        return folder or "."  # of a box of the form that somebody has cleared

    @field_validator("pip")
    @classmethod
    def _can_be_installed(cls, given: list[str]) -> list[str]:
        for entry in given:
            refuse_entry(entry)
        return given

    @field_validator("env_vars")
    @classmethod
    def _can_be_set(cls, given: dict[str, str]) -> dict[str, str]:
        for name, value in given.items():
            if not name or "=" in name or "\0" in name + value:
                problem = (
                    "a name cannot be empty or contain =, and neither name nor value can contain "
                    "NUL"
                )
                raise ValueError(f"{name!r} cannot be set: {problem}")
        return given


class ErrorBudget(FormModel):
    """How many rows may be set aside before nothing is published."""

    max_rejected_fraction: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Share of a run's rows that may be set aside; also of its files that cannot be "
        "read to the end, since nobody knows how many rows they lack.",
    )
    rejected_rows_always_allowed: int = Field(
        0,
        ge=0,
        description="This many rows of a run may be set aside whatever their share, even if they "
        "are all: for small runs, where one row is a large share. It does not cover files that "
        "cannot be read to the end.",
    )
    minimum_rows: int = Field(
        100,
        ge=1,
        description="Rows to see before a run may be stopped early, while their total is unknown.",
    )

    def allows(self, rejected: int, rows: int) -> bool:
        """Whether so many of a run's rows may be set aside.

        Args:
            rejected: those that are.
            rows: all of them.
        """
        return rejected <= self.rejected_rows_always_allowed or self.allows_share(rejected, rows)

    def allows_share(self, rejected: int, whole: int) -> bool:
        """Whether such a share may be set aside, of files or of some of a run's rows.

        Args:
            rejected: how many are.
            whole: of how many.
        """
        # Divided, and not multiplied: 0.29 * 100 is less than 29.
        return not rejected or (whole > 0 and rejected / whole <= self.max_rejected_fraction)

    @property
    def in_words(self) -> str:
        """Both numbers, as an error names them."""
        share = f"errors.max_rejected_fraction {self.max_rejected_fraction}"
        return (
            f"{share} and errors.rejected_rows_always_allowed {self.rejected_rows_always_allowed}"
        )


class Cost(FormModel):
    """What the machines cost, in any currency; the report then says what a run cost.

    Counted is what the stages' workers hold while rows flow, including the time to load the model,
    over all attempts, sampled twice a second. Idle nodes and the cluster's start are not counted.
    """

    per_gpu_hour: float | None = Field(
        None,
        ge=0,
        description="Price of a GPU for an hour. GPUs count while a replica holds them, loading "
        "included; idle nodes and the cluster's start do not.",
    )
    per_cpu_hour: float | None = Field(
        None,
        ge=0,
        description="Price of a CPU core for an hour; cores count while a stage holds them.",
    )


class Retries(FormModel):
    """How often to try."""

    max_attempts: int = Field(
        5,
        ge=1,
        description="Attempts in a row that may fail before the run does; an attempt that recorded "
        "something new counts as the first again. If the run is split in two "
        "(stages.preprocess.materialize), this holds for each of its jobs.",
    )


class Timeouts(FormModel):
    """When to give up."""

    no_progress_seconds: float = Field(
        600,
        gt=0,
        description="How long a job may make no progress; at least half an hour while its replicas "
        "load the model.",
    )
    run_seconds: float | None = Field(
        None, gt=0, description="How long a run may take. Empty: no limit."
    )
    unreachable_seconds: float = Field(
        600,
        ge=0,
        description="How long the cluster, or the output's storage, may fail to answer during a "
        "run.",
    )
    orphan_seconds: float = Field(
        1800, gt=0, description="A job that no run follows stops itself after this long."
    )


class Scheduled(FormModel):
    """Which time {scheduled:...} in paths stands for."""

    timezone: str = Field(
        "UTC",
        description="Timezone of the times in paths: an IANA name such as Europe/Berlin. Empty: "
        "UTC.",
    )
    offset: str | None = Field(
        None,
        description="Added to the scheduled time first: with -1d, a run at 02:00 wants yesterday. "
        "Weeks (w) and days (d) follow the calendar, hours (h) and minutes (m) the clock.",
    )

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, name: str) -> str:
        name = name or "UTC"  # of a box of the form that somebody has cleared
        find_zone(name)
        return name

    @field_validator("offset")
    @classmethod
    def _one_step(cls, offset: str | None) -> str | None:
        if offset is not None:
            parse_step(offset)
        return offset
