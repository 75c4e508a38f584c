"""Makes a deployment's parameters of files: build steps of prefect.yaml."""

import json
from pathlib import Path
from typing import Any

from deployments.stack.state import DEFAULT_FOLDER, ROOT
from tasks.spec_file import load_spec


def full_spec(
    file: str, changes: list[str] | None = None, stack_folder: str = ""
) -> dict[str, Any]:
    """A spec with every field written out, which is how the run form finds the right variants.

    Args:
        file: a spec of yours, relative to the current folder; or a shipped one, by its place here.
        changes: fields to set, as in `cluster={kind: inline}`.
        stack_folder: of a stack that is not in the project's own folder.

    Returns:
        The step's output: `spec`.

    Raises:
        InvalidSpec: the spec is wrong; nothing is deployed then.
    """
    spec = load_spec(place_of(file), changes).model_dump_json(by_alias=True)
    if stack_folder:
        spec = spec.replace(f"{DEFAULT_FOLDER}/", f"{stack_folder.rstrip('/')}/")
    return {"spec": json.loads(spec)}


def place_of(file: str, folder: Path | None = None) -> Path:
    """Where a spec lies.

    Args:
        file: a spec of yours, relative to a folder; or a shipped one, by its place here.
        folder: where empty, the current one.
    """
    own = (folder or Path()) / file
    return next((each for each in (own, ROOT / file) if each.exists()), own)


def stack_file(file: str, stack_folder: str = "") -> dict[str, str]:
    """A file of the stack's, as a parameter beside a spec.

    Args:
        file: relative to the stack's folder.
        stack_folder: of a stack that is not in the project's own folder.

    Returns:
        The step's output: `path`.
    """
    return {"path": str(Path(stack_folder or DEFAULT_FOLDER) / file)}
