"""Of two runs on one output one is stopped in the middle of publishing, for as long as it takes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tasks.ledgers import ledger_of
from tasks.reporting.versions import told_version
from tasks.spec_file import parse_spec
from tests.flows.conftest import CODE, published

pytestmark = pytest.mark.chaos
ROOT = Path(__file__).parents[2]
SILENT_SECONDS = 0.2
"""After so long a process on another machine counts as gone; two minutes otherwise."""
Scene = dict[str, Any]


def spec_at(folder: Path, *files: int, seconds: float = 0.0, **sink: Any) -> dict[str, Any]:
    return {
        "name": "stopped",
        "source": {"kind": "parquet", "path": [str(folder / f"{n}.parquet") for n in files]},
        "model": {"kind": "python", "class": "predictors:Double", "init": {"seconds": seconds}},
        "sink": {"path": str(folder / "out"), **sink},
        "cluster": {"kind": "inline"},
        "environment": {"working_dir": str(CODE)},
        "stages": {"read": {"rows_per_batch": 10}},
    }


def scene(folder: Path, name: str, other: tuple[int, ...] = (0, 1), **more: Any) -> Scene:
    """Two runs of twenty rows in four files; the same spec, if nothing else is said."""
    place = folder / name
    sink = {"kind": more.pop("kind", "parquet"), "mode": more.pop("mode", "append")}
    place.mkdir()
    for number in range(3):
        ids = list(range(number * 20, number * 20 + 20))
        rows = pa.table({"id": ids, "x": [float(each) for each in ids]})
        pq.write_table(rows, place / f"{number}.parquet")
    return {
        "folder": str(place),
        "first": spec_at(place, 0, 1, **sink),
        "other": spec_at(place, *other, **sink, seconds=more.pop("seconds", 0.0)),
        "call": "commit",
        "number": 1,
        "after": False,
        "host": "elsewhere",
        "silent_seconds": SILENT_SECONDS,
        "options": {},
        **more,
    }


SAME: dict[str, Scene] = {
    "before the ledger's entry": {},
    "after the ledger's entry": {"after": True},
    "before the second move": {"call": "move", "number": 2},
    "after the last move": {"call": "move", "number": 4, "after": True},
    "before the marker": {"call": "marker"},
    "before the version is noted": {"call": "applied"},
}
OTHERS: dict[str, Scene] = {
    "held": {"seconds": 0.001, "host": os.uname().nodename},
    "given up": {"seconds": 0.001, "options": {"restart": True}},
    "other inputs": {"other": (2,), "options": {"restart": True}},
}
REPLACED: dict[str, Scene] = {
    "after an entry that is replaced": {"mode": "replace", "after": True, "other": (0, 2)},
    "before files of an entry that is replaced are moved": {
        "mode": "replace", "call": "move", "number": 1, "other": (0, 2),
    },
    "before the version of what is replaced is noted": {
        "mode": "replace", "call": "applied", "other": (0, 2),
    },
}  # fmt: skip
TABLES: dict[str, Scene] = {
    "before the table's transaction": {"kind": "delta", "call": "table"},
    "after the table's transaction": {"kind": "delta", "call": "table", "after": True},
    "others add to the table": {
        "kind": "delta", "call": "table", "other": (2,), "options": {"restart": True},
    },
}  # fmt: skip
Ended = Callable[[str], tuple[Scene, dict[str, Any]]]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """All scenes, played by processes that one interpreter forks; each takes a second or two."""
    folder = tmp_path_factory.mktemp("s")
    cases = SAME | OTHERS | REPLACED | TABLES
    scenes = {name: scene(folder, f"s{n}", **cases[name]) for n, name in enumerate(cases)}
    command = [sys.executable, "-m", "tests.chaos.stopping", json.dumps(list(scenes.values()))]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    ends = json.loads(done.stdout.splitlines()[-1])
    return lambda name: (scenes[name], dict(zip(scenes, ends, strict=True))[name])


def rows_of(played: Scene) -> list[int]:
    """Ids of all rows in the output's folder."""
    rows = published(parse_spec(played["first"]))
    assert [row["doubled"] for row in rows] == [2 * row["id"] for row in rows]
    return [row["id"] for row in rows]


def entries_of(played: Scene) -> list[dict[str, Any]]:
    return list(ledger_of(parse_spec(played["first"])).look().entries.values())


@pytest.mark.parametrize("moment", SAME)
def test_who_was_stopped_finds_its_own_run_published(ended: Ended, moment: str) -> None:
    played, ends = ended(moment)
    assert ends["codes"] == [0, 0], ends["said"]
    assert rows_of(played) == list(range(40))
    assert len(entries_of(played)) == 1


def test_another_spec_is_told_who_holds_the_output(ended: Ended) -> None:
    played, ends = ended("held")
    assert ends["codes"] == [0, 4], ends["said"]
    (entry,) = entries_of(played)
    assert f"run {entry['run_id']}, at work in process {ends['first']}" in ends["said"][1]
    assert rows_of(played) == list(range(40))


def test_who_was_given_up_is_told_who_has_published(ended: Ended) -> None:
    played, ends = ended("given up")
    assert ends["codes"] == [4, 0], ends["said"]
    (entry,) = entries_of(played)
    assert f"run {entry['run_id']} has published" in ends["said"][0]
    assert rows_of(played) == list(range(40))


def test_who_was_given_up_publishes_inputs_that_nobody_else_has(ended: Ended) -> None:
    played, ends = ended("other inputs")
    assert ends["codes"] == [0, 0], ends["said"]
    assert len(entries_of(played)) == 2
    assert rows_of(played) == list(range(60))


@pytest.mark.parametrize("moment", REPLACED)
def test_who_was_stopped_is_told_who_has_replaced_its_rows(ended: Ended, moment: str) -> None:
    played, ends = ended(moment)
    assert ends["codes"] == [0, 0], ends["said"]
    late, other = ends["reports"]
    assert (late["published"], late["version"]) == (True, 1)
    assert late["replaced_by"] == {"version": 2, "run_id": other["run_id"]}
    assert other["replaced_by"] is None
    said = f"version 1; run {other['run_id']} has published version 2 since"
    assert said in Path(late["report"]).read_text()
    assert said in told_version(late)
    assert late["manifest"]
    assert sorted(rows_of(played)) == [*range(20), *range(40, 60)]


@pytest.mark.parametrize("moment", TABLES)
def test_a_table_has_each_run_in_one_transaction(ended: Ended, moment: str) -> None:
    """Who was stopped had looked at the table before the other committed to it."""
    played, ends = ended(moment)
    assert ends["codes"] == [0, 0], ends["said"]
    runs = len(entries_of(played))
    assert runs == (2 if "other" in TABLES[moment] else 1)
    table = DeltaTable(played["first"]["sink"]["path"])
    assert sorted(pa.table(table.scan())["id"].to_pylist()) == list(range(20 + 20 * runs))
    assert table.version() == runs  # the first made it, without rows
