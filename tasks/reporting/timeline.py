"""Draws when each stage was at work, attempt by attempt, as an SVG image."""

import math
from dataclasses import dataclass
from typing import Any

from tasks.counted import counted
from tasks.ray_job.counts import STAGES
from tasks.reporting.drawing import as_image, as_svg, line, round_step, text
from tasks.reporting.evidence import PastAttempt

COLOURS = {"read": "#4c78a8", "preprocess": "#72b7b2", "infer": "#f58518", "write": "#54a24b"}
FAILED = "#d62728"
WIDTH, LEFT, RIGHT, ROW, TITLE, TOP = 860, 100, 170, 26, 30, 10
SHOWN_ATTEMPTS = 5
TICKS = 5


@dataclass(frozen=True)
class Scale:
    """Seconds as pixels."""

    seconds: float

    def at(self, seconds: float) -> float:
        """The pixel of a moment."""
        return LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, max(0.0, seconds / self.seconds))


def timeline_image(attempts: list[PastAttempt]) -> str:
    """The timeline as an HTML image; empty where no attempt has begun."""
    shown = [each for each in attempts if each.stages and each.started][-SHOWN_ATTEMPTS:]
    if not shown:
        return ""
    return as_image("timeline of the stages", timeline_svg(shown))


def timeline_svg(attempts: list[PastAttempt]) -> str:
    """One group of bars an attempt; all begin at the left, on one scale."""
    scale = Scale(max(max(each.seconds for each in attempts), 1e-3))
    parts: list[str] = []
    top = TOP
    for attempt in attempts:
        parts.append(text(LEFT, top + 18, attempt_title(attempt), weight="bold"))
        top += TITLE
        for stage in shown_stages(attempt):
            parts += bar(attempt, stage, top, scale)
            top += ROW
    parts += axis(scale, top)
    return as_svg(WIDTH, top + 32, 13, parts)


def shown_stages(attempt: PastAttempt) -> list[str]:
    """The stages of the attempt's job, and those that it went through besides."""
    return [s for s in STAGES if s in attempt.job_stages or attempt.stages[s]["started"]]


def attempt_title(attempt: PastAttempt) -> str:
    """An attempt and how it ended."""
    part = "" if attempt.job_stages == STAGES else f" of {' and '.join(attempt.job_stages)}"
    name = f"attempt {attempt.number}{part}"
    if attempt.error:
        return f"{name}: {attempt.error.get('class', 'failed')}"
    return name + ("" if attempt.has_ended else ": left no result")


def bar(attempt: PastAttempt, stage: str, top: int, scale: Scale) -> list[str]:
    """A stage's bar, its name before it and its counts after it."""
    count: dict[str, Any] = attempt.stages[stage]
    label = text(LEFT - 10, top + 17, stage, anchor="end")
    if not count["started"]:
        return [label, text(LEFT + 4, top + 17, idle(attempt, stage), fill="#888888")]
    origin = attempt.started or 0.0
    begin, end = scale.at(count["started"] - origin), scale.at(count["updated"] - origin)
    colour = FAILED if is_guilty(attempt, stage) else COLOURS[stage]
    width = max(2.0, end - begin)
    seconds = count["updated"] - count["started"]
    return [
        label,
        f'<rect x="{begin:.1f}" y="{top + 3}" width="{width:.1f}" height="{ROW - 8}" rx="3" '
        f'fill="{colour}"/>',
        text(begin + width + 6, top + 17, f"{counted(count['rows'], 'row')}, {seconds:.1f} s"),
    ]


def is_guilty(attempt: PastAttempt, stage: str) -> bool:
    """Whether it was this stage that failed."""
    return attempt.error is not None and attempt.error.get("stage") == stage


def idle(attempt: PastAttempt, stage: str) -> str:
    """Why a stage has no bar."""
    if is_guilty(attempt, stage):
        return "failed on its first rows"
    return "nothing to do" if attempt.stages[stage]["state"] == "done" else "no rows yet"


def axis(scale: Scale, top: int) -> list[str]:
    """Seconds since the attempt began, at round numbers."""
    parts = [line(LEFT, top, WIDTH - RIGHT, top)]
    step = round_step(scale.seconds / TICKS)
    for tick in range(math.floor(scale.seconds / step) + 1):
        x = scale.at(tick * step)
        parts.append(line(x, top, x, top + 5))
        parts.append(text(x, top + 20, f"{tick * step:g} s", anchor="middle", fill="#555555"))
    return parts
