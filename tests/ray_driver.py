"""Python that is a Ray driver of its own, and what it answers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PATIENCE_SECONDS = 300.0
ANSWER = """
def answer(value):
    import json, sys
    with open(sys.argv[-1], "w") as file:
        json.dump(value, file)
"""


def answer_of(code: str, *arguments: str, environment: dict[str, str] | None = None) -> Any:
    """What `code` calls `answer` with; it finds `arguments` in `sys.argv[1:]`.

    A file holds it: Ray prints on a driver's standard output, at any time, what goes wrong
    elsewhere in the cluster that it has joined.

    Args:
        code: the driver's.
        arguments: for it.
        environment: its own; None: the test's.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder, "answer.json")
        command = [sys.executable, "-c", ANSWER + code, *arguments, str(file)]
        done = subprocess.run(
            command,
            env=os.environ if environment is None else environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(file.read_text())
