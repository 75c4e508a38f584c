"""Videos, sounds, archives and datasets on S3 have the rows that they have on a disk."""

from pathlib import Path
from uuid import uuid4

import pytest

from tasks.kinds.sources import (
    AudioSource,
    HuggingFaceDatasetSource,
    Source,
    VideoSource,
    WebdatasetSource,
)
from tasks.protocol.storage import open_storage
from tests.kinds import archives, sounds, videos
from tests.kinds.sources.reading import read_all
from tests.s3_server import S3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A file or two for each source."""
    from datasets import Dataset, DatasetDict

    videos.save(tmp_path / "a.mkv", frames=20)
    sounds.save(tmp_path, "a.flac", sounds.tone(0.5, 16_000))
    archives.save(tmp_path, "a.tar", {f"{at}.bin": bytes([at] * 3_000) for at in range(99)})
    archives.save(tmp_path, "b.tgz", {"x.bin": b"x"})
    part = Dataset.from_dict({"x": list(range(2_500))})
    DatasetDict({"test": part, "train": part}).save_to_disk(tmp_path / "data")
    return tmp_path


@pytest.mark.s3
def test_rows_are_the_same(s3: S3, folder: Path) -> None:
    storage, bucket = open_storage(s3.url(uuid4().hex), s3.storage_options)
    for file in folder.rglob("*.*"):
        storage.write(f"{bucket}/{file.relative_to(folder)}", file.read_bytes())
    kinds: list[tuple[type[Source], dict[str, object]]] = [
        (VideoSource, {"every_seconds": 0.3}),
        (AudioSource, {}),
        (WebdatasetSource, {}),
        (HuggingFaceDatasetSource, {"split_name": "test"}),
    ]
    counts = []
    for kind, fields in kinds:
        part = "/data" if kind is HuggingFaceDatasetSource else ""
        here = read_all(kind.model_validate({"path": f"{folder}{part}", **fields}))
        given = {"storage_options": s3.storage_options, **fields}
        there = read_all(kind.model_validate({"path": f"s3://{bucket}{part}", **given}))
        named = [{**row, "path": row["path"].rpartition("/")[2]} for row in here if "path" in row]
        others = [{**row, "path": row["path"].rpartition("/")[2]} for row in there if "path" in row]
        assert (others or there) == (named or here)
        counts.append(len(there))
    assert counts == [7, 1, 100, 2_500]
