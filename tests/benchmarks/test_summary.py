"""docs/measured.md's table of speeds says what RESULTS.md says."""

from pathlib import Path

from tests.benchmarks.summary import line, table

PAGE = Path(__file__).parents[2] / "docs/measured.md"
SECTION = """2026-11-23, 2 cores.

16,000 rows (whole), 3 alternating rounds. Ours with `cluster: inline`.

| what | ours | daft | ratio | target | |
| --- | --- | --- | --- | --- | --- |
| whole run, s | 60.9 | 62.8 | 1.03 (0.99 to 1.07) | ≥ 1 | inconclusive |
| steady, s | 53.5 | 54.4 | 0.52 (0.49 to 0.57) |  |  |
| private memory at most, MiB | 1,119.5 | 1,676.3 | 1.50 (1.22 to 1.89) |  |  |
"""


def test_the_page_has_the_table() -> None:
    assert table() in PAGE.read_text(), "`python -m tests.benchmarks.summary` prints another"


def test_a_loss_shows() -> None:
    assert line("daft", "daft_texts, inline", SECTION.splitlines()) == (
        "| Daft, one process | text embedding, 16,000 | `inline` | 0.52 (0.49 to 0.57) "
        '| 1.03 (0.99 to 1.07) | 1.50 | `"daft_texts --cluster inline"` |'
    )
