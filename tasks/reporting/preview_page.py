"""A preview as Markdown and as figures: rows, speed, and what a whole run would take."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tasks.counted import counted
from tasks.publishing.rejections import error_lines
from tasks.python_rows import python_rows
from tasks.ray_job.counts import STAGES
from tasks.record_coverage import count_rows
from tasks.reporting.batches_seen import rows_in, steady
from tasks.reporting.estimate import Estimate
from tasks.reporting.evidence import Evidence
from tasks.reporting.figures import busy_seconds, stage_rows
from tasks.reporting.full_run import FullRun
from tasks.reporting.numbers import duration, size_of, with_range
from tasks.reporting.page import joined, pairs, rejections_part, section
from tasks.reporting.redaction import cell, scrub, table
from tasks.reporting.samples import SAMPLE_ROWS, sample_table, shorten, shown_columns
from tasks.spec import BatchInferenceSpec

SHOWN_ROWS = 64
"""On the page: an image takes some kilobytes, and Prefect's server and a browser hold them all."""


@dataclass(frozen=True)
class Preview:
    """What a preview found."""

    evidence: Evidence
    rows: pa.Table | None
    """Inputs beside predictions, in the inputs' order."""
    measured: str
    """Where speed and estimate were."""
    whole: FullRun
    estimate: Estimate | None
    small_files: str | None = None
    """What to know of a run's files, where they would be many and small."""

    @property
    def spec(self) -> BatchInferenceSpec:
        """What was run."""
        return self.evidence.planned.spec

    @property
    def sample(self) -> list[dict[str, str]]:
        """Some rows with their values in a few characters."""
        if self.rows is None:
            return []
        names = shown_columns(self.evidence.planned, self.rows.column_names)
        rows = python_rows(self.rows.slice(0, SAMPLE_ROWS))
        return [{name: scrub(shorten(row[name]), self.spec) for name in names} for row in rows]

    @property
    def not_shown(self) -> list[str]:
        """Columns that the sample leaves out, as there are too many."""
        names = [] if self.rows is None else self.rows.column_names
        shown = shown_columns(self.evidence.planned, names)
        return [name for name in names if name not in shown]

    @property
    def speeds(self) -> dict[str, float | None]:
        """Rows that one worker of each stage does in a second; None where it has nothing to do."""
        records = self.evidence.accepted.records
        some = steady(records)
        share = sum(map(rows_in, some)) / (sum(map(rows_in, records)) or 1)
        busy = {stage: busy_seconds(some, stage) for stage in STAGES}
        return {
            stage: self.rows_of[stage] * share / seconds
            if seconds and self.rows_of[stage]
            else None
            for stage, seconds in busy.items()
        }

    @property
    def rows_of(self) -> dict[str, int]:
        """Rows that came to each stage."""
        return {stage: each["rows"] for stage, each in stage_rows(self.evidence).items()}

    @property
    def reckoned(self) -> Estimate | None:
        """The estimate; None where the model had no row, so that nobody knows what one takes."""
        return self.estimate if self.rows_of["infer"] else None

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "state": "previewed",
            "published": False,
            "rows": count_rows(self.evidence.accepted),
            "measured": self.measured,
            "rows_per_second": self.speeds,
            "source": {
                "inputs": self.whole.inputs,
                "bytes": self.whole.size,
                "rows": self.whole.rows,
                "rows_are_known": self.whole.rows_are_known,
            },
            "estimate": self.reckoned.as_json() if self.reckoned else None,
            "small_files": self.small_files,
            "sample": self.sample,
            "columns_not_shown": self.not_shown,
            "set_aside": [scrub(line, self.spec) for line in error_lines(self.evidence.rejections)],
        }


def preview_page(preview: Preview) -> str:
    """The page of a preview."""
    planned = preview.evidence.planned
    rows = count_rows(preview.evidence.accepted)
    return joined(
        f"# {planned.spec.name}: {counted(rows['read'], 'row')}, nothing published",
        section("Inputs and predictions", *rows_part(preview)),
        section("Rows set aside", rejections_part(preview.evidence)),
        section("Speed", speed_table(preview)),
        section("A whole run", whole_table(preview), estimate_part(preview)),
    )


def rows_part(preview: Preview) -> tuple[str, ...]:
    """The first rows, and how many more there are; nothing where there are none."""
    if preview.rows is None:
        return ()
    left = preview.rows.num_rows - SHOWN_ROWS
    shown = sample_table(preview.evidence.planned, preview.rows.slice(0, SHOWN_ROWS))
    columns = f"<p>Columns not shown: {cell(', '.join(preview.not_shown))}</p>"
    more = f"and {left:,} more" if left > 0 else ""
    return (shown, more, columns if preview.not_shown else "")


def speed_table(preview: Preview) -> str:
    """Rows a second of each stage."""
    lines = [
        [cell(stage), "nothing to do" if speed is None else f"{speed:,.1f}"]
        for stage, speed in preview.speeds.items()
    ]
    return table(["stage", "rows a second, one worker"], lines)


def whole_table(preview: Preview) -> str:
    """What lies at the source, and in how many files it would come out where these were small."""
    whole, files = preview.whole, preview.small_files
    rows = "known only when they are read" if whole.rows is None else f"{whole.rows:,}"
    if whole.rows is not None and not whole.rows_are_known:
        rows = f"about {rows}, from the sizes of all inputs and a look at some"
    of_files = {"files": files} if files else {}
    return pairs(
        {"inputs": f"{whole.inputs:,}", "size": size_of(whole.size), "rows": rows, **of_files}
    )


def estimate_part(preview: Preview) -> str:
    """What a whole run would take, and how sure that is."""
    if preview.reckoned is None:
        return ""
    has_gpu_price = preview.spec.cost.per_gpu_hour is not None
    lines = estimate_lines(preview.reckoned, has_gpu_price=has_gpu_price)
    return pairs({**dict(lines), "measured": preview.measured})


def estimate_lines(estimate: Estimate, *, has_gpu_price: bool) -> list[tuple[str, str]]:
    """The estimate in words.

    Args:
        estimate: what was reckoned.
        has_gpu_price: whether the spec names one.
    """
    low, high = estimate.seconds_range
    all_rows = "all rows" if estimate.is_total else "each million rows"
    if estimate.more_rows:
        lines = [("of", all_rows), ("time", f"less than {duration(estimate.seconds)}")]
    else:
        time = with_range(duration(estimate.seconds), duration(low), duration(high))
        lines = [("of", all_rows), ("time", time)]
    if estimate.cost is not None and estimate.cost_range is not None:
        least, most = estimate.cost_range
        cost = f"{estimate.cost:,.2f}"
        between = with_range(cost, f"{least:,.2f}", f"{most:,.2f}")
        lines.append(("cost", f"less than {cost}" if estimate.more_rows else between))
    elif has_gpu_price:
        why = "resources.num_gpus is auto, and its GPUs are not here"
        lines.append(("cost", f"known only where a run would go: {why}"))
    return [*lines, ("based on", basis_of(estimate))]


def basis_of(estimate: Estimate) -> str:
    """What an estimate was made of, in words."""
    workers = "worker" if estimate.workers == 1 else "workers"
    limits = f"{estimate.stage} limits it, with {estimate.workers} {workers}"
    if estimate.more_rows:
        return f"{limits}; {too_quick(estimate.more_rows)}. Start-up is not included"
    return (
        f"{limits}; the range is that of the "
        f"fastest and the slowest of {estimate.batches} small batches. Start-up is not included; "
        "a run's larger batches are usually faster"
    )


def too_quick(more_rows: int) -> str:
    """That rows are so quick that few of them tell little, and the way out."""
    return (
        f"most of that may be what a small batch takes by itself: a preview of {more_rows} rows "
        "(--rows) tells more"
    )
