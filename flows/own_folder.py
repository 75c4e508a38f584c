"""A deployment's run has no folder of its own: its worker's is deleted with it."""

import os

from flows.deployment_run import is_deployment_run
from tasks.errors import InvalidSpec
from tasks.spec import BatchInferenceSpec
from tasks.spec_reading.paths import places, places_read

PROBLEM = "is relative to a folder that is deleted with this run: give an absolute path"


def check_whole_paths(spec: BatchInferenceSpec) -> None:
    """See that a deployment's run, whose spec no file has, names places from / on.

    What is only read may lie where the run begins, as where its deployment pulls code.

    Raises:
        InvalidSpec: a path is relative: what lay there would be lost, and nobody would know; or it
            is not there.
    """
    if not is_deployment_run():
        return
    read = ((field, path) for field, path in places_read(spec) if not os.path.exists(path))
    for field, path in (*places(spec), *read):
        if "://" not in path and not os.path.isabs(path):
            raise InvalidSpec.at(field, path, PROBLEM)
