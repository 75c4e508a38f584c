"""Rows that stayed rejected, and the budget for them."""

import io
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.counted import counted
from tasks.errors import BatchInferenceError, ErrorBudgetExceeded
from tasks.kinds.sources.source import REST_OF_FILE
from tasks.plan import PlannedRun
from tasks.planning.sharding import num_inputs
from tasks.planning.words_among_numbers import hint_on
from tasks.protocol.acceptance import Accepted
from tasks.protocol.asked_at_once import fetched
from tasks.ray_job.writing import SET_ASIDE
from tasks.record_coverage import count_rows
from tasks.reporting.addresses import named_on

EXAMPLES = 3
place, kind_of = itemgetter("source", "row"), itemgetter("stage", "error_type")
SHOWN = ["source", "row", "stage", "error_type", "error_message"]
"""Columns of a quarantine file, without those that may be large."""
SELDOM_OF_DATA = (
    *("AttributeError", "NameError", "UnboundLocalError", "TypeError", "KeyError", "IndexError"),
    *("NotImplementedError", "AssertionError"),
)
"""What code raises that is wrong itself, or takes its batch for something else."""
COMPUTES = ("preprocess", "infer")
"""Stages that a text in the place of a number is too much for."""
NOTHING = "nothing was published"
ENOUGH_ROWS = 24
"""To say what a run's rows are like, before all have been tried."""


@dataclass
class Rejections:
    """Rows that stayed rejected: how many of each kind, and the first of these.

    A kind is a stage and an error's type. However many rows there are, few are held.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    first: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    """By source and row, those that say what no other does before the rest."""

    def add(self, data: bytes, keep: list[bool] | None = None) -> None:
        """Add the rows of a quarantine file, or some of them."""
        self.add_rows(rows_shown(data), keep)

    def add_rows(self, rows: pa.Table, keep: list[bool] | None = None) -> None:
        """The same of rows that were read from one."""
        rows = rows if keep is None else rows.filter(pa.array(keep, pa.bool_()))
        for kind, found in groupby(sorted(rows.to_pylist(), key=kind_of), kind_of):
            own = [*found]
            self.counts[kind] += len(own)
            self.first[kind] = telling_most([*self.first.get(kind, ()), *own])

    @property
    def kinds(self) -> list[tuple[tuple[str, str], int, list[dict[str, Any]]]]:
        """Each kind, how many there are and the first of them; the most frequent first."""
        kinds = [(kind, self.counts[kind], first) for kind, first in self.first.items()]
        return sorted(kinds, key=lambda each: (-each[1], place(each[2][0])))

    @property
    def files_cut_off(self) -> int:
        """Files of which the rest could not be read, however many rows that has."""
        return self.counts["read", REST_OF_FILE]

    @property
    def by_stage(self) -> Counter[str]:
        """How many rows each stage set aside."""
        found: Counter[str] = Counter()
        for (stage, _), count in self.counts.items():
            found[stage] += count
        return found


def rows_shown(data: bytes) -> pa.Table:
    """The rows of a quarantine file, in the columns that are shown."""
    return pq.read_table(io.BytesIO(data), columns=SHOWN)


def telling_most(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some of rows of one kind, which may have been set aside for several reasons."""
    told: dict[str, dict[str, Any]] = {}
    rest = []
    for row in sorted(rows, key=place):
        if told.setdefault(row["error_message"], row) is not row:
            rest.append(row)
    return sorted([*told.values(), *rest][:EXAMPLES], key=place)


def load_rejections(planned: PlannedRun, accepted: Accepted) -> Rejections:
    """The rows that stayed rejected, from the staged quarantine files: before publishing only."""
    left = set(accepted.rejected.ids().tolist())
    found = Rejections()
    files = [each.quarantine for each in reversed(accepted.records) if each.quarantine]
    places = [f"{planned.run.staging}/{file.name}" for file in files]
    for file, data in zip(files, fetched(planned.storage.read, places), strict=True):
        ids = file.ids.ids().tolist()
        keep = []
        for id_ in ids:
            keep.append(id_ in left)
            left.discard(id_)
        found.add(data, keep)
    return found


def check_budget(planned: PlannedRun, accepted: Accepted) -> None:
    """Hold a run back that set aside too many rows.

    Raises:
        ErrorBudgetExceeded: says how many, which errors, and the first rows of each.
    """
    if too_many := excess(planned, accepted):
        raise with_rows(planned, ErrorBudgetExceeded(f"{too_many}; {NOTHING}"))


def excess(planned: PlannedRun, accepted: Accepted, *, is_part: bool = False) -> str:
    """What of a run is more than its budget allows; empty where nothing is.

    A file that cannot be read to its end lacks rows that nobody can count: it is held against the
    run as its share of the files.

    Args:
        planned: the run.
        accepted: what its records cover.
        is_part: whether its rows are like those of a larger run, of which only the share is known.
    """
    rows, budget = count_rows(accepted), planned.spec.errors
    rejected, read = rows["rejected"], rows["read"]
    more = f"more than errors.max_rejected_fraction {budget.max_rejected_fraction} allows"
    if not (budget.allows_share if is_part else budget.allows)(rejected, read):
        aside = f"{rejected:,} of {counted(read, 'row')} set aside"
        return f"{aside}, {more if is_part else f'more than {budget.in_words} allow'}"
    if not rejected:
        return ""
    try:
        damaged = load_rejections(planned, accepted).files_cut_off
    except FileNotFoundError:
        # Somebody else may have published the run meanwhile: nothing holds it back any more.
        if planned.is_published():
            return ""
        raise
    files = num_inputs(planned.plan)
    if budget.allows_share(damaged, files):
        return ""
    return f"{damaged:,} of {counted(files, 'file')} cannot be read to the end, {more}"


def with_rows(planned: PlannedRun, error: ErrorBudgetExceeded) -> ErrorBudgetExceeded:
    """The error with which errors and which rows, where all of these are, and the way out."""
    accepted = planned.accepted()
    rejections = load_rejections(planned, accepted)
    lines = [*error_lines(rejections), f"All of them, with their inputs: {all_of(planned)}"]
    way_out = (
        "Fix the input or the spec and run again, with --restart if source, steps, model or code "
        "changed, or raise the budget to publish the rest"
    )
    if is_likely_the_code(planned, accepted, rejections):
        way_out = (
            "All rows failed in the same way, with an error that is rarely the data's fault: it "
            "is probably the code; fix it, or the arguments in the spec, and run again"
        )
    by_now = excess(planned, accepted)  # more than were counted when the job was ended
    total = f"{by_now}; {NOTHING}" if by_now else error.message
    found = ErrorBudgetExceeded("\n".join([total, *lines, way_out]))
    found.hint = hint_of(planned, rejections)
    return found


def hint_of(planned: PlannedRun, rejections: Rejections) -> str:
    """What may be behind rows that failed in code: columns that are texts by a word alone."""
    return words_in(planned) if rejections.by_stage.keys() & {*COMPUTES} else ""


def words_in(planned: PlannedRun) -> str:
    """Which of a run's columns are texts by a word alone, as a sentence; empty where none is."""
    with suppress(BatchInferenceError):  # what has failed is told, whatever is wrong besides
        return hint_on(planned.spec, planned.plan.pins.get("reader"))
    return ""


def all_of(planned: PlannedRun) -> str:
    """Where rows that an unpublished run has set aside lie, as a pattern for readers of Parquet."""
    return named_on(planned.storage, f"{planned.run.staging}/*{SET_ASIDE}")


def is_likely_the_code(planned: PlannedRun, accepted: Accepted, rejections: Rejections) -> bool:
    """Whether all rows, or many and no other, failed with one error that data seldom leads to."""
    if accepted.num_ok or len(rejections.counts) != 1:
        return False
    ((_, error_type),) = rejections.counts
    is_enough = len(accepted.rejected) >= ENOUGH_ROWS
    is_enough = is_enough or not planned.gap(accepted, retry_rejected=False)
    return is_enough and error_type in SELDOM_OF_DATA


def error_lines(rejections: Rejections) -> list[str]:
    """The errors, most frequent first, each with some of its rows, and what these say besides."""
    lines = []
    for (stage, error_type), count, first in rejections.kinds:
        said = first[0]["error_message"]
        lines.append(f"  {count} x {error_type} in {stage}: {said}")
        for row in first:
            other = "" if row["error_message"] == said else f": {row['error_message']}"
            lines.append(f"      {row['source']}, row {row['row']}{other}")
        if count > EXAMPLES:
            lines.append(f"      and {count - EXAMPLES} more")
    return lines
