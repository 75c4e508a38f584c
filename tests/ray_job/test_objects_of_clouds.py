"""Small files of Azure's and Google's stores are read with one request each."""

import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from tasks.errors import InputChanged, StageFailed
from tasks.plan import make_plan
from tasks.protocol.storage import open_storage
from tasks.ray_job.job import Job
from tasks.run import left_to_do, next_attempt
from tests.azure_server import Azure
from tests.flows.conftest import spec_of
from tests.google_server import Google
from tests.ray_job.test_objects_of_s3 import rows_of

NAMES = ["a.bin", "b c.bin", "e%20.bin", "é.bin", *(f"{at:03}.bin" for at in range(20))]


@dataclass(frozen=True)
class Place:
    """Inputs in a store."""

    cloud: Azure | Google
    url: str

    def put(self, name: str, data: bytes) -> None:
        """Store an input."""
        storage, folder = open_storage(self.url, self.cloud.storage_options)
        storage.write(f"{folder}/{name}", data)

    def job(self, output: Path) -> Job:
        """What reads them, planned; requests are counted from here on."""
        options = self.cloud.storage_options
        source = {"kind": "binary", "path": self.url, "storage_options": options}
        planned = make_plan(spec_of(output / "in", source=source))
        job = next_attempt(planned, left_to_do(planned, tried=False)).job
        self.cloud.seen.clear()
        return job


@pytest.fixture(params=["azure", "google"])
def place(request: pytest.FixtureRequest) -> Place:
    """Some small files."""
    cloud: Azure | Google = request.getfixturevalue(request.param)
    place = Place(cloud, cloud.url(uuid.uuid4().hex))
    for name in NAMES:
        place.put(name, name.encode() * 99)
    return place


ALL = [(name, name.encode() * 99) for name in sorted(NAMES)]


def test_each_file_takes_one_request(place: Place, tmp_path: Path) -> None:
    job = place.job(tmp_path)
    assert rows_of(job) == ALL
    asked = [line.partition(" ")[0] for line in place.cloud.seen if "/token" not in line]
    assert asked == ["GET"] * len(NAMES)


def test_no_other_object_is_taken_for_the_one_that_was_planned(
    place: Place, tmp_path: Path
) -> None:
    job = place.job(tmp_path)
    place.put(NAMES[3], NAMES[3].encode() * 99)  # the same bytes, and who knows which
    with pytest.raises(InputChanged, match="was rewritten after the run was planned") as raised:
        rows_of(job)
    assert str(raised.value.source).endswith(NAMES[3])


def test_one_that_is_gone_is_told(place: Place, tmp_path: Path) -> None:
    job = place.job(tmp_path)
    storage, folder = open_storage(place.url, place.cloud.storage_options)
    storage.delete(f"{folder}/{NAMES[0]}")
    with pytest.raises(InputChanged, match="was there when the run was planned and is gone"):
        rows_of(job)


def test_what_may_not_be_read_is_told(
    google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(google, google.url(uuid.uuid4().hex))
    place.put("secret.bin", b"x")
    job = place.job(tmp_path)
    monkeypatch.setattr(google, "forbidden", "secret")
    with pytest.raises(
        StageFailed,
        match=r"(?s)PermissionError.*storage\.objects\.get.*leave it out with source\.exclude",
    ):
        rows_of(job)
