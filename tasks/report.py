"""What happened: one report for people and machines."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from tasks.artifacts import artifact_key, not_vital, show_link, show_page
from tasks.plan import PlannedRun
from tasks.previewing import measured_where, staged_rows
from tasks.reporting.accuracy import compare_labels
from tasks.reporting.addresses import named_on, sink_page, sink_url
from tasks.reporting.estimate import estimate_run
from tasks.reporting.evidence import Evidence, look_back
from tasks.reporting.expected_files import small_files_told
from tasks.reporting.full_run import full_run
from tasks.reporting.manifest import save_manifest
from tasks.reporting.page import failure_page, rejections_told, success_page
from tasks.reporting.preview_page import Preview, preview_page
from tasks.reporting.run_report import RunReport, figures_of, replaced_by, without_figures
from tasks.reporting.versions import told_version
from tasks.reporting.where_it_goes import gpus_allowed, gpus_of_a_replica, nodes_found
from tasks.spec import BatchInferenceSpec
from tasks.timeouts import at_output

logger = logging.getLogger(__name__)
T = TypeVar("T")


def report_run(
    planned: PlannedRun, started: float, version: int | None = None, attempts: int = 0
) -> RunReport:
    """The report of a run that ended well; leaves it in the run's folder.

    Args:
        planned: the run.
        started: when this call of it began, in seconds since the epoch.
        version: what it was published as; None where there was nothing to do.
        attempts: attempts that this call made.

    Raises:
        Unreachable: the output's storage does not answer, and nothing was to be done.
    """
    figures = partial(figures_of, version=version, attempts=attempts)
    try:
        with at_output(planned.spec):
            evidence, report = as_it_stands(look_back(planned, started), figures)
    except Exception:  # of any kind: the rows are published
        if version is None:
            raise
        logger.exception("run %s is published, but its figures cannot be read", planned.run.run_id)
        return without_figures(planned, started, version, attempts)
    return report if version is None else leave_report(evidence, report)


def as_it_stands(evidence: Evidence, make: Callable[[Evidence], T]) -> tuple[Evidence, T]:
    """What is made of a run's files; anew where somebody has published in the middle of it.

    Returns:
        The evidence that held, and what was made of it.
    """
    while True:
        try:
            return evidence, make(evidence)
        except FileNotFoundError:
            later = replace(evidence)  # looks at the ledger anew
            if later.ledger.version == evidence.ledger.version:
                raise
            evidence = later


def leave_report(evidence: Evidence, report: RunReport) -> RunReport:
    """Write the page and the manifest of a published run.

    The rows are published by now: what goes wrong in here is logged and fails no run.
    """
    try:
        return as_it_stands(evidence, partial(write_report, report=report))[1]
    except Exception:
        logger.exception("run %s is published, but its report failed", report.run_id)
        return report


def write_report(evidence: Evidence, report: RunReport) -> RunReport:
    """Write the page and the manifest of a run with what is published now.

    Raises:
        FileNotFoundError: somebody has published since the evidence was looked at.
    """
    report = replace(report, replaced_by=replaced_by(evidence.ledger, report.version))
    if report.replaced_by:
        logger.warning("run %s is published as %s", report.run_id, told_version(report.as_json()))
    planned = evidence.planned
    entry = evidence.ledger.entries[report.version]
    compared = compare_labels(evidence)
    accuracy = round(compared.accuracy, 6) if compared else None
    page = named_on(planned.storage, planned.run.page)
    report = replace(report, accuracy=accuracy, report=page, set_aside=rejections_told(evidence))
    report = replace(report, gates=entry.get("gates", []), accepted=entry.get("accepted"))
    manifest = save_manifest(evidence, report.as_json())
    report = replace(report, manifest=named_on(planned.storage, manifest))
    leave_page(planned, success_page(evidence, report.as_json(), compared))
    return report


def report_preview(planned: PlannedRun, spec: BatchInferenceSpec, started: float) -> dict[str, Any]:
    """Show a preview's rows, speed and estimate in Prefect; return them.

    Args:
        planned: the preview's run, not published.
        spec: what a whole run would be.
        started: when the preview began, in seconds since the epoch.
    """
    evidence = look_back(planned, started)
    whole = full_run(spec)
    num_gpus = gpus_of_a_replica(spec, evidence)
    rows = staged_rows(planned)
    found = Preview(
        evidence=evidence,
        rows=rows,
        measured=measured_where(spec, planned.spec),
        whole=whole,
        estimate=estimate_run(
            spec,
            planned.spec,
            evidence.accepted.records,
            whole,
            num_gpus=num_gpus,
            nodes=nodes_found(spec, evidence),
            max_gpus=gpus_allowed(spec, evidence),
        ),
        small_files=small_files_told(spec, planned.plan.pins["reader"], rows, whole.rows),
    )
    page = preview_page(found)
    with not_vital("the preview"):
        show_page(artifact_key(spec.name, "preview"), page)
    return found.as_json()


def report_failure(planned: PlannedRun, started: float, error: BaseException) -> str | None:
    """Leave a report of a run that failed in its folder: what happened, and what is resumed.

    Args:
        planned: the run.
        started: when this call of it began, in seconds since the epoch.
        error: what ended it.

    Returns:
        Where the report lies; None where it could not be written, which is logged: the run's
        own error is what the caller is to see.
    """
    try:
        page = failure_page(look_back(planned, started), error, time.time() - started)
        return leave_page(planned, page)
    except Exception:
        logger.exception("the report of the failed run %s could not be written", planned.run.run_id)
        return None


def show_run(planned: PlannedRun, report: RunReport) -> None:
    """Show in Prefect what a published run has come to."""
    if report.report is None:  # it failed, or there was nothing to do
        return
    show_report(planned)
    if not report.replaced_by:  # else the link of that version is there
        show_output(planned, report.version)


def show_report(planned: PlannedRun) -> None:
    """Show the report in Prefect that lies in the run's folder."""
    with not_vital("the report"):
        page = planned.storage.read(planned.run.page).decode()
        show_page(artifact_key(planned.spec.name, "report"), page)


def show_output(planned: PlannedRun, version: int) -> None:
    """Leave a link to the published rows in Prefect."""
    sink, name = planned.spec.sink, planned.spec.name
    words = f"{sink_url(sink)}, version {version}"
    with not_vital("the link of the output"):
        show_link(
            artifact_key(name, "output"), sink_page(sink), words, f"What {name} has published"
        )


def leave_page(planned: PlannedRun, page: str) -> str:
    """Store the page in the run's folder; where it lies, as a spec would name it."""
    planned.storage.write(planned.run.page, page.encode())
    return named_on(planned.storage, planned.run.page)
