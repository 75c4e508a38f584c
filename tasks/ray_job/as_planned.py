"""Weights and code as they were when the run was planned: predictions of two are never mixed."""

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.clusters import RemoteCluster
from tasks.ray_job.blame import Function
from tasks.ray_job.job import Job
from tasks.ray_job.mapped_files import MappedFiles
from tasks.spec import BatchInferenceSpec


def code_digests(spec: BatchInferenceSpec) -> str:
    """Digests of the user's code that steps and model run; empty where there is none."""
    code = [*(step.code_digest() for step in spec.steps), spec.model.code_digest()]
    return "-".join(filter(None, code))


def refuse_other_code(spec: BatchInferenceSpec, planned: str) -> None:
    """See that the user's code is what it was when the run was planned.

    Args:
        spec: names it.
        planned: its digests then.

    Raises:
        InvalidSpec: it is not.
    """
    if code_digests(spec) != planned:
        problem = (
            "has other code than when the run was planned, and predictions of two versions are "
            "never mixed: restore the old code to continue the run, or give it up with --restart"
        )
        raise InvalidSpec.at("environment.working_dir", spec.environment.working_dir, problem)


def refuse_changed_code(job: Job) -> None:
    """See that the user's code, which this process has imported, is the planned one.

    On this machine it is read where it lies, whenever a process starts: a replica after another has
    died, one worker more. To a cluster it was sent as it was.

    Raises:
        InvalidSpec: it has changed since the run was planned.
    """
    if not isinstance(job.spec.cluster, RemoteCluster):
        refuse_other_code(job.spec, job.pins["fingerprints"]["code"])


def with_those_weights(job: Job, predict: Function) -> Function:
    """What a model makes of rows, where it is the planned one, before and after each call.

    Weights may be their file's own pages: with a file that is written over, a loaded model changes.

    Raises:
        InvalidSpec: it is another one; by now, or in a later call.
    """
    files = MappedFiles(job.spec.model.weights_places)
    refuse_other_weights(job)

    def predict_and_look(rows: pa.Table) -> pa.Table:
        try:
            return predict(rows)
        finally:  # of half a file rows may be made that are no numbers: they are no worse
            files.look(lambda: refuse_other_weights(job))

    return predict_and_look


def refuse_other_weights(job: Job) -> None:
    """See that the model that has been loaded is the one that the run was planned with.

    Raises:
        InvalidSpec: another lies there by now, as where somebody trains one while the run goes on.
    """
    model = job.spec.model
    if model.has_changed(job.pins["fingerprints"]["model"]):
        problem = (
            "is another model than when the run was planned, and predictions of two models are "
            "never mixed: restore the old model to continue the run, or give it up with --restart"
        )
        field = model.weights_field
        raise InvalidSpec.at(f"model.{field}", getattr(model, field), problem)
