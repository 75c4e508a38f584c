"""Calls Prefect's own command, and says in few words what that has failed on."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

LINKS = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
"""Between two tracebacks."""
LONGEST_LINE = 1000
"""Characters that are told of one, which may hold all that was sent: every field of a spec."""


class DeployFailedError(RuntimeError):
    """`prefect deploy` failed; the message is what it said."""


def run_prefect(prefect_file: Path, environment: Mapping[str, str], folder: Path | None) -> None:
    """Call `prefect deploy` for all that a file names.

    Args:
        prefect_file: names it.
        environment: of the command.
        folder: to call it in.

    Raises:
        DeployFailedError: it fails.
    """
    # With -P a folder of the user's that is called `flows` hides none of ours.
    command = ["-P", "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file"]
    said = subprocess.run(
        [sys.executable, *command, str(prefect_file)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if said.returncode:
        raise DeployFailedError(without_tracebacks(said.stdout))


def without_tracebacks(said: str) -> str:
    """What a command has said, without where in its code that was."""
    left, is_within = [], False
    for line in said.splitlines():
        is_within = line.startswith("Traceback (") or (is_within and line.startswith(" "))
        if not is_within and line and line not in LINKS:
            left.append(line[:LONGEST_LINE])
    return "\n".join(left)
