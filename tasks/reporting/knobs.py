"""Which settings say how many workers a stage has."""

from dataclasses import dataclass

from tasks.ray_job.own_machine import is_own_machine, most_readers, most_writers
from tasks.spec import BatchInferenceSpec


@dataclass(frozen=True)
class Knobs:
    """A stage's settings."""

    most: str
    """The field that bounds its workers."""
    max_workers: int | None
    cpus: str
    """The field that says how many cores a worker holds."""
    num_cpus: float
    is_asked_for: bool = True
    """Whether somebody has set the bound; else it goes once `cpus` is set."""


def knobs_of(spec: BatchInferenceSpec, stage: str) -> Knobs:
    """The settings of a stage."""
    resources = spec.resources
    if stage == "infer":
        # On a machine of its own a job has as many as there is room for.
        is_bounded = resources.max_replicas or not is_own_machine(spec)
        most = resources.most_replicas() if is_bounded else None
        return Knobs("resources.max_replicas", most, "resources.num_cpus", resources.cores)
    options, name = getattr(spec.stages, stage), f"stages.{stage}"
    usual = {"read": most_readers, "write": most_writers}
    workers = usual[stage](spec) if stage in usual else options.max_workers
    is_asked_for = stage != "read" or options.max_workers is not None
    fields = f"{name}.max_workers", f"{name}.num_cpus"
    return Knobs(fields[0], workers, fields[1], options.num_cpus, is_asked_for)
