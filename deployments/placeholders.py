"""What stands for the output of a build step in a prefect.yaml, as `{{ pets.spec }}` does."""

import re
from typing import Any

PLACEHOLDER = re.compile(r"{{\s*([\w.\-\[\]$]+)\s*}}")
"""As Prefect finds them."""
OF_NO_STEP = ("$", "prefect.", "ctx.")
"""How those begin that stand for something else."""
OUTPUTS = {"deployments.parameters.full_spec": "spec", "deployments.parameters.stack_file": "path"}
"""Of steps of ours; what others give nobody knows here."""


def refuse_unfilled(parameters: Any, steps: list[dict[str, dict[str, Any]]]) -> None:
    """See that steps give what stands in parameters.

    Prefect would leave out such a parameter with a warning, and each run fail for want of it.

    Args:
        parameters: of a deployment.
        steps: those that are called before it is brought to a server.

    Raises:
        ValueError: a placeholder stands for nothing; says what there is.
    """
    known = [path for step in steps for item in step.items() for path in outputs_of(*item)]
    for name in PLACEHOLDER.findall(str(parameters)):
        if name.startswith(OF_NO_STEP) or any(is_of(name, path) for path in known):
            continue
        there = ", ".join(".".join(path) for path in known if len(path) > 1)
        there = there or f"no step with an id: give the step that makes it id: {name.split('.')[0]}"
        raise ValueError(f"{{{{ {name} }}}} is not an output of a build step: there is {there}")


def outputs_of(step: str, inputs: dict[str, Any]) -> list[list[str]]:
    """What a step gives, by its id and without it; a star is anything."""
    output, own = OUTPUTS.get(step, "*"), inputs.get("id")
    return [[own, output], [output]] if own else [[output]]


def is_of(name: str, path: list[str]) -> bool:
    """Whether a placeholder is an output, or with the step's id a part of one."""
    parts = re.split(r"[.\[]", name)
    if len(path) == 1:
        return name == path[0] or (path == ["*"] and "." not in name)
    return len(parts) > 1 and parts[0] == path[0] and path[1] in ("*", parts[1])
