"""A deployment's run has no folder of its own: its worker's is deleted with it."""

import os

from prefect.runtime import deployment

from tasks.errors import InvalidSpec
from tasks.spec import BatchInferenceSpec
from tasks.spec_paths import places


def check_whole_paths(spec: BatchInferenceSpec) -> None:
    """See that a deployment's run, whose spec no file has, names places from / on.

    Raises:
        InvalidSpec: a path is relative: what lay there would be lost, and nobody would know.
    """
    for field, path in places(spec) if deployment.id else ():
        if "://" not in path and not os.path.isabs(path):
            problem = "is relative to a folder that goes with this run: write it from / on"
            raise InvalidSpec.at(field, path, problem)
