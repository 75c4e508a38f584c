"""What a backfill did with each period."""

from dataclasses import asdict, dataclass, field

from tasks.counted import counted
from tasks.reporting.redaction import cell, hide_credentials, table


@dataclass(frozen=True)
class Outcome:
    """What was done with one output."""

    period: str
    output: str
    what: str = ""
    """replaced | published | up to date | no data; nothing before it is done"""
    is_outdated: bool = False
    """Whether another model or config had made it."""
    is_accepted: bool = False
    """Whether some rows of it came out the same under the present one, which counts as that now."""
    version: int | None = None
    run_id: str | None = None
    rows: dict[str, int] = field(default_factory=dict)
    resumed_rows: int = 0
    """Of the source, done before this call, and not published then; those filtered among them."""
    inputs_skipped: int = 0
    """Published before, by the same model and config."""
    inputs_dropped: int = 0
    """Gone from the source, and from the new version."""
    without_data: list[str] = field(default_factory=list)
    """Periods that hold no input."""

    def as_json(self) -> dict[str, object]:
        """As plain values."""
        return {**asdict(self), "told": self.line}

    @property
    def line(self) -> str:
        """What was done, for a person."""
        parts = [self.what]
        if self.is_accepted:
            parts.append("what was there comes out the same and stays")
        if self.what == "no data" and self.is_outdated:
            parts.append(f"version {self.version} of another model or config stays")
        if self.rows:
            parts.append(f"{counted(self.rows['written'], 'row')} written")
        if self.resumed_rows:
            parts.append(f"{counted(self.resumed_rows, 'row')} resumed")
        if self.inputs_skipped:
            parts.append(f"{counted(self.inputs_skipped, 'input')} skipped")
        if self.inputs_dropped:
            parts.append(f"{counted(self.inputs_dropped, 'input')} gone")
        if self.without_data and self.what != "no data":
            parts.append(f"no data at {', '.join(self.without_data)}")
        return ", ".join(parts)


def outcome_table(outcomes: list[Outcome]) -> str:
    """One line an output."""
    rows = [
        [cell(each.period), cell(each.line), cell(hide_credentials(each.output))]
        for each in outcomes
    ]
    return table(["period", "what was done", "output"], rows)
