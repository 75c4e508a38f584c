"""Reports of runs, and what else the command line says, as a person at a terminal reads them."""

from typing import Any

from rich.console import Console

from flows.console import escape
from tasks.counted import counted
from tasks.protocol.cleanup import Orphan
from tasks.reporting.file_sizes import told_files
from tasks.reporting.numbers import write_number
from tasks.reporting.verdict import sentence
from tasks.reporting.versions import told_version


def print_report(
    console: Console, report: dict[str, Any], skipped: str = "published before"
) -> None:
    """What was set aside, and the figures, a line each.

    Args:
        console: where to.
        report: as the flow returns it.
        skipped: why inputs were.
    """
    rows = report["rows"]
    if not report["published"]:
        inputs = counted(report["inputs_skipped"], "input")
        line = f"nothing to do at {escape(report['output'])}: {inputs} {skipped}"
        console.print(line, soft_wrap=True, highlight=False)
        return
    for line in report["set_aside"]:
        console.print(escape(line), soft_wrap=True, highlight=False)
    accuracy, speed = report["accuracy"], report["rows_per_second"]
    for name, value in {
        "rows read": rows_told(rows, "read"),
        "written": rows_told(rows, "written"),
        **superseded_line(rows),
        "set aside": rows_told(rows, "rejected"),
        "filtered": rows_told(rows, "filtered"),
        "skipped": f"{counted(report['inputs_skipped'], 'input')}, {skipped}",
        **lines_of_earlier_work(report),
        "seconds": seconds_told(report["seconds"]),
        "rows/s": "-" if speed is None else write_number(speed),
        "bottleneck": sentence(report["bottleneck"]) if report["bottleneck"] else "-",
        **runtime_line(report),
        **({} if accuracy is None else {"accuracy": f"{accuracy * 100:.2f} %"}),
        **gates_line(report),
        **({} if report["cost"] is None else {"cost": write_number(report["cost"])}),
        **({"files": told_files(report["file_sizes"])} if report["file_sizes"] else {}),
        "output": f"{report['output']} ({told_version(report)})",
        "report": report["report"] or "-",
        **({"profile": report["profile"]} if report["profile"] else {}),
        **({"scheduled": report["scheduled_time"]} if report["scheduled_time"] else {}),
        "Prefect run": f"{report['flow_run_id']}, as `prefect flow-run inspect` or the UI of "
        "`prefect server start` show it",
    }.items():
        # A path that is cut or broken cannot be followed.
        console.print(f"{name:13}{escape(value)}", soft_wrap=True, highlight=False)


def rows_told(rows: dict[str, int], outcome: str) -> str:
    """How many rows had an outcome, where the storage could still say so."""
    return f"{rows[outcome]:,}" if outcome in rows else "-"


def seconds_told(seconds: dict[str, float | None]) -> str:
    """How long the run took, and what came before and after it, where that was measured."""
    outside = seconds.get("prefect")
    beside = "" if outside is None else f", and {outside:.1f} for Prefect and its server to start"
    return f"{seconds['total']:.1f}{beside}"


def superseded_line(rows: dict[str, int]) -> dict[str, str]:
    """Rows of the run that are not published since it has newer ones of their keys."""
    superseded = rows.get("superseded")
    return {"superseded": f"{superseded:,}, by newer rows with the same keys"} if superseded else {}


def lines_of_earlier_work(report: dict[str, Any]) -> dict[str, str]:
    """What of the rows this call has not done, or did twice: without it seconds would not fit."""
    resumed, redone, attempts = (
        report[name] for name in ("resumed_rows", "redone_rows", "attempts")
    )
    why = "predicted again: lost, changed or set aside"
    return {
        **({"resumed": f"{counted(resumed, 'row')}, done before this call"} if resumed else {}),
        **({"redone": f"{counted(redone, 'row')}, {why}"} if redone else {}),
        **({"attempts": f"{attempts:,}"} if attempts > 1 else {}),
    }


def runtime_line(report: dict[str, Any]) -> dict[str, str]:
    """Why the model did not run as the spec asks, where it did not."""
    problems = [
        f"eager instead of {each['asked']}: {each['problem']}"
        for each in report["runtimes"]
        if each["problem"]
    ]
    return {"runtime": "; ".join(problems)} if problems else {}


def gates_line(report: dict[str, Any]) -> dict[str, str]:
    """What the gates said, where there are any."""
    gates, accepted = report["gates"], report["accepted"]
    if not gates:
        return {}
    if not accepted:
        return {"gates": f"{len(gates)} passed"}
    failed = f"{len(accepted['failed'])} of {len(gates)} failed"
    return {"gates": f"{failed}, published because {accepted['by']} accepted it"}


def left_by(report: dict[str, Any]) -> str:
    """What a redrive has left to the next run."""
    changed = report["inputs_skipped"]
    if not changed:
        return ""
    return (
        f"; the rows of {counted(changed, 'input')} changed or gone since are left: the next run "
        "predicts those that have changed, except what a table's compaction moved to other files, "
        "which needs --replace-output"
    )


def print_output_status(console: Console, status: dict[str, Any]) -> None:
    """What is published, who is at work, and what was begun and is neither, a line each."""
    if status["rows_set_aside"]:
        again = "`batch-inference redrive SPEC` runs them again"
        status = {**status, "rows_set_aside": f"{status['rows_set_aside']}; {again}"}
    told: dict[str, list[Any]] = {
        **{
            name: [] if value is None else [value]
            for name, value in status.items()
            if not isinstance(value, list)
        },
        "jobs": [f"attempt {each['attempt']} of run {each['run_id']}" for each in status["jobs"]],
        "runs": [f"run {each['run_id']}, in {each['at_work_in']}" for each in status["runs"]],
        "unfinished": [
            f"run {each['run_id']}, {each['report'] or 'which left no report'}"
            for each in status["unfinished"]
        ],
    }
    for name, lines in told.items():
        for line in lines or ["none"]:
            # A path that is cut or broken cannot be followed.
            console.print(f"{name:15} {escape(str(line))}", soft_wrap=True, highlight=False)


def print_periods(console: Console, report: dict[str, Any]) -> None:
    """What a backfill has done with each period."""
    for each in report["periods"]:
        line = f"{each['period']:23} {escape(each['told'])}: {escape(each['output'])}"
        console.print(line, soft_wrap=True, highlight=False)


def print_check(console: Console, name: str, style: str, mark: str, found: str) -> None:
    """A line of the table; a long one is neither cut nor broken, so that it can be searched."""
    console.print(f"{name:9}[{style}]{mark:7}[/]{escape(found)}", soft_wrap=True, highlight=False)


def print_orphans(console: Console, output: str, orphans: list[Orphan], *, deleted: bool) -> None:
    """What nobody needs, a line each, and how much it is."""
    for each in orphans:
        line = f"{each.size:>14,} bytes  {each.seconds / 86400:6.1f} days  {escape(each.path)}"
        console.print(f"{line}  {escape(each.why)}", soft_wrap=True, highlight=False)
    if not orphans:
        console.print(f"no orphans at {escape(output)}, nothing to delete", soft_wrap=True)
        return
    size = sum(each.size for each in orphans)
    done = "deleted" if deleted else "to delete with --delete"
    console.print(f"{counted(len(orphans), 'orphan')}, {size:,} bytes, {done}")
