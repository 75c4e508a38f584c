"""What the gates said, with a chart of what was expected beside what was seen."""

import json
import time
from dataclasses import replace
from typing import Any

from tasks.kinds.gates.gate import Chart, written
from tasks.reporting.drawing import as_image, as_svg, text
from tasks.reporting.evidence import Evidence
from tasks.reporting.redaction import cell, scrub, table

WIDTH, LEFT, RIGHT, ROW, TOP = 640, 170, 70, 30, 34
EXPECTED, SEEN = "#9ecae9", "#f58518"
SHOWN_CHARACTERS = 22
SHOWN_BINS = 15


def gates_part(evidence: Evidence, accepted: dict[str, Any] | None = None) -> str:
    """Every gate of a run that was judged in a table, then the charts of those that have one.

    Args:
        evidence: of the run.
        accepted: on whose word it was published, if it was.
    """
    planned = evidence.planned
    judged = json.loads(planned.storage.read(planned.run.gates))
    lines = [
        [
            "passed" if each["passed"] else "<b>failed</b>",
            cell(each["gate"]),
            "-" if each["value"] is None else written(each["value"]),
            cell(each["limit"]),
            cell(each["note"]),
        ]
        for each in judged
    ]
    parts = [table(["", "gate", "value", "limit", ""], lines)]
    if accepted:
        at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(accepted["at"]))
        parts.insert(0, f"<p>Published because {cell(accepted['by'])} accepted it, {at}.</p>")
    parts += [
        as_image(each["gate"], chart_svg(each["gate"], Chart(**each["chart"])))
        for each in judged
        if each["chart"]
    ]
    return scrub("\n\n".join(parts), planned.spec)


def shortened(chart: Chart) -> Chart:
    """A chart with what comes after the first bins, the most frequent ones, in one."""
    if len(chart.bins) <= SHOWN_BINS:
        return chart
    few = SHOWN_BINS - 1
    return replace(
        chart,
        bins=[*chart.bins[:few], f"{len(chart.bins) - few} others"],
        expected=[*chart.expected[:few], sum(chart.expected[few:])],
        seen=[*chart.seen[:few], sum(chart.seen[few:])],
    )


def chart_svg(title: str, chart: Chart) -> str:
    """Two bars a bin: the share that was expected above the one that was seen."""
    chart = shortened(chart)
    largest = max(*chart.expected, *chart.seen, 1e-9)
    bottom = TOP + ROW * len(chart.bins)
    parts = [text(10, 20, title, weight="bold")]
    for at, name in enumerate(chart.bins):
        top = TOP + ROW * at
        short = name if len(name) <= SHOWN_CHARACTERS else name[: SHOWN_CHARACTERS - 1] + "…"
        parts.append(text(LEFT - 8, top + 17, short, anchor="end"))
        parts += bar(chart.expected[at], largest, top + 2, EXPECTED)
        parts += bar(chart.seen[at], largest, top + 14, SEEN)
    parts += legend(LEFT, bottom + 8, EXPECTED, chart.expected_name)
    parts += legend(LEFT + 200, bottom + 8, SEEN, chart.seen_name)
    return as_svg(WIDTH, bottom + 30, 12, parts)


def bar(share: float, largest: float, top: int, colour: str) -> list[str]:
    """A share as a bar with its percentage behind it."""
    width = (WIDTH - LEFT - RIGHT) * share / largest
    return [
        f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="11" fill="{colour}"/>',
        text(LEFT + width + 5, top + 10, f"{share * 100:.1f} %", fill="#555555"),
    ]


def legend(x: int, top: int, colour: str, words: str) -> list[str]:
    """What a colour stands for."""
    square = f'<rect x="{x}" y="{top}" width="11" height="11" fill="{colour}"/>'
    return [square, text(x + 17, top + 10, words)]
