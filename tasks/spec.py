"""The contract of the whole project: one typed spec, one YAML file, one run form."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from tasks.calendar import find_zone, parse_step
from tasks.kinds.form import FormModel, PickOne
from tasks.kinds.gates import AnyGate
from tasks.kinds.models import AnyModel
from tasks.kinds.models.model import DType
from tasks.kinds.sinks import AnySink
from tasks.kinds.sources import AnySource
from tasks.kinds.steps import AnyStep

Auto = Literal["auto"]
Interpreter = Annotated[str, Field(description="The interpreter on the cluster, by name or path.")]


class Resources(FormModel):
    """What one replica of the model gets, and how many there may be."""

    num_gpus: float | Auto = Field(
        "auto",
        description="GPUs of one replica; auto: one where a node has any when the job starts, or "
        "KubeRay's manifest declares any. Of any other cluster that adds its GPU nodes only when "
        "they are asked for, ask for a number.",
    )
    num_cpus: float = Field(1, gt=0, description="CPU cores of one replica.")
    memory_gb: float | None = Field(None, gt=0, description="Memory of one replica, in GiB.")
    accelerator_type: str | None = Field(None, description="Only this GPU, e.g. A100.")
    min_replicas: int = Field(1, ge=1, description="Replicas to start with.")
    max_replicas: int = Field(4, ge=1, description="Replicas at most, where the cluster has room.")
    batch_size: Annotated[int, Field(ge=1)] | Auto = Field(
        "auto", description="Rows the model gets at a time."
    )
    dtype: DType = Field(
        "auto",
        description="Precision of the weights. auto: float32 on CPUs; on GPUs bfloat16, or float16 "
        "where there is none, for Hugging Face's and torchvision's models. Beside float32's, "
        "embeddings differ by up to 1 % of their largest value with bfloat16, and 0.1 % with "
        "float16. float32 is exact everywhere.",
    )


class StageOptions(FormModel):
    """Resources of a stage."""

    num_cpus: float = Field(1, ge=0, description="CPU cores of one worker.")
    max_workers: int | None = Field(None, ge=1, description="Workers at most.")


class ReadOptions(StageOptions):
    """Resources of the read stage, and how much travels at a time."""

    num_cpus: float = Field(0.5, ge=0, description="CPU cores of one worker.")
    rows_per_batch: Annotated[int, Field(ge=1)] | Auto = Field(
        "auto",
        description="Rows that travel together and are recorded together: what a crash can cost. "
        "auto: 2048, and 131072 for trees and the like, to which so many are a moment's work; "
        "as many as resources.batch_size where that is more. At most 32 MiB travel together.",
    )


class PreprocessOptions(StageOptions):
    """Resources of the preprocess stage, and whether its rows are kept."""

    materialize: bool = Field(
        False,
        description="Cut the run into two jobs: the first reads, applies the steps and keeps the "
        "rows; the second does the rest, and each is retried on its own. A next run with the same "
        "source and steps takes kept rows as they are, whatever its model. They take the space of "
        "the rows after the steps, compressed, and stay until somebody deletes them. --limit, "
        "preview and redrive run as one job.",
    )
    path: str | None = Field(
        None,
        min_length=1,
        pattern=r"^[^{}]+$",
        description="Folder of the kept rows, reached with the sink's storage_options; the same "
        "in several specs, they share them. Where empty, <sink.path>.state/prepared.",
    )

    @field_validator("path")
    @classmethod
    def _no_trailing_slash(cls, path: str | None) -> str | None:
        return path and (path.rstrip("/") or path)


class WriteOptions(StageOptions):
    """Resources of the write stage."""

    # A writer that waits for a core would let predictions pile up, to be lost in a crash.
    num_cpus: float = Field(0, ge=0, description="CPU cores of one worker.")
    max_workers: int | None = Field(4, ge=1, description="Workers at most.")


class Stages(FormModel):
    """Only when the defaults do not do."""

    read: ReadOptions = ReadOptions()
    preprocess: PreprocessOptions = PreprocessOptions()
    write: WriteOptions = WriteOptions()


class InlineCluster(FormModel):
    """In the flow's own process, without Ray: for trials, tests and small jobs."""

    model_config = ConfigDict(title="This process")
    kind: Literal["inline"] = "inline"


class LocalCluster(FormModel):
    """Ray on this machine, started for the run."""

    model_config = ConfigDict(title="This machine")
    kind: Literal["local"] = "local"
    address: str | None = Field(
        None,
        description="Address of a running Ray to use instead, as in 127.0.0.1:6379. Where empty, "
        "the one of your own on this machine that RAY_ADDRESS names, if it names one.",
    )
    object_store_gb: float | None = Field(
        None, gt=0, description="Size of Ray's object store in GiB; Ray's default where empty."
    )


class RayJobsCluster(FormModel):
    """A Ray cluster that runs already; jobs are submitted through its Jobs API."""

    model_config = ConfigDict(title="A Ray cluster")
    kind: Literal["ray_jobs"] = "ray_jobs"
    address: str | None = Field(
        None,
        pattern=r"^https?://[^/\s]+",
        description="The dashboard's URL, as in https://ray.example.com:8265.",
    )
    block: str | None = Field(
        None,
        description="Name of a Prefect block of type RayCluster instead: address, token, headers "
        "and TLS. Secrets belong there, never into a spec.",
    )
    python: Interpreter = "python"
    wait_for_nodes_seconds: float = Field(
        0,
        ge=0,
        description="How long to wait for nodes that the autoscaler is to add; 0: what no node "
        "can hold is refused at once.",
    )

    max_gpus: float | None = Field(
        None,
        gt=0,
        description="GPUs that jobs may hold on this cluster together; whoever comes later waits "
        "for its turn. Where empty the block's; give all specs of a cluster the same.",
    )

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        if (self.address is None) == (self.block is None):
            raise ValueError("name either address or block")
        return self


class KubeRayCluster(FormModel):
    """A Ray cluster of its own for each run, made by KubeRay and deleted when the run ends."""

    model_config = ConfigDict(title="Kubernetes (KubeRay)")
    kind: Literal["kuberay"] = "kuberay"
    manifest: str | None = Field(
        None,
        description="YAML file of a RayCluster, the pattern of the run's; where empty the "
        "project's own, deployments/cluster/raycluster.yaml.",
    )
    namespace: str = Field("default", min_length=1, description="Namespace to make it in.")
    image: str | None = Field(
        None, description="Image of all of its nodes, instead of the manifest's."
    )
    context: str | None = Field(
        None,
        description="Context of the kubeconfig; where empty the current one, and inside "
        "Kubernetes the pod's service account.",
    )
    address: str = Field(
        "http://{name}-head-svc.{namespace}.svc:8265",
        pattern=r"^https?://[^/\s]+",
        description="URL of the head's dashboard as it is reached from here; {name} and "
        "{namespace} stand for the cluster's.",
    )
    python: Interpreter = "python"
    ready_seconds: float = Field(
        900, gt=0, description="How long the head may take: a node, its image, its start."
    )
    wait_for_nodes_seconds: float = Field(
        1800, ge=0, description="How long to wait for nodes that the autoscaler is to add."
    )
    ttl_seconds: float = Field(
        3600,
        ge=60,
        description="A cluster that no run has followed for so long is deleted by the reaper in "
        "deployments/cluster; must be more than timeouts.orphan_seconds.",
    )

    @field_validator("address")
    @classmethod
    def _known_placeholders(cls, address: str) -> str:
        try:
            address.format(name="name", namespace="namespace")
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError("only {name} and {namespace} are filled in") from error
        return address


RemoteCluster = RayJobsCluster | KubeRayCluster
"""Clusters elsewhere: code is sent there, and their nodes are their own."""
AnyCluster = Annotated[
    InlineCluster | LocalCluster | RayJobsCluster | KubeRayCluster,
    Field(discriminator="kind"),
    PickOne(),
]


class Environment(FormModel):
    """What the job's code needs."""

    working_dir: str = Field(".", description="Put on the Python path; holds your own modules.")
    pip: list[str] = Field(
        [], description="Requirements that Ray installs on the cluster before the job starts."
    )
    env_vars: dict[str, str] = Field({}, description="Environment variables; never secrets.")


class ErrorBudget(FormModel):
    """How many rows may be set aside before nothing is published."""

    max_rejected_fraction: float = Field(0.01, ge=0, le=1, description="Share of all rows.")
    minimum_rows: int = Field(
        100, ge=1, description="Rows to see before a run is stopped early, total unknown."
    )


class Cost(FormModel):
    """What the machines cost, in any currency; the report then says what a run did.

    What counts is what the stages' workers hold while rows flow, loading the model included, in all
    attempts, looked at twice a second. What else a cluster costs does not: idle nodes, its start.
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

    max_attempts: int = Field(5, ge=1, description="Attempts before the run fails.")


class Timeouts(FormModel):
    """When to give up."""

    no_progress_seconds: float = Field(600, gt=0, description="Without any progress.")
    run_seconds: float | None = Field(None, gt=0, description="For the whole run.")
    unreachable_seconds: float = Field(
        600, ge=0, description="For a cluster that ran the job and does not answer any more."
    )
    orphan_seconds: float = Field(
        1800, gt=0, description="A job that no run follows stops itself after so long."
    )


class Scheduled(FormModel):
    """Which time {scheduled:...} in paths stands for."""

    timezone: str = Field(
        "UTC", description="Timezone of the times in paths: an IANA name, as in Europe/Berlin."
    )
    offset: str | None = Field(
        None,
        description="Added to the scheduled time first, as in -1d: a run at 02:00 wants yesterday. "
        "Weeks (w) and days (d) go by the calendar, hours (h) and minutes (m) by the clock.",
    )

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, name: str) -> str:
        find_zone(name)
        return name

    @field_validator("offset")
    @classmethod
    def _one_step(cls, offset: str | None) -> str | None:
        if offset is not None:
            parse_step(offset)
        return offset


class BatchInferenceSpec(FormModel):
    """What to run: source, steps, model, sink, and what it may use."""

    name: str = Field(
        "batch-inference",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="Label of runs and artifacts; the output's path is the identity.",
    )
    source: AnySource = Field(title="Source", description="Where rows come from.")
    steps: list[AnyStep] = Field(
        [],
        title="Steps",
        description="CPU steps before the model's own preprocessing. As JSON, one is "
        '{"kind": "select", "columns": ["text"]}.',
    )
    model: AnyModel = Field(title="Model", description="What makes predictions.")
    sink: AnySink = Field(title="Sink", description="Where rows go.")
    scheduled: Scheduled = Scheduled()
    resources: Resources = Field(Resources(), validate_default=True)
    stages: Stages = Stages()
    cluster: AnyCluster = Field(LocalCluster(), title="Cluster", description="Where it runs.")
    environment: Environment = Environment()
    errors: ErrorBudget = ErrorBudget()
    gates: list[AnyGate] = Field(
        [],
        title="Gates",
        description="What the run's rows must be like to be published. Where a gate fails, nothing "
        "is, and what was predicted is kept; a run with accept publishes it.",
    )
    cost: Cost = Cost()
    retries: Retries = Retries()
    timeouts: Timeouts = Timeouts()

    @field_validator("resources")
    @classmethod
    def _no_gpu_for_nothing(cls, resources: Resources, info: ValidationInfo) -> Resources:
        model = info.data.get("model")
        if resources.num_gpus != "auto" or model is None or model.can_use_gpu:
            return resources
        return resources.model_copy(update={"num_gpus": 0.0})

    @model_validator(mode="after")
    def _orphan_before_its_cluster(self) -> Self:
        orphan, cluster = self.timeouts.orphan_seconds, self.cluster
        if isinstance(cluster, KubeRayCluster) and orphan >= cluster.ttl_seconds:
            raise ValueError(
                f"timeouts.orphan_seconds: {orphan:g} must be less than cluster.ttl_seconds "
                f"{cluster.ttl_seconds:g}: a job that nobody follows is to stop itself before its "
                "cluster is deleted"
            )
        return self

    @property
    def batch_size(self) -> int | None:
        """Rows in a batch where the user named a number."""
        return None if self.resources.batch_size == "auto" else self.resources.batch_size

    @property
    def rows_per_batch(self) -> int:
        """Rows that travel together: as the user asked, else what suits model and sink."""
        asked = self.stages.read.rows_per_batch
        if asked != "auto":
            return asked
        usual = self.model.rows_per_batch
        return max(min(usual, self.sink.rows_per_file or usual), self.batch_size or 1)
