"""A deployment's run has no folder of its own: its worker's is deleted with it."""

import os
from collections.abc import Iterator

from prefect.runtime import deployment

from tasks.errors import InvalidSpec
from tasks.spec import BatchInferenceSpec
from tasks.spec_paths import is_table_name


def check_whole_paths(spec: BatchInferenceSpec) -> None:
    """See that a deployment's run, whose spec no file has, names places from / on.

    Raises:
        InvalidSpec: a path is relative: what lay there would be lost, and nobody would know.
    """
    for field, path in paths_in(spec) if deployment.id else ():
        if "://" not in path and not os.path.isabs(path):
            problem = "is relative to a folder that goes with this run: write it from / on"
            raise InvalidSpec.at(field, path, problem)


def paths_in(spec: BatchInferenceSpec) -> Iterator[tuple[str, str]]:
    """Places of the spec, with the fields that name them."""
    if not is_table_name(spec.source.model_dump()):
        yield from (("source.path", path) for path in spec.source.paths)
    yield "sink.path", spec.sink.path
    for at, gate in enumerate(spec.gates):
        if gate.compared_with:
            yield f"gates.{at}.baseline", gate.compared_with
    yield from (("model.weight_files", path) for path in getattr(spec.model, "weight_files", ()))
    for field, path in (
        ("model.path", getattr(spec.model, "path", None)),
        ("stages.preprocess.path", spec.stages.preprocess.path),
    ):
        if path:
            yield field, path
