"""What a job is told: one JSON file in the attempt's folder."""

import json
import logging
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from tasks.kinds.clusters import RemoteCluster
from tasks.outputs import AtOutput
from tasks.protocol.asked_at_once import asked_at_once
from tasks.protocol.layout import RunFolder
from tasks.protocol.storage import FsspecStorage
from tasks.ray_job.counts import STAGES
from tasks.spec import BatchInferenceSpec

logger = logging.getLogger(__name__)

STORAGE_OPTIONS = "BATCH_INFERENCE_STORAGE_OPTIONS"
"""Environment variable that holds the options of the output's filesystem, as JSON."""
PIP_SECONDS = 900.0
"""How long a node may take to set up `environment.pip`."""
LOAD_SECONDS = 1800.0
"""How long a replica may load its model, where `timeouts.no_progress_seconds` is shorter."""


@dataclass(frozen=True)
class Job(AtOutput):
    """The job of one attempt of a run; travels to every worker."""

    spec: BatchInferenceSpec
    run_id: str
    attempt: int
    plan: str
    """Digest of the plan that the attempt works on."""
    pins: dict[str, Any]
    """Of the plan: what must not change between attempts."""
    num_shards: int
    """Shards to read, or batches that another job has kept: rows of the attempt's todo.parquet."""
    todo_bytes: int
    todo_rows: int | None
    """Rows left to do; None while a shard's length is unknown."""
    todo_name: str
    """Of two who make the same attempt at once, each has a todo of its own."""
    max_gpus: float | None = None
    """GPUs that all jobs of the cluster may hold together; None: as many as there are."""
    only_check: bool = False
    """Whether to look at the cluster's nodes and end there."""
    stages: tuple[str, ...] = STAGES
    """What it does of a run: all, or what is before or after the cut."""
    profile: bool = False
    """Whether its stages leave profiles in the run's folder."""
    avoid: tuple[str, ...] = ()
    """Ray's ids of nodes that are left out: they could not do their part before."""
    timed_inputs: tuple[str, ...] = ()
    """Globs for the inputs of all scheduled times, which are no part of the user's code."""
    planned_on: str = ""
    """Day on which the run was planned, as in `2026-11-30`; empty where the model does not ask."""
    run_name: str = ""
    """What the run is called where others' runs are too; empty in what earlier releases stored."""

    @property
    def id(self) -> str:
        """Derived from run and attempt: whoever wants the same job asks for the same id."""
        return f"{self.name_of_run}-{self.attempt}"

    @property
    def name_of_run(self) -> str:
        """What names what is made for the run alone, on clusters and machines."""
        return self.run_name or self.run_id

    @cached_property
    def run(self) -> RunFolder:
        """The run's folder."""
        return self.output.run(self.run_id)

    @property
    def folder(self) -> str:
        """The attempt's folder."""
        return self.run.attempt(self.attempt)

    @property
    def todo_file(self) -> str:
        """Shards left to read, as Parquet."""
        return f"{self.folder}/todo-{self.todo_name}.parquet"

    @property
    def result_file(self) -> str:
        """How it ended; written last."""
        return f"{self.folder}/result.json"

    @property
    def progress_file(self) -> str:
        """How far it is; written every now and then."""
        return f"{self.folder}/progress.json"

    @property
    def working_dir(self) -> str:
        """Where the user's modules lie for the job; Ray takes them along to a cluster."""
        remote = isinstance(self.spec.cluster, RemoteCluster)
        return "." if remote else self.spec.environment.working_dir

    @property
    def followed_file(self) -> str:
        """Written every now and then by whoever follows the job."""
        return f"{self.folder}/followed.json"

    @property
    def stopped_file(self) -> str:
        """Left by whoever stops the job without being the one who follows it."""
        return f"{self.folder}/stopped"

    @property
    def arguments(self) -> list[str]:
        """What the driver is called with: the job file's URL."""
        return [self.storage.filesystem.unstrip_protocol(f"{self.folder}/job.json")]

    @property
    def driver_env(self) -> dict[str, str]:
        """How the driver reaches the job file; no argument, since all see those of a process."""
        options = json.dumps(self.spec.sink.storage_options)
        # Ray fills in $NAME and ${NAME} wherever they stand, as in a password.
        return {STORAGE_OPTIONS: options.replace("$", r"\u0024")}

    def save(self) -> None:
        """Store in the attempt's folder."""
        fields = {**self.__dict__, "spec": self.spec.as_json()}
        fields.pop("run", None)
        self.storage.write(f"{self.folder}/job.json", json.dumps(fields).encode())


def with_max_replicas(job: Job, most: int) -> Job:
    """The job with so many replicas at most."""
    return replace(job, spec=job.spec.with_part("resources", max_replicas=most))


def load_job(data: bytes) -> Job:
    """Read what `save` stored."""
    fields = json.loads(data)
    spec = BatchInferenceSpec.model_validate(fields.pop("spec"))
    for name in {"stages", "avoid", "timed_inputs"} & fields.keys():
        fields[name] = tuple(fields[name])
    return Job(spec=spec, **fields)


def stored_job(storage: FsspecStorage, path: str) -> Job | None:
    """The job of a job file; None, and a warning, where this version cannot read it.

    That is so after an upgrade, or back from one, or where it is damaged. A job that nobody follows
    any more ends by itself, and what it has recorded counts, once.
    """
    try:
        return load_job(storage.read(path))
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else error
        logger.warning("%s is from another version, or damaged; its job is skipped: %s", path, said)
        return None


def without_result(storage: FsspecStorage, paths: list[str]) -> list[Job]:
    """Jobs of a listing beside whose files no result lies; what has ended is not read."""
    ended = {path.removesuffix("/result.json") for path in paths if path.endswith("/result.json")}
    folders = [path.removesuffix("/job.json") for path in paths if path.endswith("/job.json")]
    left = [f"{each}/job.json" for each in folders if each not in ended]
    return [job for job in asked_at_once(partial(stored_job, storage), left) if job]
