"""The contract of the whole project: one typed spec, one YAML file, one run form."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.kind import PickOne
from tasks.kinds.models import AnyModel
from tasks.kinds.models.model import DType
from tasks.kinds.sinks import AnySink
from tasks.kinds.sources import AnySource
from tasks.kinds.steps import AnyStep

Auto = Literal["auto"]


class SpecModel(BaseModel):
    """Frozen, and strict about names: a misspelt field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Resources(SpecModel):
    """What one replica of the model gets, and how many there may be."""

    num_gpus: float | Auto = Field("auto", description="GPUs of one replica; auto: one if any.")
    num_cpus: float = Field(1, gt=0, description="CPU cores of one replica.")
    memory_gb: float | None = Field(None, gt=0, description="Memory of one replica, in GiB.")
    accelerator_type: str | None = Field(None, description="Only this GPU, e.g. A100.")
    min_replicas: int = Field(1, ge=1, description="Replicas to start with.")
    max_replicas: int = Field(4, ge=1, description="Replicas at most, where the cluster has room.")
    batch_size: int | Auto = Field("auto", description="Rows the model gets at a time.")
    dtype: DType = Field("auto", description="Precision of the weights; auto: by device.")


class StageOptions(SpecModel):
    """Resources of the read, preprocess or write stage."""

    num_cpus: float = Field(1, ge=0, description="CPU cores of one worker.")
    max_workers: int | None = Field(None, ge=1, description="Workers at most.")


class ReadOptions(StageOptions):
    """Resources of the read stage, and how much travels at a time."""

    num_cpus: float = Field(0.5, ge=0, description="CPU cores of one worker.")
    rows_per_batch: int = Field(
        2_048,
        ge=1,
        description="Rows that travel together and are recorded together: what a crash can cost.",
    )


class WriteOptions(StageOptions):
    """Resources of the write stage."""

    # A writer that waits for a core would let predictions pile up, to be lost in a crash.
    num_cpus: float = Field(0, ge=0, description="CPU cores of one worker.")
    max_workers: int | None = Field(4, ge=1, description="Workers at most.")


class Stages(SpecModel):
    """Only when the defaults do not do."""

    read: ReadOptions = ReadOptions()
    preprocess: StageOptions = StageOptions()
    write: WriteOptions = WriteOptions()


class InlineCluster(SpecModel):
    """In the flow's own process, without Ray: for trials, tests and small jobs."""

    model_config = ConfigDict(title="This process")
    kind: Literal["inline"] = "inline"


class LocalCluster(SpecModel):
    """Ray on this machine, started for the run."""

    model_config = ConfigDict(title="This machine")
    kind: Literal["local"] = "local"
    address: str | None = Field(
        None, description="Address of a running Ray to use instead, as in 127.0.0.1:6379."
    )
    object_store_gb: float | None = Field(
        None, gt=0, description="Size of Ray's object store in GiB; Ray's default where empty."
    )


AnyCluster = Annotated[LocalCluster | InlineCluster, Field(discriminator="kind"), PickOne()]


class Environment(SpecModel):
    """What the job's code needs."""

    working_dir: str = Field(".", description="Put on the Python path; holds your own modules.")
    env_vars: dict[str, str] = Field({}, description="Environment variables; never secrets.")


class ErrorBudget(SpecModel):
    """How many rows may be set aside before nothing is published."""

    max_rejected_fraction: float = Field(0.01, ge=0, le=1, description="Share of all rows.")
    minimum_rows: int = Field(
        100, ge=1, description="Rows to see before a run is stopped early, total unknown."
    )


class Retries(SpecModel):
    """How often to try."""

    max_attempts: int = Field(5, ge=1, description="Attempts before the run fails.")


class Timeouts(SpecModel):
    """When to give up."""

    no_progress_seconds: float = Field(600, gt=0, description="Without any progress.")
    run_seconds: float | None = Field(None, gt=0, description="For the whole run.")


class BatchInferenceSpec(SpecModel):
    """What to run: source, steps, model, sink, and what it may use."""

    name: str = Field(
        "batch-inference",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="Label of runs and artifacts; the output's path is the identity.",
    )
    source: AnySource = Field(title="Source", description="Where rows come from.")
    steps: list[AnyStep] = Field(
        [], title="Steps", description="CPU steps before the model's own preprocessing."
    )
    model: AnyModel = Field(title="Model", description="What makes predictions.")
    sink: AnySink = Field(title="Sink", description="Where rows go.")
    resources: Resources = Resources()
    stages: Stages = Stages()
    cluster: AnyCluster = Field(LocalCluster(), title="Cluster", description="Where it runs.")
    environment: Environment = Environment()
    errors: ErrorBudget = ErrorBudget()
    retries: Retries = Retries()
    timeouts: Timeouts = Timeouts()

    @property
    def batch_size(self) -> int | None:
        """Rows in a batch where the user named a number."""
        return None if self.resources.batch_size == "auto" else self.resources.batch_size


def load_spec(path: str | Path, overrides: list[str] | None = None) -> BatchInferenceSpec:
    """Read a YAML file; its relative paths are relative to it.

    Args:
        path: the file.
        overrides: `field.subfield=value` pairs, values in YAML.

    Raises:
        InvalidSpec: the file is missing, is not YAML, or does not fit; one message with all
            that is wrong.
    """
    file = Path(path)
    try:
        raw = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSpec.at("SPEC", str(path), f"cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise InvalidSpec.at("SPEC", str(path), f"is not YAML: {error}") from error
    if not isinstance(raw, dict):
        raise InvalidSpec.at("SPEC", str(path), "must hold fields: source, model, sink, ...")
    for override in overrides or []:
        set_field(raw, override)
    return parse_spec(resolve_paths(raw, file.resolve().parent))


def parse_spec(raw: dict[str, Any]) -> BatchInferenceSpec:
    """Validate; raise InvalidSpec with all that is wrong."""
    try:
        return BatchInferenceSpec.model_validate(raw)
    except ValidationError as error:
        problems = "\n".join(dict.fromkeys(explain(each) for each in error.errors()))
        raise InvalidSpec(problems) from None


def explain(error: Any) -> str:
    """One of pydantic's errors as field, what was given, and what is allowed."""
    parts = [str(part) for part in error["loc"]]
    # pydantic puts the variant's tag into the path: ("source", "parquet", "path").
    tag_at = 2 if parts[:1] == ["steps"] else 1
    if len(parts) > tag_at and parts[0] in ("source", "steps", "model", "sink", "cluster"):
        del parts[tag_at]
    field = ".".join(parts)
    match error["type"]:
        case "missing":
            return f"{field}: is missing; add it"
        case "extra_forbidden":
            return f"{field}: {error['input']!r} is given, but there is no such field"
        case "union_tag_invalid":
            context = error["ctx"]
            return f"{field}.kind: {context['tag']!r} is none of {context['expected_tags']}"
        case "union_tag_not_found":
            return f"{field}.kind: is missing; say which kind"
    return f"{field}: {error['input']!r} is not allowed: {error['msg']}"


def set_field(raw: dict[str, Any], override: str) -> None:
    """Apply one `a.b=value`; list items by number, as in steps.0.column=x."""
    name, equals, value = override.partition("=")
    if not equals or not name:
        raise InvalidSpec.at("--set", override, 'must read "field.subfield=value"')
    *parents, last = name.split(".")
    at: Any = raw
    try:
        for part in parents:
            at = at[int(part)] if isinstance(at, list) else at.setdefault(name_of(part), {})
        at[int(last) if isinstance(at, list) else name_of(last)] = yaml.safe_load(value)
    except (ValueError, IndexError, TypeError, AttributeError, yaml.YAMLError) as error:
        raise InvalidSpec.at("--set", override, f"does not fit the spec: {error}") from error


def name_of(part: str) -> str:
    """A field's name; a number would mean an item of a list that is not there."""
    if part.isdigit():
        raise ValueError(f"there is no item {part}")
    return part


def resolve_paths(raw: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Make the file's relative local paths absolute; names of hub models stay as they are."""
    raw = dict(raw)
    for section in ("source", "sink"):
        if isinstance(raw.get(section), dict) and "path" in raw[section]:
            raw[section] = {**raw[section], "path": absolute(raw[section]["path"], folder)}
    model = raw.get("model")
    if isinstance(model, dict) and isinstance(model.get("name_or_path"), str):
        name = os.path.expanduser(model["name_or_path"])
        if name.startswith(".") or (folder / name).exists():
            raw["model"] = {**model, "name_or_path": absolute(name, folder)}
    environment = raw.get("environment") or {}
    if isinstance(environment, dict):
        working_dir = absolute(environment.get("working_dir", "."), folder)
        raw["environment"] = {**environment, "working_dir": working_dir}
    return raw


def absolute(path: Any, folder: Path) -> Any:
    """A local path, or a list of them, as seen from a folder; URLs stay as they are."""
    if isinstance(path, list):
        return [absolute(each, folder) for each in path]
    if not isinstance(path, str) or "://" in path or not path:
        return path
    return os.path.join(folder, os.path.expanduser(path))
