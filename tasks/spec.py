"""The contract of the whole project: one typed spec, one YAML file, one run form."""

from typing import Any, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from tasks.errors import shown
from tasks.kinds.clusters import AnyCluster, KubeRayCluster, LocalCluster
from tasks.kinds.form import FormModel
from tasks.kinds.gates import AnyGate
from tasks.kinds.mistaken_paths import mistake_in
from tasks.kinds.models import AnyModel
from tasks.kinds.sinks import AnySink
from tasks.kinds.sources import AnySource
from tasks.kinds.steps import AnyStep
from tasks.resources import Resources, Stages
from tasks.spec_parts import Cost, Environment, ErrorBudget, Retries, Scheduled, Timeouts


class BatchInferenceSpec(FormModel):
    """What to run: source, steps, model, sink, and what it may use."""

    name: str = Field(
        "batch-inference",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="Label of runs and artifacts; what identifies the output is its path.",
    )
    source: AnySource = Field(title="Source", description="Where rows come from.")
    steps: list[AnyStep] = Field(
        [],
        title="Steps",
        description="CPU steps before the model's own preprocessing. In JSON, a step looks like "
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
        description="What must hold for a run's rows before they are published. If a gate fails, "
        "nothing is published and the predictions are kept; a run with accept publishes them.",
    )
    cost: Cost = Cost()
    retries: Retries = Retries()
    timeouts: Timeouts = Timeouts()

    @field_validator("sink")
    @classmethod
    def _goes_where_it_is_meant_to(cls, sink: AnySink) -> AnySink:
        refuse_mistake("sink.path", sink.path)
        return sink

    @field_validator("stages")
    @classmethod
    def _keeps_rows_where_it_is_meant_to(cls, stages: Stages) -> Stages:
        refuse_mistake("stages.preprocess.path", stages.preprocess.path or "")
        return stages

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
                f"{cluster.ttl_seconds:g}: a job that no run follows must stop before its cluster "
                "is deleted"
            )
        return self

    def with_part(self, part: str, **changes: Any) -> Self:
        """The spec with some fields of one of its parts changed, such as `sink` or `resources`."""
        return self.model_copy(update={part: getattr(self, part).model_copy(update=changes)})

    @property
    def runs_own_code(self) -> bool:
        """Whether a step or the model is code of the user's."""
        return any(any(part.own_code.values()) for part in (*self.steps, self.model))

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


def refuse_mistake(field: str, path: str) -> None:
    """Refuse a path that is likely not what is meant.

    Raises:
        ValueError: says why.
    """
    if problem := mistake_in(path):
        raise ValueError(f"{field}: {shown(path)} {problem}")
