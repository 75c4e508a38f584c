"""What came of predicting published rows again: for the terminal, for programs and as a page."""

from dataclasses import dataclass
from typing import Any

from tasks.counted import counted
from tasks.errors import PredictionsDiffer
from tasks.publishing.rejections import Rejections, load_rejections
from tasks.reporting.page import joined, pairs, section
from tasks.reporting.redaction import cell, lines_block, scrub, table
from tasks.reporting.samples import shorten
from tasks.verifying.accepting import Configs
from tasks.verifying.comparing import (
    SET_ASIDE,
    Compared,
    Difference,
    Outcomes,
    compare,
    without_superseded,
)
from tasks.verifying.published_keys import PublishedKeys
from tasks.verifying.sample import Sample

SHOWN = 20
"""Differences that are shown one by one."""


@dataclass(frozen=True)
class Outcome:
    """Published rows beside the same rows as they come out now."""

    sample: Sample
    configs: Configs
    compared: Compared
    rejections: Rejections
    """Rows that are set aside now, also such as were."""
    unread: int = 0
    """Rows that are not compared, since others have changed the files they were published in."""
    changed_files: tuple[str, ...] = ()
    """What is said of each such file."""
    is_where_runs_go: bool = False
    """Whether the rows were predicted there."""
    is_accepted: bool = False
    """Whether runs go on under this config from now on, which they would not before."""

    @property
    def is_same(self) -> bool:
        """Whether every row came out as it is published."""
        return not self.compared.differences

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        columns = self.compared.columns_that_differ
        names = [name for name in columns if name is not None]
        return {
            "state": "verified",
            "published": False,
            "same": self.is_same,
            "rows": {
                "published": sum(file.rows for file in self.sample.seen.files.values()),
                "compared": self.compared.rows,
                "differ": len(self.compared.rows_that_differ),
            },
            "inputs_changed_or_gone": len(self.sample.changed),
            "rows_in_changed_files": self.unread,
            "changed_files": [self.shown(each) for each in self.changed_files[:SHOWN]],
            "tolerance": self.compared.tolerance,
            "columns": {
                name: {
                    "differ": len(columns.get(name, ())),
                    "largest_difference": self.compared.largest.get(name),
                }
                for name in dict.fromkeys([*names, *self.compared.largest])
            },
            "differences": [self.told(each) for each in self.compared.differences[:SHOWN]],
            "set_aside": [
                self.shown(f"{count:,} set aside by {stage}: {kind}: {first[0]['error_message']}")
                for (stage, kind), count, first in self.rejections.kinds
                if any(each.now == SET_ASIDE for each in self.compared.differences)
            ],
            "version": self.sample.seen.version,
            "output": self.shown(self.sample.spec.sink.path),
            "config": {
                "version": self.configs.other,
                "differs": self.configs.differs,
                "not_to_be_accepted": self.why_not,
            },
            "accepted": self.is_accepted,
        }

    def told(self, difference: Difference) -> dict[str, Any]:
        """A difference as texts."""
        path, row = self.sample.place_of(difference.row)
        column = difference.column or "what becomes of it"
        return {
            "input": self.shown(path),
            "row": row,
            "column": column,
            "was": self.shown(shorten(difference.was)),
            "now": self.shown(shorten(difference.now)),
        }

    def shown(self, text: str) -> str:
        """A text without what nobody is to see."""
        return scrub(text, self.sample.spec)

    @property
    def why_not(self) -> str:
        """Why runs may not go on under this config, though rows come out the same."""
        return self.configs.why_not(is_where_runs_go=self.is_where_runs_go)

    def refuse_differences(self) -> None:
        """End the flow where rows come out otherwise.

        Raises:
            PredictionsDiffer: says how many, in which columns, the first of each, and the ways out.
        """
        if self.is_same:
            return
        found = self.compared
        lines = [self.line(each) for each in found.columns_that_differ.values()]
        lines += self.as_json()["set_aside"]
        many = counted(found.rows, "row")
        # The same config, as by a library's new release, brings a backfill nothing to do.
        again = "backfill SPEC" if self.configs.other else "run SPEC --replace-output"
        raise PredictionsDiffer(
            f"{len(found.rows_that_differ):,} of {many} come out differently than published, "
            f"beyond a tolerance of {found.tolerance:g}: {'; '.join(lines)}. Undo what has "
            f"changed, or run `batch-inference {again}` to predict every input again"
        )

    def line(self, differences: list[Difference]) -> str:
        """The differences of a column, in a line."""
        first = self.told(differences[0])
        where = f"{first['input']}, row {first['row']}"
        values = f"was {first['was']}, is {first['now']}"
        largest = self.compared.largest.get(differences[0].column or "")
        most = f", by up to {largest:.3g}" if largest else ""
        return f"{first['column']} in {counted(len(differences), 'row')}{most} ({where}: {values})"

    def page(self) -> str:
        """As Markdown."""
        told = self.as_json()
        rows, name = told["rows"], self.sample.spec.name
        title = "come out as they are published"
        if not self.is_same:
            title = f"{rows['differ']:,} come out differently"
        config = "; ".join(self.configs.differs) or "the one that published"
        figures = {
            "input rows compared": f"{rows['compared']:,}",
            "rows published": f"{rows['published']:,}",
            "rows passed over": f"{self.unread:,}, whose files others have changed",
            "inputs passed over": f"{told['inputs_changed_or_gone']:,}, changed or gone",
            "tolerance": f"{told['tolerance']:g}",
            "config": config,
            "accepted": "runs go on under this config" if self.is_accepted else "no",
        }
        differences = [
            [cell(each[column]) for column in ("input", "row", "column", "was", "now")]
            for each in told["differences"]
        ]
        columns = [
            [cell(column), cell(each["differ"]), f"{each['largest_difference'] or 0:.3g}"]
            for column, each in told["columns"].items()
        ]
        heads = ["input", "row", "column", "published", "now"]
        return joined(
            f"# {name}: {counted(rows['compared'], 'row')}, {title}",
            pairs(figures),
            section("Columns", table(["column", "rows that differ", "largest"], columns))
            if columns
            else "",
            section("Differences", table(heads, differences)) if differences else "",
            section("Set aside now", lines_block(told["set_aside"])),
            section("Files passed over", lines_block(told["changed_files"])),
        )


def outcome_of(
    sample: Sample, configs: Configs, tolerance: float, *, is_where_runs_go: bool
) -> Outcome:
    """Compare what a sample's run has left with what is published.

    Args:
        sample: its run has ended well.
        configs: the one that it went by, and those that have published.
        tolerance: as `compare` takes it.
        is_where_runs_go: whether its run went where a run would.

    Raises:
        InvalidSpec: the published files are gone, or hold other rows.
        StaleLedger: somebody has published meanwhile.
    """
    planned, sink = sample.planned, sample.spec.sink
    was = sample.as_published()
    now = sample.as_predicted().without(was.unread)
    if sink.row_key:
        keys = PublishedKeys(sample)
        rows = without_superseded(was.rows, now.rows, sink.row_key, keys.are_published)
        now = Outcomes(rows, now.aside)
    chosen = [row for row in sample.chosen if row not in was.unread]
    compared = compare(chosen, was, now, sink.partition_by, tolerance)
    return Outcome(
        sample=sample,
        configs=configs,
        compared=compared,
        rejections=load_rejections(planned, planned.accepted()),
        unread=len(was.unread),
        changed_files=was.changed_files,
        is_where_runs_go=is_where_runs_go,
    )
