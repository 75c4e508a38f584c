"""An archive's outputs: what was in a bucket is put into a server's, the rest into a folder."""

import json
import tarfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.protocol.delta_ledger import KEPT
from tasks.protocol.storage import FsspecStorage, open_storage
from tasks.published import published_rows, rows_set_aside
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import load_spec
from tests.s3_server import S3
from tests.upgrades.making import IN_BUCKET, ROWS, lines_of

ARCHIVES = sorted(Path(__file__).parent.glob("*.tar.xz"))
AT_ONCE = 8


@dataclass(frozen=True)
class Earlier:
    """What a release has left."""

    folder: Path
    storage: FsspecStorage
    there: set[str] = field(default_factory=set)
    """Outputs that were put into the bucket."""

    @classmethod
    def unpacked(cls, archive: Path, folder: Path, s3: S3) -> "Earlier":
        """An archive's."""
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        return cls(folder, open_storage(s3.url(""))[0])

    def spec(self, name: str, *changes: str) -> BatchInferenceSpec:
        """The spec of an output, which is in the bucket from now on as it was left."""
        if name not in self.there:
            self.there.add(name)
            self.put_back(f"{IN_BUCKET}/{name}")
        return load_spec(self.folder / f"{name}.yaml", [*changes])

    def put_back(self, path: str) -> None:
        """Put all of an output into the bucket, in place of what an earlier test has made of it."""
        KEPT.clear()  # what others have seen of its ledger
        files = [each for each in (self.folder / path).rglob("*") if each.is_file()]

        def each_of(function: Any, items: Iterable[Any]) -> None:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(function, items))

        each_of(self.storage.delete, [stat.path for stat in self.storage.list(path)])
        each_of(
            lambda file: self.storage.write(f"{file.relative_to(self.folder)}", file.read_bytes()),
            files,
        )

    def put(self, name: str, number: int, rows: range | None = None) -> None:
        """Store an input, or another one in its place."""
        rows = rows or range(number * ROWS, (number + 1) * ROWS)
        lines = "\n".join(["number,key,day", *lines_of(rows)])
        self.storage.write(f"{IN_BUCKET}/{name}/in/{number}.csv", lines.encode())

    @property
    def parameters(self) -> dict[str, Any]:
        """Specs as its deployments kept them."""
        found: dict[str, Any] = json.loads((self.folder / "parameters.json").read_text())
        return found


def numbers(spec: BatchInferenceSpec) -> list[int]:
    """All that are published, ascending; each is seen to be predicted."""
    rows = published_rows(spec).to_pylist()
    assert all(row["doubled"] == 2 * row["number"] for row in rows)
    return sorted(row["number"] for row in rows)


def refused(spec: BatchInferenceSpec) -> list[int]:
    """All that are set aside."""
    return sorted(json.loads(row["input_json"])["number"] for row in rows_set_aside(spec))
