"""Previews, comparisons and searches as a person at a terminal reads them."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from flows.console import escape
from tasks.counted import counted
from tasks.reporting.numbers import duration, with_range
from tasks.reporting.preview_page import too_quick
from tasks.reporting.samples import SHOWN_COLUMNS, ends_of, shorten
from tasks.reporting.search_page import CHANGED

WIDEST = 100_000


def print_preview(console: Console, found: dict[str, Any]) -> None:
    """Rows, what was set aside, speed and estimate."""
    if found["sample"]:
        print_table(console, table_of(found["sample"], narrow=console.is_terminal))
        more = found["rows"]["written"] - len(found["sample"])
        if more > 0:
            console.print(f"and {more:,} more", highlight=False)
    if hidden := found["columns_not_shown"]:
        console.print(escape(f"columns not shown: {', '.join(hidden)}"), soft_wrap=True)
    for line in found["set_aside"]:
        console.print(escape(line), highlight=False, soft_wrap=True)
    for name, value in preview_lines(found).items():
        console.print(f"{name:13}{escape(value)}", soft_wrap=True, highlight=False)


def table_of(rows: list[dict[str, str]], *, narrow: bool) -> Table:
    """Rows below each other; side by side where so many columns would be a letter wide each.

    Args:
        rows: what to show.
        narrow: whether the table has to be as wide as a terminal.
    """
    if narrow and len(rows[0]) > SHOWN_COLUMNS:
        shown = Table("row", *whole(str(at) for at in range(len(rows))))
        for name in rows[0]:
            shown.add_row(escape(name), *(escape(row[name]) for row in rows))
        return shown
    shown = Table(*whole(rows[0]), show_lines=False)
    for row in rows:
        shown.add_row(*(escape(value) for value in row.values()))
    return shown


def print_table(console: Console, table: Table) -> None:
    """A table as wide as a terminal; elsewhere, as for `grep`, as wide as its rows."""
    if not console.is_terminal:
        console.width = WIDEST
    console.print(table)


def preview_lines(found: dict[str, Any]) -> dict[str, str]:
    """The figures, a line each."""
    rows, source, estimate = found["rows"], found["source"], found["estimate"]
    speeds = {stage: speed for stage, speed in found["rows_per_second"].items() if speed}
    lines = {
        "rows": f"{rows['read']:,} read, {rows['written']:,} predicted, "
        f"{rows['rejected']:,} set aside, {rows['filtered']:,} filtered; nothing is published",
        "rows/s": ", ".join(f"{stage} {speed:,.1f}" for stage, speed in speeds.items()) or "-",
        "source": f"{counted(source['inputs'], 'input')}{rows_of(source)}",
    }
    if estimate:
        low, high = map(duration, estimate["seconds_range"])
        of = "all rows" if estimate["is_total"] else "a million rows"
        seconds, more = duration(estimate["seconds"]), estimate["more_rows"]
        time = f"less than {seconds}" if more else with_range(seconds, low, high)
        why = too_quick(more) if more else "from small batches, usually slower than a run's"
        lines["estimate"] = (
            f"{of} take {time}, without start-up; {estimate['stage']} limits it; {why}"
        )
    if estimate and estimate["cost"] is not None:
        (least, most), cost = estimate["cost_range"], f"{estimate['cost']:,.2f}"
        lines["cost"] = with_range(cost, f"{least:,.2f}", f"{most:,.2f}")
        if estimate["more_rows"]:
            lines["cost"] = f"less than {cost}"
    lines["measured"] = found["measured"]
    if found["small_files"]:
        lines["files"] = found["small_files"]
    if found["would_be_held_back"]:
        lines["held back"] = f"a run would be: {'; '.join(found['would_be_held_back'])}"
    return lines


def print_verified(console: Console, found: dict[str, Any]) -> None:
    """How many rows were compared, how far floats were off, and whether runs go on so."""
    rows, config = found["rows"], found["config"]
    lost = found["inputs_changed_or_gone"]
    left = f"; {counted(lost, 'input')} skipped, changed or gone since" if lost else ""
    if changed := found["rows_in_changed_files"]:
        left += f"; {counted(changed, 'row')} skipped, since others have changed their files"
    largest = {name: each["largest_difference"] for name, each in found["columns"].items()}
    told = ", ".join(f"{name} by up to {most:.3g}" for name, most in largest.items() if most)
    lines = {
        "rows": f"{counted(rows['compared'], 'input row')} come out as they are published"
        f"{left}; nothing is published",
        "floats": f"{told or 'equal'}; tolerance {found['tolerance']:g}",
        "config": "the one that published",
    }
    if config["version"] is not None:
        lines["config"] = (
            f"other than version {config['version']}'s: {'; '.join(config['differs'])}"
        )
        go_on = config["not_to_be_accepted"] or "--accept lets runs continue with it"
        lines["accepted"] = "yes: runs continue with it" if found["accepted"] else f"no: {go_on}"
    if found["changed_files"]:
        lines["passed over"] = "; ".join(found["changed_files"][:3])
    for name, value in lines.items():
        console.print(f"{name:13}{escape(value)}", soft_wrap=True, highlight=False)


def rows_of(source: dict[str, Any]) -> str:
    """How many rows there are, as far as that is known."""
    if source["rows"] is None:
        return ""
    return f", {'' if source['rows_are_known'] else 'about '}{counted(source['rows'], 'row')}"


def whole(names: Iterable[str]) -> list[Column]:
    """Columns whose values are broken where they are too long, and never cut."""
    return [Column(escape(name), overflow="fold") for name in names]


def print_matches(console: Console, found: dict[str, Any]) -> None:
    """Ranks, scores and rows of a search, and how much was searched."""
    matches = found["matches"]
    names = ends_of(list(matches[0]["row"]), SHOWN_COLUMNS) if matches else []
    if matches:
        shown = Table("", "score", *whole(names))
        for each in matches:
            values = (escape(shorten(each["row"][name])) for name in names)
            shown.add_row(str(each["rank"]), f"{each['score']:.4f}", *values)
        print_table(console, shown)
    rows, seconds = found["rows"], sum(found["seconds"].values())
    console.print(
        f"by {found['query_as']}: {len(matches)} of {counted(rows['searched'], 'row')}; without "
        f"a vector to compare: {rows['without_vector']:,}; {seconds:.1f} seconds"
    )
    if changed := found["files_changed_by_others"]:
        console.print(f"[yellow]{counted(changed, 'file')} {CHANGED}[/]")
