"""What came of predicting published rows again: for the terminal, for programs and as a page."""

from dataclasses import dataclass
from typing import Any

from tasks.counted import counted
from tasks.errors import PredictionsDiffer
from tasks.previewing import staged_with_ids
from tasks.publishing.rejections import Rejections, load_rejections
from tasks.reporting.page import joined, pairs, section
from tasks.reporting.redaction import cell, scrub, table
from tasks.reporting.samples import shorten
from tasks.verifying.accepting import Configs
from tasks.verifying.comparing import Compared, Difference, compare
from tasks.verifying.sample import ROW, Sample

SHOWN = 20
"""Differences that are shown one by one."""


@dataclass(frozen=True)
class Outcome:
    """Published rows beside the same rows as they come out now."""

    sample: Sample
    configs: Configs
    compared: Compared
    rejections: Rejections
    """Rows that are published, and are set aside now."""
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
                "inputs_changed_or_gone": self.sample.num_lost,
            },
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
            ],
            "version": self.sample.seen.version,
            "output": self.shown(self.sample.spec.sink.path),
            "config": {"version": self.configs.other, "differs": self.configs.differs},
            "accepted": self.is_accepted,
        }

    def told(self, difference: Difference) -> dict[str, Any]:
        """A difference as texts."""
        path, row = self.sample.places[difference.row]
        column = difference.column or "rows that became of it"
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
        many = counted(found.rows, "published row")
        raise PredictionsDiffer(
            f"{len(found.rows_that_differ):,} of {many} come out otherwise now, beyond a tolerance "
            f"of {found.tolerance:g}: {'; '.join(lines)}. Put back what has changed, or "
            "`batch-inference backfill SPEC` predicts every input again"
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
            title = f"{rows['differ']:,} come out otherwise"
        config = "; ".join(self.configs.differs) or "the one that has published"
        figures = {
            "rows compared": f"{rows['compared']:,} of {rows['published']:,}",
            "inputs changed or gone": f"{counted(rows['inputs_changed_or_gone'], 'row')}",
            "tolerance": f"{told['tolerance']:g}, as a share of a value above 1",
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
            f"# {name}: {counted(rows['compared'], 'published row')}, {title}",
            pairs(figures),
            section("Columns", table(["column", "rows that differ", "largest"], columns))
            if columns
            else "",
            section("Differences", table(heads, differences)) if differences else "",
            section("Set aside now", *(f"- {cell(line)}" for line in told["set_aside"])),
        )


def outcome_of(sample: Sample, configs: Configs, tolerance: float) -> Outcome:
    """Compare what a sample's run has left with what is published.

    Args:
        sample: its run has ended well.
        configs: the one that it went by, and those that have published.
        tolerance: as `compare` takes it.

    Raises:
        InvalidSpec: a published file is gone, or holds other rows.
    """
    planned = sample.planned
    keys = sample.spec.sink.row_key
    compared = compare(sample.published(), staged_with_ids(planned, ROW), ROW, keys, tolerance)
    return Outcome(sample, configs, compared, load_rejections(planned, planned.accepted()))
