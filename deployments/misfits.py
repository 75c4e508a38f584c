"""Values of parameters in a prefect.yaml that their flow does not take: each run would fail."""

from collections.abc import Iterator
from typing import Any, get_type_hints

from pydantic import ConfigDict, ValidationError, create_model

from deployments.misspelt import flow_of
from deployments.prefect_file import Deployment
from tasks.errors import InvalidSpec
from tasks.spec import BatchInferenceSpec

FILLED_IN = ("{{", "__prefect_kind", "$ref")
"""What stands in values that Prefect fills in: by its own templates, variables and blocks."""


def refuse_misfit_values(deployment: Deployment) -> None:
    """See that a deployment's flow takes the values that it is given, each time or by a schedule.

    As Prefect does when a run starts. Of a spec more is seen elsewhere.

    Raises:
        InvalidSpec: it does not; names the first.
    """
    flow = flow_of(deployment.entrypoint)
    hints = get_type_hints(flow.fn) if flow and flow.should_validate_parameters else {}
    for place, name, value in given_to(deployment):
        kind = hints.get(name, BatchInferenceSpec)
        if kind is BatchInferenceSpec or any(each in str(value) for each in FILLED_IN):
            continue  # by Prefect, with what is not known here
        any_class = ConfigDict(arbitrary_types_allowed=True)
        fields: dict[str, Any] = {name: (kind, ...)}
        try:
            create_model("Parameters", __config__=any_class, **fields).model_validate({name: value})
        except ValidationError as error:
            problem = f"does not fit, so each of its runs would fail: {error.errors()[0]['msg']}"
            raise InvalidSpec.at(f"{deployment.name}: {place}.{name}", value, problem) from error


def given_to(deployment: Deployment) -> Iterator[tuple[str, str, Any]]:
    """Where a parameter is given, its name and its value."""
    places = [("parameters", deployment.parameters)]
    places += [("schedules.parameters", schedule.parameters) for schedule in deployment.schedules]
    for place, parameters in places:
        for name, value in parameters.items():
            yield place, name, value
