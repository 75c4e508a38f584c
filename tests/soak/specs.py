"""A drawn pipeline as a spec, at a place."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak.drawn import Case, Pipeline

CODE = Path(__file__).parent / "user_code"
SECONDS = {"inline": 0.0, "cluster": 0.06}
"""How long a batch takes: on a cluster there is to be a middle to strike at."""
WITH_IDS = ("thin", "multiply")
BATCH_FORMATS = {"Frames": "pandas", "Tables": "pyarrow"}
"""By the model; of others it is the default."""
BUILT_IN: dict[str, dict[str, Any]] = {
    "tiles": {"kind": "tile_images", "width": 8},
    "select": {"kind": "select", "columns": ["id", "x", "part"]},
}


@dataclass(frozen=True)
class Site:
    """Where a case's files lie, and how they are reached."""

    folder: Path
    url: str
    options: dict[str, Any] = field(default_factory=dict)
    cluster: dict[str, Any] = field(default_factory=lambda: {"kind": "inline"})

    @property
    def inputs(self) -> str:
        """Folder of the inputs."""
        return f"{self.url}/in"

    @property
    def output(self) -> str:
        """The output."""
        return f"{self.url}/out"

    @property
    def notes(self) -> Path:
        """Where the model notes what it was handed."""
        return self.folder / "notes"

    @property
    def mended(self) -> Path:
        """Where this lies the model breaks no more."""
        return self.folder / "mended"

    @property
    def estimator(self) -> Path:
        """Where scikit-learn's model lies."""
        return self.folder / "model.skops"


def spec_of(case: Case, site: Site, **changes: Any) -> dict[str, Any]:
    """The spec; fields are replaced whole."""
    drawn = case.pipeline
    one = {"max_workers": 1}
    return {
        "name": "soak",
        "source": {"kind": drawn.source, "path": site.inputs, "storage_options": site.options},
        "steps": [step_of(name, drawn) for name in drawn.steps],
        "model": model_of(case, site),
        "sink": sink_of(drawn, site.output, site.options),
        "resources": {
            "batch_size": drawn.batch_size,
            "num_gpus": 0,
            "num_cpus": 0.5,
            "min_replicas": drawn.replicas,
            "max_replicas": drawn.replicas,
        },
        "stages": {
            "read": {"rows_per_batch": drawn.rows_per_batch, **one},
            "preprocess": one,
            "write": one,
        },
        "errors": {"max_rejected_fraction": drawn.budget},
        "cluster": site.cluster,
        "environment": {"working_dir": str(CODE)},
        **changes,
    }


def step_of(name: str, drawn: Pipeline) -> dict[str, Any]:
    """A step by its drawn name."""
    if name == "filter":
        return {"kind": "filter", "expression": f"x >= {drawn.filter_below}"}
    if name in WITH_IDS and drawn.row_by_row:
        return {"kind": "map", "function": f"soak_code:{name}_row", "returns_list": True}
    own = {"kind": "python", "function": f"soak_code:{name}", "with_row_ids": name in WITH_IDS}
    return BUILT_IN.get(name, own)


def model_of(case: Case, site: Site) -> dict[str, Any]:
    """A class of the user code, or an estimator."""
    name = case.pipeline.model
    if name == "sklearn":
        return {"kind": "sklearn", "path": str(site.estimator), "columns": ["x"]}
    init = {
        "folder": str(site.notes),
        "seconds": SECONDS[case.where],
        "broken_every": case.pipeline.broken_every,
        "mended": str(site.mended),
    }
    others = {"batch_format": BATCH_FORMATS[name]} if name in BATCH_FORMATS else {}
    with_ids = {"with_row_ids": name == "Reordering"}
    return {"kind": "python", "class": f"soak_code:{name}", "init": init, **others, **with_ids}


def sink_of(drawn: Pipeline, path: str, options: dict[str, Any]) -> dict[str, Any]:
    """Where rows go."""
    return {
        "kind": drawn.sink,
        "path": path,
        "storage_options": options,
        "mode": drawn.mode,
        "partition_by": ["part"] if drawn.partitioned else [],
        "rows_per_file": drawn.rows_per_file,
    }


def save_estimator(file: Path) -> None:
    """Three times x, and one."""
    import skops.io
    from sklearn.linear_model import LinearRegression

    skops.io.dump(LinearRegression().fit([[0.0], [1.0]], [1.0, 4.0]), file)
