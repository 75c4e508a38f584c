"""What scenarios read, and their specs."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from tests.chaos.compare import Rows
from tests.chaos.session import HERE, Place

BATCH = 64
ROWS_PER_WRITE = 512


def write_parquet(folder: Path, counts: list[int], first: int = 0) -> int:
    """Parquet files with so many rows each; ids go on from `first`; return the next."""
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(counts):
        write_rows(folder / f"{number:05d}.parquet", range(first, first + rows))
        first += rows
    return first


def write_rows(file: Path, ids: range, scale: float = 1.0) -> None:
    """One Parquet file."""
    table = pa.table({"id": pa.array(ids, pa.int64()), "x": [i * scale for i in ids]})
    pq.write_table(table, file)


def spread(rows: int, files: int) -> list[int]:
    """Rows over files, as even as can be."""
    return [rows * (i + 1) // files - rows * i // files for i in range(files)]


def write_spec(place: Place, seconds: float = 0.0, **fields: Any) -> Path:
    """A spec with a model that takes so long for a batch; fields are replaced whole."""
    body: dict[str, Any] = {
        "name": "chaos",
        "source": {"kind": "parquet", "path": "in"},
        "model": {"kind": "python", "class": "chaos_code:Double", "init": {"seconds": seconds}},
        "sink": {"kind": "parquet", "path": "out"},
        "resources": {"batch_size": BATCH, "max_replicas": 1},
        "stages": {"read": {"rows_per_batch": ROWS_PER_WRITE}},
        "cluster": {"kind": "local", "object_store_gb": 0.5},
        "environment": {"working_dir": "code"},
        **fields,
    }
    # A copy: an edit of the file while a scenario runs would change the run's code digest.
    shutil.copytree(HERE / "user_code", place.folder / "code", dirs_exist_ok=True)
    file = place.folder / f"{body['sink']['path']}.yaml"
    file.write_text(yaml.safe_dump(body))
    return file


def doubled(rows: int) -> Rows:
    """What should become of the first so many ids: id, x, y."""
    return Counter((i, float(i), 2.0 * i) for i in range(rows))


def reference(place: Place, spec: Path, name: str = "reference") -> Path:
    """The undisturbed run's output, made in one process without Ray."""
    output = place.folder / name
    log = place.folder / f"{name}-log"
    log.mkdir()
    arguments = ["cluster={kind: inline}", "resources.min_replicas=1", f"sink.path={output}"]
    if "seconds:" in spec.read_text():
        arguments.append("model.init={seconds: 0.0}")
    place.finish(
        spec, *(word for each in arguments for word in ("--set", each)), CHAOS_LOG=str(log)
    )
    return output
