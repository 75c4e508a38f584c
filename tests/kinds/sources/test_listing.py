"""Each input is found once, under the path it really has."""

import os
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import InputNotFound, InvalidSpec
from tasks.kinds.sources import BinarySource, ParquetSource
from tasks.kinds.sources.listing import list_inputs


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


def test_every_file_where_the_source_takes_any(folder: Path) -> None:
    assert names(folder, "", BinarySource) == sorted([*ALL, "c.txt"])


@pytest.mark.parametrize("exclude", ["[ab].*", "*/[ab].*"])
def test_exclude_names_or_paths(folder: Path, exclude: str) -> None:
    assert names(folder, "", exclude=[exclude]) == [each for each in ALL if each[1] != "."]


def test_links_lead_to_one_input(folder: Path) -> None:
    (folder / "z.parquet").symlink_to(folder / "a.parquet")
    (folder / "again").symlink_to(folder / "day=1")
    assert names(folder, ["", "again/*"]) == ALL


def test_a_link_to_nowhere_is_named(folder: Path) -> None:
    (folder / "z.parquet").symlink_to(folder / "gone.parquet")
    with pytest.raises(InputNotFound, match=r"z.parquet' is a link to .*gone.parquet.*exclude"):
        names(folder, "")
    assert names(folder, "", exclude=["z.*"]) == ALL


def test_a_name_that_is_no_text_is_named(folder: Path) -> None:
    with open(os.fsencode(folder) + b"/a\xff.parquet", "wb"):
        pass
    with pytest.raises(InvalidSpec, match=r"a\\udcff.parquet' is not UTF-8; rename the file, or "):
        names(folder, "")
    assert names(folder, "", exclude=["a?.parquet"]) == ALL


def test_the_same_bytes_at_two_paths_are_two_inputs(folder: Path) -> None:
    (folder / "z.parquet").write_text("a.parquet")
    assert names(folder, "[az].*") == ["a.parquet", "z.parquet"]


@pytest.mark.parametrize("path", ["none", "none/*.parquet", "none.parquet"])
def test_nothing_there(folder: Path, path: str) -> None:
    with pytest.raises(InputNotFound, match=r"holds no file ending in .parquet, .pq; mend"):
        names(folder, ["", path])
    assert names(folder, path, on_empty="succeed") == []


def test_all_excluded(folder: Path) -> None:
    with pytest.raises(InputNotFound, match=r"has 5 files, left out by source.exclude"):
        names(folder, "", exclude=["*"])


def test_an_input_has_an_identity_that_changes_with_it(folder: Path) -> None:
    source = ParquetSource(path=str(folder / "a.parquet"))
    _, (before,) = list_inputs(source)
    (folder / "a.parquet").write_text("a.PARQUET")
    storage, (after,) = list_inputs(source)
    assert before.identity != after.identity
    assert storage.stat(after.path) == after


def test_one_filesystem_a_run(folder: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"'memory://x' and .* different filesystems"):
        list_inputs(ParquetSource(path=[str(folder), "memory://x"]))
