"""Makes an archive of outputs as a release leaves them: all of a bucket, specs and code.

To be run in a checkout of that release, through whose command all is done:

    PYTHONPATH=. python WHERE-THIS-LIES/making.py WHERE-THIS-LIES/2026-11-27.tar.xz
"""

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from tasks.protocol.storage import FsspecStorage, open_storage
from tasks.spec_file import complete_spec
from tests import golden
from tests.s3_server import S3, running_s3

MODEL = Path(__file__).parent / "numbers_model.py"
ROWS = 40
"""Of each input; they are numbered through."""
PARTS: dict[str, dict[str, Any]] = {
    "parquet": {"sink": {"kind": "parquet", "partition_by": ["day"]}},
    "csv": {"sink": {"kind": "csv"}},
    "jsonl": {"sink": {"kind": "jsonl"}},
    "upsert": {"sink": {"kind": "delta", "mode": "upsert", "key": ["key"]}},
    "redrive": {"sink": {"kind": "parquet"}},
    "held": {"sink": {"kind": "parquet"}},
    "kept": {
        "sink": {"kind": "parquet"},
        "steps": [{"kind": "filter", "expression": "day == 1"}],
        "stages": {"read": {"rows_per_batch": 10}, "preprocess": {"materialize": True}},
    },
}
"""What is each output's own in its spec."""
MANY = " ".join(map(str, range(0, ROWS, 2)))
"""Rows that a redrive takes some batches for."""
COMMAND = "from flows.cli import main; main()"
IN_BUCKET = "batches/upgrades"
TOO_MANY = "gates=[{kind: rows, minimum: 1000}]"


def main(archive: Path) -> None:
    """Make all outputs, and put them into an archive."""
    with TemporaryDirectory() as folder, running_s3() as s3:
        here = Path(folder)
        os.environ |= {"AWS_ENDPOINT_URL": s3.endpoint_url, "PREFECT_HOME": f"{folder}/prefect"}
        (here / "code").mkdir()
        (here / "code" / MODEL.name).write_bytes(MODEL.read_bytes())
        for name, parts in PARTS.items():
            (here / f"{name}.yaml").write_text(json.dumps(spec_of(s3, name, parts)))
        (here / "parameters.json").write_text(json.dumps(parameters()))
        storage, _ = open_storage(s3.url(""))
        make(storage, here)
        files = [*here.glob("*.json"), *here.glob("*.yaml"), here / "code" / MODEL.name]
        contents = {f"{file.relative_to(here)}": file.read_bytes() for file in files}
        stats = storage.list(IN_BUCKET)
        pack(archive, contents | {stat.path: storage.read(stat.path) for stat in stats})


def pack(archive: Path, contents: dict[str, bytes]) -> None:
    """Put files into an archive; not those that only say who is at work, or are read by people."""
    with tarfile.open(archive, "w:xz") as packed:
        for name, content in sorted(contents.items()):
            if not name.endswith(("/lease.json", "/report.md")):
                told = tarfile.TarInfo(name)
                told.size = len(content)
                packed.addfile(told, io.BytesIO(content))


def spec_of(s3: S3, name: str, parts: dict[str, Any]) -> dict[str, Any]:
    """An output's spec, as its file says it."""
    raw: dict[str, Any] = {
        "name": name,
        "source": {"kind": "csv", "path": s3.url(f"upgrades/{name}/in")},
        "model": {"kind": "python", "class": "numbers_model:Double"},
        "cluster": {"kind": "inline"},
        "environment": {"working_dir": "code"},
        "stages": {"read": {"rows_per_batch": 10}},
        "errors": {"max_rejected_fraction": 0.5},
        "retries": {"max_attempts": 1},
        **parts,
    }
    raw["sink"]["path"] = s3.url(f"upgrades/{name}/out")
    return raw


def parameters() -> dict[str, Any]:
    """The shipped specs, as deployments of the release keep them in a Prefect server."""
    files = sorted(golden.SPECS.glob("*.yaml"))
    raw = {file.stem: yaml.safe_load(file.read_text()) for file in files}
    specs = {name: complete_spec(each, [], golden.FOLDER) for name, each in raw.items()}
    return {name: spec.model_dump(mode="json", by_alias=True) for name, spec in specs.items()}


def make(storage: FsspecStorage, here: Path) -> None:
    """Run, and be killed, as each output's name says."""

    def put(name: str, *numbers: int) -> None:
        for number in numbers:
            lines = ["number,key,day", *lines_of(range(number * ROWS, (number + 1) * ROWS))]
            storage.write(f"{IN_BUCKET}/{name}/in/{number}.csv", "\n".join(lines).encode())

    def call(verb: str, name: str, *options: str, code: int = 0, **environment: str) -> None:
        command = [sys.executable, "-c", COMMAND, verb, f"{here / name}.yaml", *options]
        ended = subprocess.run(command, env=os.environ | environment, check=False)
        if ended.returncode != code:
            raise SystemExit(f"{verb} of {name} ended with {ended.returncode}, and not {code}")

    for name in sorted(PARTS.keys() - {"kept"}):
        first, second = {"upsert": ("", ""), "redrive": (MANY, "43")}.get(name, ("3 13", "43"))
        put(name, 0)
        call("run", name, REFUSED=first)
        put(name, 1)
        call("run", name, REFUSED=second)
        put(name, 2)
    for name in ("parquet", "csv", "jsonl", "upsert"):
        call("run", name, code=-9, KILLED_AT="105")
    call("redrive", "redrive", code=-9, KILLED_AT="30")
    call("run", "held", "--set", TOO_MANY, code=3)
    put("kept", 0, 1, 2)
    call("run", "kept", code=-9, KILLED_AT="71")


def lines_of(numbers: range) -> Iterator[str]:
    """Rows of an input; keys come again after a hundred numbers."""
    return (f"{each},{each % 100},{each % 2}" for each in numbers)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
