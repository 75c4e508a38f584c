"""What `check` finds where a run would begin to read."""

from pathlib import Path
from typing import Any

import pytest

from tasks.errors import InputChanged
from tasks.first_rows import first_rows
from tasks.plan import make_plan
from tests.reporting import classify_spec, make_inputs, run_spec


def first_of(folder: Path, kind: str, name: str, data: bytes, **more: Any) -> str:
    (folder / "in").mkdir()
    (folder / "in" / name).write_bytes(data)
    source = {"kind": kind, "path": str(folder / "in"), **more}
    return first_rows(make_plan(classify_spec(folder, source=source), save=False))


def test_columns_are_named(tmp_path: Path) -> None:
    assert first_of(tmp_path, "csv", "a.csv", b"x,y\n1,2\n") == "columns x, y"


def test_many_columns_are_counted(tmp_path: Path) -> None:
    names = [f"c{at}" for at in range(25)]
    data = ",".join(names).encode() + b"\n" + b",".join([b"1"] * 25) + b"\n"
    assert first_of(tmp_path, "csv", "a.csv", data).endswith("c18, c19 and 5 more")


def test_a_word_that_makes_a_column_of_numbers_text_is_told(tmp_path: Path) -> None:
    """Whether the model takes it is known by its code alone."""
    found = first_of(tmp_path, "csv", "a.csv", b"x,y\n1,2\n?,3\n4,5\n")
    assert found.startswith("columns x, y. 'x' is read as text, because '?' is among its numbers (")
    assert "/a.csv, row 1): give it a type, such as source.types: {x: float64}" in found


@pytest.mark.parametrize(
    ("kind", "name", "data", "said"),
    [
        ("parquet", "a.parquet", b"no such thing", "DamagedParquet: the file is damaged"),
        ("jsonl", "a.jsonl", b"\x97\n", "BadLine: the line is not UTF-8"),
    ],
)
def test_a_first_input_that_cannot_be_read_is_told(
    tmp_path: Path, kind: str, name: str, data: bytes, said: str
) -> None:
    found = first_of(tmp_path, kind, name, data)
    place = f"the first, {tmp_path}/in/{name}, row 0, cannot be read and would be set aside: "
    assert found.startswith(place + said)


def test_an_input_without_rows_is_told(tmp_path: Path) -> None:
    assert first_of(tmp_path, "csv", "a.csv", b"").endswith("/in/a.csv, has no rows")


def test_where_nothing_is_to_do_nothing_is_read(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    spec = classify_spec(tmp_path)
    assert first_rows(make_plan(spec, save=False)).startswith("columns ")
    run_spec(spec)
    assert first_rows(make_plan(spec, save=False)) == ""


def test_an_input_that_goes_meanwhile_is_an_error(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in", files=1)
    planned = make_plan(classify_spec(tmp_path), save=False)
    for path in (tmp_path / "in").iterdir():
        path.unlink()
    with pytest.raises(InputChanged, match="is gone"):
        first_rows(planned)
