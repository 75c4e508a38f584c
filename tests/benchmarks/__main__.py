"""Measures what the README claims: `make bench` for all, `make bench ROW=memory` for one."""

import os
import platform
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.benchmarks import (
    following,
    incremental,
    judging,
    memory,
    orchestration,
    planning,
    publishing,
    searching,
    shared_weights,
)

ROWS: dict[str, Callable[[Path], list[str]]] = {
    "orchestration": orchestration.measure,
    "memory": memory.measure,
    "planning": planning.measure,
    "incremental": incremental.measure,
    "publishing": publishing.measure,
    "following": following.measure,
    "judging": judging.measure,
    "search": searching.measure,
    "shared_weights": shared_weights.measure,
}
RESULTS = Path(__file__).parent / "RESULTS.md"


def main(names: list[str]) -> None:
    """Run rows and put their figures into RESULTS.md, each under its own heading."""
    for name in names or list(ROWS):
        with tempfile.TemporaryDirectory(prefix=f"bench-{name}-") as folder:
            lines = ROWS[name](Path(folder))
        print("\n".join(lines), flush=True)
        save(name, lines)


def save(name: str, lines: list[str]) -> None:
    """Replace one section of RESULTS.md."""
    sections = read_sections()
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    sections[name] = [f"{datetime.now(UTC):%Y-%m-%d}, {machine}.", "", *lines]
    text = "# Results\n\nPrinted by `make bench`; compare ratios, the machines are noisy.\n"
    for title, body in sorted(sections.items()):
        text += f"\n## {title}\n\n" + "\n".join(body).strip() + "\n"
    RESULTS.write_text(text)


def read_sections() -> dict[str, list[str]]:
    """What earlier runs measured, by heading."""
    sections: dict[str, list[str]] = {}
    if not RESULTS.exists():
        return sections
    for block in RESULTS.read_text().split("\n## ")[1:]:
        title, _, body = block.partition("\n")
        sections[title.strip()] = body.strip().splitlines()
    return sections


if __name__ == "__main__":
    main(sys.argv[1:])
