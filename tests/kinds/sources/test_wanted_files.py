"""Files that a folder holds and a source does not read are told of, by their endings."""

from pathlib import Path
from typing import Any

import pytest

from tasks.errors import InputNotFound
from tasks.kinds.sources.images import ImagesSource
from tasks.kinds.sources.listing import listing_of
from tasks.kinds.sources.wanted_files import told
from tasks.plan import make_plan
from tests.flows.conftest import spec_of
from tests.kinds.tiny_models import save_images

NAMES = ("b.heic", "x/C.HEIC", "Thumbs.db", "README", "_SUCCESS", ".DS_Store", "x/d.tmp", ".h/e.gz")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    (folder / ".h").mkdir(parents=True)
    save_images(folder / "x", 1)
    for name in NAMES:
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("path", "passed_over"),
    [
        ("", {".heic": 2, ".db": 1, "": 1}),
        ("/x", {".heic": 1}),
        ("/**", {".heic": 2, ".db": 1, "": 1}),
        ("/*", {".heic": 1}),  # of which files lie in a folder that it matches
        ("/*/*", {".heic": 1}),
        ("/x/*.png", {}),
    ],
)
def test_they_are_counted(folder: Path, path: str, passed_over: dict[str, int]) -> None:
    source = ImagesSource(path=f"{folder}{path}", exclude=["*.tmp"])
    listing = listing_of(source)
    assert (len(listing.inputs), listing.passed_over) == (1, passed_over)


def test_a_plan_says_how_many_they_are(folder: Path) -> None:
    source: dict[str, Any] = {"kind": "images", "path": str(folder), "exclude": ["*.tmp"]}
    planned = make_plan(spec_of(folder, source=source), save=False)
    left_out = "4 files left out for other endings (2 .heic, 1 without, 1 .db)"
    assert planned.summary.endswith(f"0 published already; {left_out}")


def test_where_nothing_else_is_there_the_error_says_what_is(folder: Path) -> None:
    source = ImagesSource(path=str(folder), exclude=["*.png", "x/"])
    with pytest.raises(InputNotFound, match=r"all left out by source\.exclude"):
        listing_of(source)
    next((folder / "x").glob("*.png")).unlink()
    with pytest.raises(
        InputNotFound, match=r"no file ending in .png.*; it has 3 .*\(1 without, 1 .db, 1 .heic\)"
    ):
        listing_of(source)


def test_few_endings_are_named(folder: Path) -> None:
    for number in range(5):
        (folder / f"a.x{number}").touch()
    assert told(listing_of(ImagesSource(path=str(folder))).passed_over).startswith(
        "10 files left out for other endings (2 .heic, "
    )
    assert told(listing_of(ImagesSource(path=str(folder))).passed_over).endswith(", ...)")
