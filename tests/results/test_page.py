"""The page of what is measured claims what the results say."""

import json
from pathlib import Path

from tests.results.proofs import simulation, soaked, table
from tests.soak.results import Result as Case
from tests.soak.results import Struck, keep

PAGE = Path(__file__).parents[2] / "docs/measured.md"


def test_the_page_has_the_table() -> None:
    assert table() in PAGE.read_text(), "`python -m tests.results` prints another table"


def test_a_lost_row_shows(tmp_path: Path) -> None:
    struck = [Struck("killed", "run killed", rows=10, lost=1, has_hit=True), Struck("race", "race")]
    keep(tmp_path / "soak.jsonl", Case(1, "inline", "a > b", struck, problems=["lost"]))
    keep(tmp_path / "soak.jsonl", Case(2, "cluster", "a > b", struck))
    proof = soaked(tmp_path, "inline")
    assert proof.line() == "| `python -m tests.soak --on inline` | killed: 1 | 2 | 10 | 1 | 0 | 1 |"


def test_a_violation_shows(tmp_path: Path) -> None:
    lines = [["trees", 1, None, 5, 3, {"crashes": 2}], ["trees", 2, "twice", 4, 3, {"crashes": 1}]]
    (tmp_path / "simulation.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    assert simulation(tmp_path).line() == "| `make simulate` | crashes: 3 | 9 |  | 0 | 0 | 1 |"
