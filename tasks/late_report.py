"""The report of a run whose process ended after it had published, and before it said so."""

import logging
from datetime import datetime
from functools import partial

from tasks.lease import is_at_work, load_holder
from tasks.plan import PlannedRun
from tasks.planning.new_inputs import published_paths
from tasks.protocol.layout import RunFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import load_plan
from tasks.report import as_it_stands, leave_report, show_run
from tasks.reporting.evidence import look_back
from tasks.reporting.run_report import figures_of
from tasks.run_folder import read_header
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec

logger = logging.getLogger(__name__)


def report_late(planned: PlannedRun) -> str | None:
    """Leave page and manifest of the newest version, where its own run came to neither.

    No rows depend on it: what goes wrong in here is logged, and the next run tries again.

    Args:
        planned: a run that comes later, on the same output.

    Returns:
        What to say of it; None where there is nothing to make up for.
    """
    try:
        seen = planned.ledger.look()
        run = unreported(planned, seen)
        return make_up(planned, seen, run) if run else None
    except Exception:
        logger.exception("the missing report of the last published run cannot be written")
        return None


def unreported(planned: PlannedRun, seen: Snapshot) -> RunFolder | None:
    """The run of the newest version, where nobody has written its manifest, or is about to."""
    if not seen.entries:
        return None
    run = planned.output.run(seen.entries[max(seen.entries)]["run_id"])
    if planned.storage.stat(planned.output.manifest(run.run_id)) is not None:
        return None
    holder = load_holder(planned.storage, run.lease)
    is_other = holder and not holder.is_this_process()
    if holder and is_other and is_at_work(planned.storage, run.lease, holder):
        return None
    return run


def make_up(planned: PlannedRun, seen: Snapshot, run: RunFolder) -> str | None:
    """Make up for a run's report; its seconds are of the whole run, until it was published.

    Args:
        planned: a run on the same output.
        seen: what is published.
        run: published last.

    Returns:
        What to say of it; None where its files say too little, or the report failed again.
    """
    plan = load_plan(planned.storage, run)
    if plan is None or planned.storage.stat(run.header) is None:
        return None
    header = read_header(planned.storage, run)
    version = max(seen.entries)
    entry, time = seen.entries[version], header.get("scheduled_time")
    inputs = set(plan.shards["path"].to_pylist())
    past = PlannedRun(
        spec=BatchInferenceSpec.model_validate(header["spec"]),
        run_key=header["run_key"],
        config=entry["config"] or "",
        plan=plan,
        inputs_skipped=0 if plan.redrives else len(set(published_paths(seen)) - inputs),
        options=RunOptions(**header["call"], scheduled_time=time and datetime.fromisoformat(time)),
        replaces=seen.base == version,
        rows_before=0,
        attempts_before=0,
        notes=[],
    )
    evidence = look_back(past, header["created"])
    figures = partial(
        figures_of, version=version, attempts=len(evidence.attempts), ended=entry["published_at"]
    )
    report = leave_report(*as_it_stands(evidence, figures))
    show_run(past, report)
    return report.report and (
        f"version {version} was published by run {run.run_id}, whose process ended before writing "
        f"its report: it is written now, {report.report}"
    )
