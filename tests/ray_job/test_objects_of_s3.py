"""Small files of S3 are read with one request each, and as s3fs reads them where that fails."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import InputChanged
from tasks.plan import make_plan
from tasks.protocol.storage import open_storage
from tasks.ray_job.job import Job
from tasks.ray_job.reading import read_share
from tasks.run import left_to_do, next_attempt
from tests.flows.conftest import spec_of
from tests.s3_server import S3
from tests.storage_faults.faulty_s3 import Fault, FaultyS3, Request, faulty_s3

pytestmark = pytest.mark.s3
NAMES = ["a.bin", "b c.bin", "d#1.bin", "e%20.bin", "é?.bin", *(f"{at:03}.bin" for at in range(75))]


@dataclass(frozen=True)
class Place:
    """Inputs behind a proxy."""

    proxy: FaultyS3
    s3: S3
    folder: str

    def put(self, name: str, data: bytes) -> None:
        """Store an input, past the proxy."""
        storage, folder = open_storage(self.s3.url(self.folder), self.s3.storage_options)
        key = f"{folder}/{name}".removeprefix(f"{self.s3.bucket}/")
        put = {"Bucket": self.s3.bucket, "Key": key, "Body": data, "ACL": "public-read"}
        storage.filesystem.call_s3("put_object", **put)

    def job(self, output: Path, kind: str = "binary", **options: Any) -> Job:
        """What reads them, planned; requests are counted from here on."""
        given = {"endpoint_url": self.proxy.endpoint_url, **options}
        source = {"kind": kind, "path": self.s3.url(self.folder), "storage_options": given}
        planned = make_plan(spec_of(output / "in", source=source))
        job = next_attempt(planned, left_to_do(planned, tried=False)).job
        self.proxy.seen.clear()
        return job

    def asked(self) -> list[str]:
        """Methods of the requests since, each as often as there were."""
        return [method for (method, _), times in self.proxy.seen.items() for _ in range(times)]


@pytest.fixture
def place(s3: S3) -> Iterator[Place]:
    """Some small files."""
    with faulty_s3(s3.endpoint_url) as proxy:
        place = Place(proxy, s3, uuid.uuid4().hex)
        for name in NAMES:
            place.put(name, name.encode() * 99)
        yield place


def rows_of(job: Job) -> list[tuple[str, bytes]]:
    """All rows, in order: the file's name and what it holds."""
    batches = read_share(job, 0, job.num_shards, lambda report: None)
    rows = [row for batch in batches for row in batch.rows.to_pylist()]
    return [(row["path"].rpartition("/")[2], row["bytes"]) for row in rows]


ALL = [(name, name.encode() * 99) for name in sorted(NAMES)]


def test_each_file_takes_one_request(place: Place, tmp_path: Path) -> None:
    job = place.job(tmp_path)
    assert rows_of(job) == ALL
    assert place.asked() == ["GET"] * len(NAMES)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "text", "parquet"])
def test_each_small_file_of_rows_takes_one_request(place: Place, tmp_path: Path, kind: str) -> None:
    """A thousand of them may be a day's events, and a large one is read as it comes."""
    ending = {"text": "txt"}.get(kind, kind)
    for at in range(20):
        pq.write_table(pa.table({"x": [at]}), parquet := BytesIO())
        data = {"csv": f"x\n{at}\n", "jsonl": f'{{"x": {at}}}\n', "text": f"{at}\n"}
        place.put(f"{at:02}.{ending}", data.get(kind, "").encode() or parquet.getvalue())
    job = place.job(tmp_path, kind)
    (batch,) = read_share(job, 0, job.num_shards, lambda report: None)
    (name,) = {*batch.rows.column_names} - {"__row"}
    assert [*map(int, batch.rows[name].to_pylist())] == [*range(20)]
    assert place.asked() == ["GET"] * 20


@pytest.mark.parametrize(
    "options",
    [
        {"config_kwargs": {"retries": {"max_attempts": 2}}},
        {"client_kwargs": {"api_version": "2006-03-01"}},
        {"version_aware": True},
    ],
)
def test_with_options_that_only_s3fs_knows_it_reads_them(
    place: Place, tmp_path: Path, options: dict[str, Any]
) -> None:
    job = place.job(tmp_path, **options)
    assert rows_of(job) == ALL
    assert place.asked().count("HEAD") >= len(NAMES)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda place: place.put(NAMES[9], b"other"), "was rewritten after the run was planned"),
        (lambda place: remove(place, NAMES[9]), "was there when the run was planned and is gone"),
    ],
)
def test_no_other_object_is_taken_for_the_one_that_was_planned(
    place: Place, tmp_path: Path, change: Callable[[Place], None], words: str
) -> None:
    job = place.job(tmp_path)
    change(place)
    with pytest.raises(InputChanged, match=words) as raised:
        rows_of(job)
    assert str(raised.value.source).endswith(NAMES[9])


def remove(place: Place, name: str) -> None:
    """Delete an input, past the proxy."""
    storage, folder = open_storage(place.s3.url(place.folder), place.s3.storage_options)
    storage.delete(f"{folder}/{name}")


@pytest.mark.parametrize(
    "fault",
    [
        Fault(403, "AccessDenied"),
        Fault(301, "PermanentRedirect"),
        Fault(cut=True),
        Fault(503, "SlowDown"),
    ],
)
def test_what_goes_wrong_is_done_again_by_s3fs(
    place: Place, tmp_path: Path, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a region that only s3fs finds: it is asked in another way, and soon alone."""
    job = place.job(tmp_path)

    def behave(asked: Request) -> Fault | None:
        return None if "botocore" in asked.agent else fault

    place.proxy.behave = behave
    assert rows_of(job) == ALL
    assert place.proxy.faults >= 3
    assert caplog.text.count("objects are read more slowly for a while: ") == 1


@pytest.mark.parametrize(
    ("environment", "options", "key"),
    [
        ({}, {}, "testing"),
        ({}, {"key": "mine", "secret": "x"}, "mine"),
        ({"AWS_ACCESS_KEY_ID": "other"}, {}, "other"),
        ({"AWS_ACCESS_KEY_ID": None}, {"profile": "team"}, "of-the-team"),
        ({"AWS_ACCESS_KEY_ID": None, "AWS_PROFILE": "team"}, {}, "of-the-team"),
        ({}, {"anon": True}, None),
    ],
)
def test_keys_are_those_that_s3fs_takes(
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str | None],
    options: dict[str, Any],
    key: str | None,
) -> None:
    files = tmp_path / "credentials"
    files.write_text("[team]\naws_access_key_id = of-the-team\naws_secret_access_key = x\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(files))
    for name, value in environment.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)
    job = place.job(tmp_path, **options)
    place.proxy.keys.clear()
    assert rows_of(job) == ALL
    assert place.asked() == ["GET"] * len(NAMES)
    assert place.proxy.keys == {key}
