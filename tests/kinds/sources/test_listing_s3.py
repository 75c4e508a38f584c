"""Inputs on S3 are found as on a disk: each once, by the same name and identity."""

import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import InputNotFound, InvalidSpec
from tasks.kinds.sources import BinarySource, ParquetSource
from tasks.kinds.sources.listing import list_inputs
from tasks.protocol.object_stat import stat_of
from tasks.protocol.storage import open_storage
from tests.s3_server import S3
from tests.storage_faults.faulty_s3 import Fault, faulty_s3

pytestmark = pytest.mark.s3

ODD = ["a b.parquet", "day=1/é 🎉.parquet", "day=1/x#1.parquet", "x%20y+z&.parquet"]
GLOBLIKE = ["q?.parquet", "x[1].parquet"]
ALL = sorted([*ODD, *GLOBLIKE])
OTHERS = ["_SUCCESS", ".hidden.parquet", "_old/f.parquet", "day=1/_g.parquet", "c.txt"]


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, s3: S3, tmp_path: Path) -> str:
    """The URL of a folder with inputs and other files."""
    url = s3.url(uuid.uuid4().hex) if request.param == "s3" else str(tmp_path)
    storage, folder = open_storage(url, s3.storage_options)
    for name in [*ALL, *OTHERS]:
        storage.write(f"{folder}/{name}", name.encode())
    return url


def found(s3: S3, place: str, *paths: str, source: Any = ParquetSource, **fields: Any) -> list[str]:
    urls = [f"{place}/{path}" for path in paths]
    storage, stats = list_inputs(source(path=urls, storage_options=s3.storage_options, **fields))
    assert list(stats) == [storage.stat(stat.path) for stat in stats]
    folder = open_storage(place, s3.storage_options)[1]
    return [stat.path.removeprefix(f"{folder}/") for stat in stats]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([""], ALL),
        (["", *ALL, "*", "**", "**/*.parquet", "day=1"], ALL),
        (["day=1/"], ODD[2:0:-1]),
        (["day=*"], ODD[2:0:-1]),
        (["day=*/*#*"], ["day=1/x#1.parquet"]),
        (["**/*[é1]*"], ["day=1/x#1.parquet", "day=1/é 🎉.parquet", "x[1].parquet"]),
        (["c.txt"], ["c.txt"]),
        (["_old"], ["_old/f.parquet"]),
        *([[name], [name]] for name in ALL),
    ],
    ids=str,
)
def test_paths(s3: S3, place: str, paths: list[str], expected: list[str]) -> None:
    assert found(s3, place, *paths) == expected


@pytest.mark.parametrize(
    "glob",
    [
        *("*", "**", "**/*", "d*", "day=1/*", "**/x*", "x[[]1]*", "*/*", "q[?]*", "none*", "**/"),
        *("day=*/*#*", "*/_g*", "d*/x#1.parquet", "none*/x", "[_d]*/[fx]*", "*/*/*"),
    ],
)
def test_a_glob_matches_what_it_matches_to_fsspec(s3: S3, glob: str) -> None:
    storage, folder = open_storage(s3.url(uuid.uuid4().hex), s3.storage_options)
    for name in [*ALL, *OTHERS]:
        storage.write(f"{folder}/{name}", name.encode())
    pattern = f"{folder}/{glob}".rstrip("/")
    matched = {info["name"]: info["type"] for info in storage.glob(pattern)}
    known = storage.filesystem.glob(pattern, detail=True)
    assert matched == {name: info["type"] for name, info in known.items() if name != folder}
    files = [info for info in storage.glob(pattern) if info["type"] == "file"]
    assert [*map(stat_of, files)] == [storage.stat(info["name"]) for info in files]


def test_exclude_and_suffixes(s3: S3, place: str) -> None:
    assert found(s3, place, "", source=BinarySource) == sorted([*ALL, "c.txt"])
    assert found(s3, place, "", exclude=["*#*", "*/x[[]*"]) == [
        name for name in ALL if "#" not in name and "[" not in name
    ]


@pytest.mark.parametrize("path", ["none", "none/*.parquet", "none.parquet", "day"])
def test_nothing_there(s3: S3, place: str, path: str) -> None:
    with pytest.raises(InputNotFound, match=rf"source.path: '.*/{path[:4]}.*on_empty: succeed"):
        found(s3, place, "", path)
    assert found(s3, place, path, on_empty="succeed") == []


def test_what_others_wrote_since_is_found(s3: S3, place: str) -> None:
    options = {**s3.storage_options, "skip_instance_cache": True}
    other, folder = open_storage(place, options)
    assert found(s3, place, "day=1") == ODD[2:0:-1]
    other.write(f"{folder}/day=1/new.parquet", b"")
    other.delete(f"{folder}/day=1/x#1.parquet")
    for path in ("day=1", "day=1/*", "day=1/new.parquet"):
        assert "day=1/new.parquet" in found(s3, place, path)
    assert found(s3, place, "day=1/x#1.parquet", on_empty="succeed") == []


def test_a_folder_that_a_console_made_is_no_input(s3: S3) -> None:
    storage, folder = open_storage(s3.url(uuid.uuid4().hex), s3.storage_options)
    storage.write(f"{folder}/in/", b"")
    storage.write(f"{folder}/in/sub/", b"")
    storage.write(f"{folder}/in/a.bin", b"a")
    for path in ("in", "in/", "in/*", "**"):
        assert found(s3, f"s3://{folder}", path, source=BinarySource) == ["in/a.bin"]


@pytest.mark.parametrize("reverse", [False, True])
def test_paths_on_two_filesystems_are_refused(s3: S3, tmp_path: Path, reverse: bool) -> None:
    paths = [str(tmp_path), s3.url("")]
    paths = paths[::-1] if reverse else paths
    source = ParquetSource(path=paths, storage_options=s3.storage_options, on_empty="succeed")
    with pytest.raises(InvalidSpec, match=r"source.path: .*different filesystems"):
        list_inputs(source)


def test_a_folder_of_a_glob_that_cannot_be_listed_is_an_error(s3: S3) -> None:
    """Its inputs would be passed over, by nobody's word."""
    storage, folder = open_storage(s3.url(uuid.uuid4().hex), s3.storage_options)
    inputs = [f"{folder}/day={day}/in/a.parquet" for day in (1, 2, 3)]
    for path in inputs:
        storage.write(path, b"a")
    with faulty_s3(s3.endpoint_url) as proxy:
        options = {"endpoint_url": proxy.endpoint_url}
        source = ParquetSource(path=f"s3://{folder}/day=*/in/*.parquet", storage_options=options)
        assert [stat.path for stat in list_inputs(source)[1]] == inputs
        closed = re.compile(r"list-.*day(=|%3D)2")
        proxy.behave = lambda at: Fault(403, "AccessDenied") if closed.search(at.path) else None
        with pytest.raises(PermissionError) as caught:
            list_inputs(source)
        assert caught.value.filename == f"{folder}/day=2"


def test_objects_that_may_be_read_are_named_where_nothing_may_be_listed(s3: S3) -> None:
    """As in many a public bucket."""
    storage, folder = open_storage(s3.url(uuid.uuid4().hex), s3.storage_options)
    storage.write(f"{folder}/in/a.parquet", b"a")
    with faulty_s3(s3.endpoint_url) as proxy:
        proxy.behave = lambda asked: Fault(403, "AccessDenied") if "list-" in asked.path else None
        options = {"endpoint_url": proxy.endpoint_url}
        source = ParquetSource(path=f"s3://{folder}/in/a.parquet", storage_options=options)
        assert [stat.path for stat in list_inputs(source)[1]] == [f"{folder}/in/a.parquet"]
        assert proxy.faults
        whole = source.model_copy(update={"path": f"s3://{folder}/in"})
        with pytest.raises(PermissionError) as caught:
            list_inputs(whole)
        assert caught.value.filename == f"{folder}/in"
