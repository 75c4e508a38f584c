"""Each input is found once, under the path it really has."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import InputNotFound, InvalidSpec
from tasks.kinds.places import check_source
from tasks.kinds.sources import BinarySource, ImagesSource, ParquetSource
from tasks.kinds.sources.input_names import is_excluded
from tasks.kinds.sources.listing import list_inputs
from tasks.protocol.object_stat import stat_local, stat_of
from tasks.protocol.storage import open_storage


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names = ["a.parquet", "b.PQ", "c.txt", "_SUCCESS", ".hidden.parquet", "x[1].parquet"]
    names += ["day=1/d.parquet", "day=2/e.parquet", "_old/f.parquet", ".git/g.parquet"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def names(folder: Path, path: Any, source: Any = ParquetSource, **fields: Any) -> list[str]:
    path = [f"{folder}/{each}" for each in ([path] if isinstance(path, str) else path)]
    _, stats = list_inputs(source(path=path, **fields))
    return [Path(stat.path).relative_to(folder).as_posix() for stat in stats]


ALL = ["a.parquet", "b.PQ", "day=1/d.parquet", "day=2/e.parquet", "x[1].parquet"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", ALL),
        (".", ALL),
        ("day=1/", ["day=1/d.parquet"]),
        ("c.txt", ["c.txt"]),
        ("_old", ["_old/f.parquet"]),
        ("*", ["a.parquet", "b.PQ", "x[1].parquet"]),
        ("**", ALL),
        ("*.txt", ["c.txt"]),
        (".h*", [".hidden.parquet"]),
        ("[ab].*", ["a.parquet", "b.PQ"]),
        ("x[1].parquet", ["x[1].parquet"]),
        ("day=*", ["day=1/d.parquet", "day=2/e.parquet"]),
        ("day=*/", ["day=1/d.parquet", "day=2/e.parquet"]),
        ("day=*/*.parquet", ["day=1/d.parquet", "day=2/e.parquet"]),
        (["a.parquet", "*.parquet", "a.*"], ["a.parquet", "x[1].parquet"]),
    ],
)
def test_paths(folder: Path, path: Any, expected: list[str]) -> None:
    assert names(folder, path) == expected


def test_a_file_of_another_kind_hides_no_folders(tmp_path: Path) -> None:
    for name in ("README.md", "day=1/d.parquet", "day=2/deep/e.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    both = ["day=1/d.parquet", "day=2/deep/e.parquet"]
    assert names(tmp_path, "*") == names(tmp_path, "**") == both
    assert names(tmp_path, "*", BinarySource) == ["README.md"]
    (tmp_path / "f.parquet").touch()
    assert names(tmp_path, "*") == ["f.parquet"]


@pytest.mark.parametrize("path", ["", "*.JPG", "**", "*"])
def test_cameras_name_pictures_with_an_underscore(tmp_path: Path, path: str) -> None:
    for name in ("DSC_1.JPG", "_DSC2.JPG", "._DSC2.JPG", "_thumbs/DSC_3.JPG", "_SUCCESS"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert names(tmp_path, path, ImagesSource) == ["DSC_1.JPG", "_DSC2.JPG"]


def test_every_file_where_the_source_takes_any(folder: Path) -> None:
    assert names(folder, "", BinarySource) == sorted([*ALL, "c.txt"])


@pytest.mark.parametrize("exclude", ["[ab].*", "*/[ab].*"])
def test_exclude_names_or_paths(folder: Path, exclude: str) -> None:
    assert names(folder, "", exclude=[exclude]) == [each for each in ALL if each[1] != "."]


@pytest.mark.parametrize(
    "exclude", ["{0}/day=1/*", "file://{0}/day=1/*", "day=1/*", "./day=1/*", "{0.name}/day=1/*"]
)
def test_exclude_is_written_as_paths_are(folder: Path, exclude: str) -> None:
    found = names(folder, "", exclude=[exclude.format(folder)])
    assert found == [each for each in ALL if each != "day=1/d.parquet"]
    (folder / "aday=1").mkdir()
    (folder / "aday=1/z.parquet").touch()
    assert "aday=1/z.parquet" in names(folder, "", exclude=[exclude.format(folder)])


@pytest.mark.parametrize("exclude", ["day=1/", "d*1/", "{0}/day=1", "./day=1/", "{0.name}/day=1"])
def test_exclude_names_folders(folder: Path, exclude: str) -> None:
    (folder / "day=1/deep").mkdir()
    (folder / "day=1/deep/z.parquet").touch()
    found = names(folder, "", exclude=[exclude.format(folder)])
    assert found == [each for each in ALL if each != "day=1/d.parquet"]


@pytest.mark.parametrize(
    ("path", "meant"),
    [("x[1]/*.pq", r"in a glob, write \[\[\]"), ("{a,b}.parquet", "list each path")],
)
def test_what_is_no_glob_is_told(folder: Path, path: str, meant: str) -> None:
    (folder / "x[1]").mkdir()
    (folder / "x[1]/y.pq").touch()
    with pytest.raises(InputNotFound, match=meant):
        names(folder, path)
    if "{" in path:
        with pytest.raises(InputNotFound, match=f"does not exist.*{meant}"):
            check_source(ParquetSource(path=str(folder / path)))
    assert names(folder, "x[[]1]/*.pq") == ["x[1]/y.pq"]


def test_exclude_of_a_bucket_is_a_url() -> None:
    assert is_excluded("bucket/day=1/d.parquet", ["s3://bucket/day=1/*"])
    assert not is_excluded("bucket/day=10/d.parquet", ["s3://bucket/day=1/*", "day=1/*"])


def test_links_lead_to_one_input(folder: Path) -> None:
    (folder / "z.parquet").symlink_to(folder / "a.parquet")
    (folder / "again").symlink_to(folder / "day=1")
    assert names(folder, ["", "again/*"]) == ALL


def test_a_link_to_nowhere_is_named(folder: Path) -> None:
    (folder / "z.parquet").symlink_to(folder / "gone.parquet")
    with pytest.raises(InputNotFound, match=r"z.parquet' is a link to .*gone.parquet.*exclude"):
        names(folder, "")
    assert names(folder, "", exclude=["z.*"]) == ALL


@pytest.mark.parametrize("path", ["", "p.parquet", "p.*", "day=1"])
def test_a_pipe_is_no_input(folder: Path, path: str) -> None:
    """Whoever opened it would wait for somebody to write."""
    os.mkfifo(folder / "p.parquet")
    (folder / "day=1/z.parquet").symlink_to(folder / "p.parquet")
    with pytest.raises(InvalidSpec, match=r"[pz]\.parquet' is not a file but a pipe.*exclude"):
        names(folder, path)
    assert names(folder, "", exclude=["[pz].parquet"]) == ALL


def test_a_glob_takes_linked_files_too(folder: Path) -> None:
    (folder / "z.parquet").symlink_to(folder / "_old/f.parquet")
    found = ["_old/f.parquet", "a.parquet", "x[1].parquet"]
    assert names(folder, "*.parquet") == found
    assert names(folder, "*", BinarySource) == sorted([*found, "b.PQ", "c.txt"])


def test_a_linked_folder_is_searched(folder: Path) -> None:
    for name in ("one.parquet", "deep/two.parquet", "_no.parquet"):
        (folder / "_far" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "_far" / name).write_text(name)
    (folder / "day=3").symlink_to(folder / "_far")
    (folder / "_hidden").symlink_to(folder / "_old")
    found = ["_far/deep/two.parquet", "_far/one.parquet"]
    assert names(folder, "") == [*found, *ALL]
    assert names(folder, "", BinarySource) == sorted([*found, *ALL, "c.txt"])
    assert names(folder, "**") == [*found, *ALL]
    assert names(folder, "day=*/") == [*found, *ALL[2:4]]
    assert names(folder, "day=*/*.parquet") == [found[1], *ALL[2:4]]
    assert names(folder, "", exclude=["*/day=3/*"]) == ALL


@pytest.mark.parametrize("path", ["", "**"])
def test_links_that_lead_in_a_circle_end(folder: Path, path: str) -> None:
    (folder / "day=1/up").symlink_to(folder)
    (folder / "day=1/across").symlink_to(folder / "day=2")
    (folder / "day=2/back").symlink_to(folder / "day=1")
    (folder / "day=2/itself").symlink_to(".")
    assert names(folder, path) == ALL
    assert names(folder, path, BinarySource) == sorted([*ALL, "c.txt"])


def test_an_outputs_links_are_not_followed(folder: Path) -> None:
    (folder / "again").symlink_to(folder / "day=1")
    storage, path = open_storage(str(folder / "day=2"))
    (folder / "day=2/again").symlink_to(folder / "day=1")
    assert [stat.path for stat in storage.list(path)] == [f"{path}/again", f"{path}/e.parquet"]


@pytest.mark.parametrize("path", ["", "*", "z.*"])
def test_a_broken_link_is_named_of_a_glob_too(folder: Path, path: str) -> None:
    (folder / "z.parquet").symlink_to(folder / "gone.parquet")
    with pytest.raises(InputNotFound, match=r"z.parquet' is a link to .*gone.parquet.*exclude"):
        names(folder, path)


def test_a_name_that_is_no_text_is_named(folder: Path) -> None:
    with open(os.fsencode(folder) + b"/a\xff.parquet", "wb"):
        pass
    with pytest.raises(InvalidSpec, match=r"a\\udcff.parquet' is not UTF-8; rename the file, or "):
        names(folder, "")
    assert names(folder, "", exclude=["a?.parquet"]) == ALL


def test_the_same_bytes_at_two_paths_are_two_inputs(folder: Path) -> None:
    (folder / "z.parquet").write_text("a.parquet")
    assert names(folder, "[az].*") == ["a.parquet", "z.parquet"]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("none", "has no file ending in .parquet, .pq; correct"),
        ("none/*", "has no file ending in .parquet, .pq; correct"),
        ("none/*.csv", "matches no file; correct"),
        ("none.parquet", "has no file ending in .parquet, .pq; correct"),
    ],
)
def test_nothing_there(folder: Path, path: str, problem: str) -> None:
    with pytest.raises(InputNotFound, match=problem):
        names(folder, ["", path])
    assert names(folder, path, on_empty="succeed") == []


def test_all_excluded(folder: Path) -> None:
    with pytest.raises(InputNotFound, match=r"has 5 files, all left out by source.exclude"):
        names(folder, "", exclude=["*"])


def test_an_input_has_an_identity_that_changes_with_it(folder: Path) -> None:
    source = ParquetSource(path=str(folder / "a.parquet"))
    _, (before,) = list_inputs(source)
    (folder / "a.parquet").write_text("a.PARQUET")
    storage, (after,) = list_inputs(source)
    assert before.identity != after.identity
    assert storage.stat(after.path) == after


@pytest.mark.parametrize("stamp", ["blob_id", "xet_hash", "modificationTime"])
def test_versions_of_one_size_are_told_apart(stamp: str) -> None:
    before, after = (stat_of({"name": "a", "size": 3, stamp: at}).identity for at in (1, 2))
    assert before != after
    known = {"name": "a", "size": 3, "last_modified": "now"}
    assert stat_of({**known, stamp: 1}) == stat_of(known)


def test_one_filesystem_a_run(folder: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"'memory://x' and .* different filesystems"):
        list_inputs(ParquetSource(path=[str(folder), "memory://x"]))


def test_of_many_files_each_is_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a million files on a disk, more than that is most of the time that planning takes."""
    folders = [tmp_path / "in" / str(number) for number in range(3)]
    for folder in folders:
        folder.mkdir(parents=True)
        for number in range(20):
            (folder / f"{number}.png").write_bytes(b"x")
            os.utime(folder / f"{number}.png", ns=(0, 1_700_000_000_123_456_789))
    (tmp_path / "link").symlink_to(tmp_path / "in")
    calls: Counter[str] = Counter()

    def counted(name: str, call: Any) -> Any:
        def counting(*args: Any, **kwargs: Any) -> Any:
            calls[name] += 1
            return call(*args, **kwargs)

        return counting

    source = ImagesSource(path=str(tmp_path / "link"))
    with monkeypatch.context() as patched:
        for name in ("stat", "lstat"):
            patched.setattr(os, name, counted(name, getattr(os, name)))
        _, inputs = list_inputs(source)
    assert calls.total() < 60, calls
    paths = sorted(map(str, (tmp_path / "in").rglob("*.png")))
    assert list(inputs) == list(map(stat_local, paths))
