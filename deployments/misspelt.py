"""Names in a prefect.yaml that nobody has: of steps, of what these take, and of parameters.

Prefect shows where in its code it met one, or deploys it, and every run fails.
"""

import inspect
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from deployments.prefect_file import Deployment, PrefectFile
from tasks.errors import InvalidSpec
from tasks.kinds.likest import did_you_mean

if TYPE_CHECKING:
    from prefect.flows import Flow

OF_PREFECT = {"id", "requires"}
"""What each step may have beside its own inputs."""


def refuse_unknown_steps(file: PrefectFile | Deployment) -> None:
    """See that the steps of a file, or of one of its deployments, are there and take their inputs.

    Those of `pull` are called where runs start: of a package that is not here nothing is known.

    Raises:
        InvalidSpec: one is not, or does not; names it.
    """
    for kind, steps in (("build", file.build), ("push", file.push), ("pull", file.pull)):
        for name, inputs in [pair for step in steps for pair in step.items()]:
            package = name.partition(".")[0]
            is_elsewhere = kind == "pull" and not (package.isidentifier() and find_spec(package))
            if not (is_elsewhere or inputs.get("requires")):  # which Prefect installs first
                refuse_misfit(f"{file.name}: {kind}", name, inputs.keys() - OF_PREFECT)


def refuse_misfit(place: str, name: str, given: Iterable[str]) -> None:
    """See that a step is there, and takes what it is given.

    Args:
        place: where it stands.
        name: its own.
        given: names of its inputs.

    Raises:
        InvalidSpec: it is not, or does not.
    """
    from prefect.utilities.importtools import import_object

    try:
        function: Callable[..., Any] = import_object(name)
    except Exception as error:  # of any kind: it may be somebody's code
        problem = f"is not a step that can be called: {type(error).__name__}: {error}"
        raise InvalidSpec.at(place, name, problem) from error
    refuse_untaken(place, name, function, given)
    try:
        inspect.signature(function).bind(**dict.fromkeys(given))
    except TypeError as error:
        raise InvalidSpec(f"{place}: {name}: {error}") from error


def refuse_unknown_parameters(deployment: Deployment) -> None:
    """See that a deployment's flow has the parameters that it is given, each time or by a schedule.

    Raises:
        InvalidSpec: it has not; names the first.
    """
    if flow := flow_of(deployment.entrypoint):
        given = [*deployment.parameters, *(n for s in deployment.schedules for n in s.parameters)]
        refuse_untaken(f"{deployment.name}: parameters", deployment.entrypoint, flow.fn, given)


def refuse_untaken(
    place: str, name: str, function: Callable[..., Any], given: Iterable[str]
) -> None:
    """See that a function has parameters of some names.

    Args:
        place: where they are given.
        name: the function's.
        function: itself.
        given: the names.

    Raises:
        InvalidSpec: it has not; names the first.
    """
    taken = inspect.signature(function).parameters
    if any(each.kind is each.VAR_KEYWORD for each in taken.values()):
        return
    for each in given:
        if each not in taken:
            problem = (
                f"is not a parameter of {name}, which takes "
                f"{', '.join(taken)}{did_you_mean(each, taken)}"
            )
            raise InvalidSpec.at(place, each, problem)


def flow_of(entrypoint: str) -> "Flow[Any, Any] | None":
    """The flow; None where it cannot be loaded, which Prefect's command tells of."""
    from prefect.flows import load_flow_from_entrypoint

    with suppress(Exception):  # of any kind: it is somebody's code
        return load_flow_from_entrypoint(entrypoint)
    return None
