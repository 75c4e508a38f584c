"""What each stage did, and where the time of its workers and replicas went, as tables."""

from typing import Any

from tasks.reporting.redaction import cell, table

SHOWN_REPLICAS = 32


def stages_table(report: dict[str, Any]) -> str:
    """What each stage did, and what became of its workers' time."""
    lines = []
    for stage, figures in report["stages"].items():
        counts = [f"{figures[name]:,}" for name in ("rows", "rejected", "filtered")]
        workers = "-" if figures.get("workers") is None else f"{figures['workers']:.3g}"
        spent = [seconds_cell(figures.get(name)) for name in ("waiting", "blocked")]
        lines.append(
            [
                cell(stage),
                *counts,
                f"{figures['seconds']:.1f} s",
                share_cell(figures),
                workers,
                *spent,
            ]
        )
    header = ["stage", "rows", "set aside", "filtered", "busy", "share of steady time"]
    return table([*header, "workers", "waiting", "blocked"], lines)


def share_cell(figures: dict[str, Any]) -> str:
    """How much of their time a stage's workers were busy."""
    return "-" if figures["share"] is None else f"{figures['share'] * 100:.0f} %"


def seconds_cell(seconds: float | None) -> str:
    """Seconds, where somebody has measured them."""
    return "-" if seconds is None else f"{seconds:.1f} s"


def replicas_table(report: dict[str, Any]) -> str:
    """What became of each replica's time; nothing where there was one, or nobody looked."""
    found = report["stages"]["infer"].get("replicas") or []
    if len(found) < 2:
        return ""
    names = ("busy", "waiting", "blocked")
    lines = [
        [str(number), *(f"{each[name]:.1f} s" for name in names)]
        for number, each in enumerate(found[:SHOWN_REPLICAS], 1)
    ]
    if len(found) > SHOWN_REPLICAS:
        lines.append([f"and {len(found) - SHOWN_REPLICAS:,} more", "", "", ""])
    return table(["replica", *names], lines)
