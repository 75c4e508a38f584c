"""Files are found folder by folder where a store has no other way; each that is closed is told."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from fsspec.implementations.arrow import ArrowFSWrapper
from fsspec.implementations.local import LocalFileSystem as LocalFiles
from pyarrow.fs import LocalFileSystem

from tasks.kinds.sources.linked_files import LinkedFiles
from tasks.protocol.listed_folders import goes_by_folders
from tasks.protocol.storage import FsspecStorage
from tests.test_access import closed

FILES = [
    "a",
    "b c",
    "x[1]",
    "é#?",
    "day=1/a",
    "day=1/in/a",
    "day=2/in/a",
    "day=2/in/b",
    "in/day=1/a",
]
GLOBS = [
    *("*", "?", "d*", "**", "**/*", "**/a", "*/a", "*/in", "*/in/*", "day=*/in/a", "*/*/*", "*/*"),
    *("day=[2-9]/*/b", "x[[]1]", "é#[?]", "none*/a", "none/*", "day=1/**/a", "*/in/**", "a*/a"),
]
FILESYSTEMS: dict[str, Callable[[], Any]] = {
    "disk": LinkedFiles,
    "as of HDFS": lambda: ArrowFSWrapper(LocalFileSystem()),
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that everybody may look into."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o777)
        for name in FILES:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name)
        yield folder


@pytest.fixture(params=[*FILESYSTEMS.values()], ids=[*FILESYSTEMS])
def storage(request: pytest.FixtureRequest) -> FsspecStorage:
    filesystem = request.param()
    assert goes_by_folders(filesystem)
    return FsspecStorage(filesystem)


@pytest.mark.parametrize("glob", GLOBS)
def test_a_glob_matches_what_it_matches_to_fsspec(
    storage: FsspecStorage, folder: Path, glob: str
) -> None:
    pattern = f"{folder}/{glob}"
    matched = {info["name"]: info["type"] for info in storage.glob(pattern)}
    known = storage.filesystem.glob(pattern, detail=True)
    assert matched == {n: info["type"] for n, info in known.items() if n.rstrip("/") != str(folder)}


def test_all_files_are_found(storage: FsspecStorage, folder: Path) -> None:
    found = [stat.path for stat in storage.list(str(folder))]
    assert found == sorted(f"{folder}/{name}" for name in FILES)
    assert [stat.path for stat in storage.list(f"{folder}/day=1/a")] == [f"{folder}/day=1/a"]
    assert storage.list(f"{folder}/none") == storage.list(f"{folder}/a/none") == []
    assert not [*storage.glob(f"{folder}/none/*/a"), *storage.glob(f"{folder}/a/*/a")]


@pytest.mark.parametrize("look", ["list", "*/in/*", "**/b"])
def test_a_folder_that_may_not_be_listed_is_told(
    storage: FsspecStorage, folder: Path, look: str
) -> None:
    def found() -> list[Any]:
        if look == "list":
            return storage.list(str(folder))
        return list(storage.glob(f"{folder}/{look}"))

    everything = found()
    for name in ("day=2", "day=2/in"):
        with closed(folder / name), pytest.raises(PermissionError, match=f"{folder}/{name}"):
            found()
    assert found() == everything


@pytest.mark.parametrize("filesystem", [LocalFiles, *FILESYSTEMS.values()])
def test_the_systems_own_folder_of_a_disk_is_passed_over(
    folder: Path, filesystem: Callable[[], Any]
) -> None:
    """As a volume of a container has, whose user is not root: nothing of anybody's is in it."""
    storage = FsspecStorage(filesystem())
    everything = [stat.path for stat in storage.list(str(folder))]
    (folder / "lost+found").mkdir()
    with closed(folder / "lost+found"):
        assert [stat.path for stat in storage.list(str(folder))] == everything
        found = [info["name"] for info in storage.glob(f"{folder}/*/in/a")]
    assert sorted(found) == [f"{folder}/day=1/in/a", f"{folder}/day=2/in/a"]


def test_a_folder_that_leads_to_no_match_need_not_be_listed(
    storage: FsspecStorage, folder: Path
) -> None:
    with closed(folder / "in"):
        found = [info["name"] for info in storage.glob(f"{folder}/day=*/in/a")]
        others = storage.glob(f"{folder}/*/in/a", lambda name: name == f"{folder}/in")
        assert sorted(info["name"] for info in others) == sorted(found)
    assert sorted(found) == [f"{folder}/day=1/in/a", f"{folder}/day=2/in/a"]
