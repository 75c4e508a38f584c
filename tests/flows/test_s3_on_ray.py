"""Whole runs whose workers are Ray's and whose every byte lies on S3: images, and Parquet."""

import io
import json
import os
import signal
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from flows.batch_inference import batch_inference
from tasks.errors import JobLost
from tasks.kinds.clusters import InlineCluster
from tasks.protocol.storage import FsspecStorage, open_storage
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import spec_of
from tests.s3_server import S3

pytestmark = [
    pytest.mark.s3,
    pytest.mark.ray,
    pytest.mark.prefect,
    pytest.mark.usefixtures("prefect_server"),
]

# The session's Ray may be older than the S3 server, and then its workers' environment has none.
CREDENTIALS = {"key": "testing", "secret": "testing"}


@dataclass(frozen=True)
class Bucket:
    """A folder of the bucket, for one test."""

    s3: S3
    folder: str
    address: str

    @property
    def storage(self) -> FsspecStorage:
        return open_storage(self.s3.url(""), self.s3.storage_options)[0]

    def put(self, name: str, data: bytes) -> None:
        """Store an input."""
        self.storage.write(f"{self.s3.bucket}/{self.folder}/in/{name}", data)

    def find(self, part: str, suffix: str = "") -> list[str]:
        """Paths of all objects below a part of the folder."""
        stats = self.storage.list(f"{self.s3.bucket}/{self.folder}/{part}")
        return [stat.path for stat in stats if stat.path.endswith(suffix)]

    def spec(self, kind: str, model: dict[str, Any], **changes: Any) -> BatchInferenceSpec:
        """Reads `in` and publishes Parquet in `out`."""
        options = {**self.s3.storage_options, **CREDENTIALS}
        folder = self.s3.url(self.folder)
        return spec_of(
            Path(),
            source={"kind": kind, "path": f"{folder}/in", "storage_options": options},
            model={"kind": "python", **model},
            sink={"kind": "parquet", "path": f"{folder}/out", "storage_options": options},
            cluster={"kind": "local", "address": self.address},
            **changes,
        )

    def published(self, key: str) -> list[dict[str, Any]]:
        """All published rows, by a column."""
        files = [self.storage.read(path) for path in self.find("out/", ".parquet")]
        rows = [row for file in files for row in pq.read_table(io.BytesIO(file)).to_pylist()]
        return sorted(rows, key=lambda row: row[key])


@pytest.fixture
def bucket(s3: S3, ray_address: str) -> Bucket:
    return Bucket(s3, uuid.uuid4().hex, ray_address)


def here(spec: BatchInferenceSpec) -> BatchInferenceSpec:
    """The same run in this process: Ray has been proven by then, and starts slowly."""
    return spec.model_copy(update={"cluster": InlineCluster(kind="inline")})


def png(height: int, red: int) -> bytes:
    """An image of one colour."""
    stream = io.BytesIO()
    pixels = np.full((height, 4, 3), (red, 0, 0), np.uint8)
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def test_images_are_published_once_and_a_changed_one_alone_again(bucket: Bucket) -> None:
    for number in range(5):
        bucket.put(f"{number}.png", png(height=8 + number, red=10 * number))
    spec = bucket.spec("images", {"class": "predictors:Shapes"})
    report = batch_inference(spec)
    assert (report["version"], report["rows"]["written"]) == (1, 5)
    folder = bucket.s3.url(bucket.folder)
    expected = [
        {"path": f"{folder}/in/{number}.png", "height": 8 + number, "red": 10.0 * number}
        for number in range(5)
    ]
    assert bucket.published("path") == expected

    files = bucket.find("out/")
    again = batch_inference(spec)
    assert (again["published"], again["inputs_skipped"]) == (False, 5)
    assert bucket.find("out/") == files

    bucket.put("3.png", png(height=50, red=200))
    changed = batch_inference(here(spec))
    assert (changed["version"], changed["inputs_skipped"]) == (2, 4)
    assert changed["rows"]["written"] == 1
    expected[3] |= {"height": 50, "red": 200.0}
    assert bucket.published("path") == expected


def put_numbers(bucket: Bucket, files: int = 5, rows: int = 100) -> int:
    """Parquet files: id, and x = id; return how many rows."""
    for number in range(files):
        ids = range(number * rows, (number + 1) * rows)
        stream = io.BytesIO()
        pq.write_table(pa.table({"id": list(ids), "x": [float(each) for each in ids]}), stream)
        bucket.put(f"{number}.parquet", stream.getvalue())
    return files * rows


def records_of(bucket: Bucket) -> list[str]:
    """Records that the run has left so far."""
    return [path for path in bucket.find("out.state/runs") if "/records/" in path]


def kill_driver(bucket: Bucket, records: int, over: threading.Event) -> None:
    """SIGKILL the first attempt's driver when so many records are there."""
    while len(records_of(bucket)) < records:
        if over.wait(0.2):  # each look is a request, which this process answers too
            return
    (file,) = bucket.find("out.state/runs", "/attempts/1/driver.json")
    os.kill(json.loads(bucket.storage.read(file))["pid"], signal.SIGKILL)


def run_and_kill(spec: BatchInferenceSpec, bucket: Bucket, records: int = 2) -> None:
    """A run whose driver is killed when so many records are there."""
    over = threading.Event()
    killer = threading.Thread(target=kill_driver, args=(bucket, records, over))
    killer.start()
    try:
        with pytest.raises(JobLost, match="is gone and left no result"):
            batch_inference(spec)
    finally:
        over.set()
        killer.join()


def test_a_run_whose_driver_was_killed_goes_on_and_every_row_is_there_once(
    bucket: Bucket, tmp_path: Path
) -> None:
    rows = put_numbers(bucket)
    go = tmp_path / "go"
    halting = {"class": "predictors:Double", "init": {"file": str(go)}}
    spec = bucket.spec("parquet", halting, resources={"max_replicas": 1})
    run_and_kill(spec, bucket)
    assert not bucket.find("out/"), "nothing is published"
    go.touch()

    report = batch_inference(here(spec))
    assert 0 < report["resumed_rows"] < rows
    assert report["rows"]["written"] == rows
    assert bucket.published("id") == [
        {"id": number, "x": float(number), "doubled": 2.0 * number} for number in range(rows)
    ]
    assert not batch_inference(spec)["published"]
