"""A cell's job: small, and slow in one stage."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from tests.chaos.compare import Rows
from tests.chaos.inputs import spread, write_parquet
from tests.chaos.processes import MARK
from tests.chaos.session import HERE, LOG, Place

STAGES = ("read", "preprocess", "infer", "write")
ROWS, FILES = 4_000, 40
BATCH = ROWS // FILES
SECONDS = 12.0
"""How long the slow stage takes, where nothing more is asked for."""


def write_job(place: Place, stage: str, cluster: dict[str, Any], seconds: float = SECONDS) -> Path:
    """Inputs, user code, and a spec whose `stage` takes so long; one worker for each stage.

    Two workers would hide what it costs to lose one.
    """
    write_parquet(place.folder / "in", spread(ROWS, FILES))
    code = Path(__file__).parent / "user_code"
    shutil.copytree(code, place.folder / "code", ignore=shutil.ignore_patterns("__pycache__"))
    a_row = {each: seconds / ROWS if each == stage else 0.0 for each in STAGES}
    body: dict[str, Any] = {
        "name": "matrix",
        "source": {"kind": "parquet", "path": "in"},
        "steps": [python("function", "Shift", a_row["preprocess"])],
        "model": python("class", "Double", a_row["infer"]),
        "sink": {"kind": "parquet", "path": "out"},
        "resources": {"batch_size": BATCH, "max_replicas": 1, "num_gpus": 1},
        "stages": {
            "read": {"rows_per_batch": BATCH, "max_workers": 1},
            "preprocess": {"max_workers": 1},
            "write": {"max_workers": 1},
        },
        "cluster": cluster,
        "environment": {
            "working_dir": "code",
            "env_vars": {
                MARK: place.mark,
                LOG: str(place.log),
                "PYTHONPATH": str(HERE / "matrix/hooks"),
                "SLOW_READ": str(a_row["read"] * BATCH),
                "SLOW_WRITE": str(a_row["write"] * BATCH),
            },
        },
    }
    file = place.folder / "out.yaml"
    file.write_text(yaml.safe_dump(body))
    return file


def whole_output() -> Rows:
    """What is published, whatever happens: `id`, `x` with one added to it, and `y`, twice that."""
    return Counter((i, i + 1.0, 2 * (i + 1.0)) for i in range(ROWS))


def python(field: str, name: str, seconds: float) -> dict[str, Any]:
    """A class of the user code."""
    return {"kind": "python", field: f"matrix_code:{name}", "init": {"seconds": seconds}}
