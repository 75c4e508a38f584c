"""What a spec names is looked for before anything is started."""

from pathlib import Path

import pytest

from tasks.errors import InputNotFound, InvalidSpec
from tasks.kinds.places import check_source, folder_of
from tasks.kinds.sources.parquet import ParquetSource


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("s3://bucket/a/*.parquet", "s3://bucket/a"),
        ("s3://bucket/a/b-[0-9]/c/*.parquet", "s3://bucket/a"),
        ("/data/day=*/x", "/data"),
        ("/data/x.parquet", "/data/x.parquet"),
    ],
)
def test_a_globs_folder(url: str, folder: str) -> None:
    assert folder_of(url) == folder


def test_files_folders_globs_and_odd_names_are_there(tmp_path: Path) -> None:
    (tmp_path / "a[1].parquet").touch()
    paths = ["", "a[1].parquet", "*.parquet", "no-such-*.parquet"]
    # That a glob matches nothing is for the listing to find.
    check_source(ParquetSource(path=[str(tmp_path / path) for path in paths]))


@pytest.mark.parametrize("path", ["nowhere", "nowhere/*.parquet"])
def test_what_is_not_there_is_said_at_once(tmp_path: Path, path: str) -> None:
    with pytest.raises(InputNotFound, match=r"source\.path: .*nowhere"):
        check_source(ParquetSource(path=str(tmp_path / path)))
    check_source(ParquetSource(path=str(tmp_path / path), on_empty="succeed"))


def test_an_unknown_protocol_is_a_wrong_spec() -> None:
    with pytest.raises(InvalidSpec, match=r"source\.path: 'foo://x' cannot be opened"):
        check_source(ParquetSource(path="foo://x"))
