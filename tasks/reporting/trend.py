"""Draws accuracy, rows a second and cost over the last runs of an output, as an SVG image."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from tasks.reporting.drawing import as_image, as_svg, line, text
from tasks.reporting.numbers import write_number
from tasks.reporting.past_runs import Figures, PastRun
from tasks.reporting.redaction import table

WIDTH, LEFT, RIGHT, TOP, TITLE, PANEL, GAP, BOTTOM = 640, 70, 80, 8, 22, 70, 14, 46
RADIUS = 4.0
REPLACED = "#bbbbbb"
HEADROOM = 0.1
"""Share of what a panel shows that stays free above and below."""
LEAST_SPAN = 0.02
"""Of accuracies, so that a difference of nothing does not fill a panel."""


@dataclass(frozen=True)
class Measure:
    """A figure that runs are compared by."""

    name: str
    title: str
    colour: str
    write: Callable[[float], str]
    from_zero: bool = True

    def of(self, figures: Figures) -> float | None:
        """A run's value."""
        value: float | None = getattr(figures, self.name)
        return value

    def cell(self, figures: Figures) -> str:
        """A run's value as a table shows it."""
        value = self.of(figures)
        return "-" if value is None else self.write(value)


def write_share(value: float) -> str:
    """A share in percent."""
    return f"{value * 100:.2f} %"


MEASURES = (
    Measure("accuracy", "accuracy", "#4c78a8", write_share, from_zero=False),
    Measure("rows_per_second", "rows/s, steady", "#f58518", write_number),
    Measure("cost", "cost", "#54a24b", write_number),
)


def trend_part(runs: list[PastRun]) -> tuple[str, str]:
    """A chart and a table of runs; both empty where there is nothing to compare with."""
    if len(runs) < 2:
        return "", ""
    return trend_image(runs), runs_table(runs)


def runs_table(runs: list[PastRun]) -> str:
    """One line a run, the newest first."""
    lines = [
        [
            str(run.version),
            published_at(run),
            kind_of(run),
            "-" if run.rows is None else f"{run.rows:,}",
            *(measure.cell(run.figures) for measure in MEASURES),
        ]
        for run in reversed(runs)
    ]
    header = ["version", "published", "", "rows", *(measure.title for measure in MEASURES)]
    return table(header, lines)


def published_at(run: PastRun) -> str:
    """When a run was published, to the minute."""
    if run.published_at is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(run.published_at))


def kind_of(run: PastRun) -> str:
    """What is special about a run."""
    kind = "redrive" if run.is_redrive else "all anew" if run.replaces else ""
    return ", ".join(filter(None, [kind, "replaced since" if run.is_replaced else ""]))


def trend_image(runs: list[PastRun]) -> str:
    """A panel for each measure that any run has; empty where none has one."""
    shown = [each for each in MEASURES if any(each.of(run.figures) is not None for run in runs)]
    return as_image("the last runs compared", trend_svg(runs, shown)) if shown else ""


def trend_svg(runs: list[PastRun], measures: list[Measure]) -> str:
    """The panels, one above the other, over one axis of versions."""
    parts: list[str] = []
    top = TOP
    for measure in measures:
        parts += panel(runs, measure, top)
        top += TITLE + PANEL + GAP
    parts += versions_axis(runs, top - GAP)
    return as_svg(WIDTH, top - GAP + BOTTOM, 12, parts)


def panel(runs: list[PastRun], measure: Measure, top: int) -> list[str]:
    """One measure over the runs; those that lack it leave a gap."""
    values = [measure.of(run.figures) for run in runs]
    low, high = bounds_of([each for each in values if each is not None], measure)
    bottom = top + TITLE + PANEL
    parts = [text(LEFT, top + 14, measure.title, weight="bold")]
    for bound, y in ((low, bottom), (high, bottom - PANEL)):
        parts.append(line(LEFT, y, WIDTH - RIGHT, y, stroke="#dddddd"))
        parts.append(text(LEFT - 6, y + 4, measure.write(bound), anchor="end", fill="#555555"))
    points = [
        None if value is None else (column(at, runs), bottom - PANEL * (value - low) / (high - low))
        for at, value in enumerate(values)
    ]
    parts += [trend_line(*pair, measure.colour) for pair in pairwise(points)]
    parts += [dot(point, run, measure) for point, run in zip(points, runs, strict=True) if point]
    if (last := points[-1]) and values[-1] is not None:
        parts.append(text(last[0] + 9, last[1] + 4, measure.write(values[-1]), weight="bold"))
    return parts


def bounds_of(values: list[float], measure: Measure) -> tuple[float, float]:
    """The least and the greatest value that a panel shows; never the same."""
    least, greatest = min(values), max(values)
    if measure.from_zero:
        return 0.0, greatest * (1 + HEADROOM) or 1.0
    middle, span = (least + greatest) / 2, max(greatest - least, LEAST_SPAN)
    half = span * (0.5 + HEADROOM)
    return max(0.0, middle - half), min(1.0, middle + half)


def column(at: int, runs: list[PastRun]) -> float:
    """The pixel of a run, counted from the oldest."""
    return LEFT + 16 + (WIDTH - LEFT - RIGHT - 32) * at / max(1, len(runs) - 1)


def trend_line(
    start: tuple[float, float] | None, end: tuple[float, float] | None, colour: str
) -> str:
    """From one run to the next, where both have a value."""
    return line(*start, *end, stroke=colour) if start and end else ""


def dot(point: tuple[float, float], run: PastRun, measure: Measure) -> str:
    """A run's value: hollow for a redrive, grey where a later run has replaced all of it."""
    colour = REPLACED if run.is_replaced else measure.colour
    fill = "#ffffff" if run.is_redrive else colour
    return (
        f'<circle cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="{RADIUS}" fill="{fill}" '
        f'stroke="{colour}" stroke-width="2"/>'
    )


def versions_axis(runs: list[PastRun], top: int) -> list[str]:
    """The versions below the panels, and what dots that differ stand for."""
    labels = [
        text(column(at, runs), top + 16, str(run.version), anchor="middle", fill="#555555")
        for at, run in enumerate(runs)
    ]
    said = ["version"]
    if any(run.is_redrive for run in runs):
        said.append("hollow: a redrive, of a few rows")
    if any(run.is_replaced for run in runs):
        said.append("grey: replaced since")
    return [*labels, text(LEFT, top + 34, "; ".join(said), fill="#555555")]
