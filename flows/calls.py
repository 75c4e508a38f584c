"""What the command line's verbs do."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from flows.printed_report import (
    left_by,
    print_check,
    print_orphans,
    print_periods,
    print_report,
)
from tasks.at_work import live_jobs, stop_jobs
from tasks.cleaning import find_orphans, remove
from tasks.errors import BatchInferenceError, InvalidSpec
from tasks.kinds.clusters import KubeRayCluster, LocalCluster, RayJobsCluster
from tasks.periods import portions
from tasks.plan import ledger_of, make_plan
from tasks.preflight import CHECKS, Check, check_spec
from tasks.rehearsal import rehearse
from tasks.scheduled import at_time, parse_time
from tasks.small_jobs import advice_for_small
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import load_spec

console = Console(stderr=True)


def spec_for_run(
    spec_file: Path,
    overrides: list[str] | None,
    limit: int | None,
    output: str | None,
    address: str | None,
    time: datetime,
) -> BatchInferenceSpec:
    """The file's spec, changed as the call says; checked as it is at that time.

    Raises:
        InvalidSpec: the spec or the call is wrong.
    """
    given = list(overrides or [])
    if limit is not None and output is None:
        raise InvalidSpec.at("--limit", limit, "needs --output: a part of the rows is no version")
    if output is not None:
        given.append(sink_at(output))
    spec = load_spec(spec_file, given)
    if address is not None:
        spec = spec.model_copy(update={"cluster": LocalCluster(address=address)})
    check_spec(at_time(spec, time))
    return spec


def sink_at(output: str) -> str:
    """The override that puts another output, as seen from here, in the place of the spec's."""
    path = output if "://" in output else str(Path(output).resolve())
    return f"sink.path={json.dumps(path)}"


def load_at(
    spec_file: Path, overrides: list[str] | None, scheduled_time: str | None
) -> BatchInferenceSpec:
    """The file's spec as it is at the time that the call names, else now."""
    return at_time(load_spec(spec_file, overrides), time_meant(scheduled_time))


def time_meant(scheduled_time: str | None) -> datetime:
    """What `--scheduled-time` says; now, where it is not given."""
    if scheduled_time is None:
        return datetime.now(UTC)
    return parse_time("--scheduled-time", scheduled_time)


def call_flow(spec: BatchInferenceSpec, as_json: bool, **options: Any) -> None:
    """Run the flow and print its report.

    Args:
        spec: what to run.
        as_json: whether to end with the report as one line of JSON.
        options: the flow's other parameters.
    """
    report = run_flow(spec, **options)
    print_report(console, report)
    if as_json:
        print(json.dumps(report))


def call_redrive(
    spec_file: Path,
    overrides: list[str] | None,
    restart: bool,
    scheduled_time: str | None,
    as_json: bool,
) -> None:
    """Run what was set aside again, and print the report."""
    from flows.redrive import redrive
    from flows.terminal import live_progress

    spec = load_spec(spec_file, overrides)
    with live_progress(console):
        report = redrive(spec, restart, time_meant(scheduled_time))
    if report["published"]:
        print_report(console, report, skipped="changed or gone since")
    else:
        console.print(
            f"nothing to do: no row of {report['output']} can be run again{left_by(report)}"
        )
    if as_json:
        print(json.dumps(report))


def call_preview(
    spec_file: Path,
    rows: int,
    on_cluster: bool,
    overrides: list[str] | None,
    scheduled_time: str | None,
    as_json: bool,
) -> None:
    """Run a preview and print what it found."""
    from flows.preview import preview
    from flows.printing import print_preview
    from flows.terminal import live_progress

    spec = load_spec(spec_file, overrides)
    with live_progress(console):
        found = preview(spec, rows, time_meant(scheduled_time), on_cluster)
    print_preview(console, found)
    if as_json:
        print(json.dumps(found))


def call_search(
    output: str,
    spec_file: Path,
    overrides: list[str] | None,
    query: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Search an output and print what was found.

    Args:
        output: where the rows are published.
        spec_file: the spec that made them.
        overrides: changes of it.
        query: what is searched for.
        as_json: whether to end with what was found as one line of JSON.
        options: the flow's other parameters.
    """
    from tasks.searching.published import published_vectors
    from tasks.searching.query import read_query

    spec = at_time(load_spec(spec_file, [*(overrides or []), sink_at(output)]), datetime.now(UTC))
    # What is wrong with the call is said before a flow starts.
    read_query(spec, query, options["query_as"])
    published_vectors(spec, options["column"])

    from flows.printing import print_matches
    from flows.search import search

    found = search(spec, query, **options)
    print_matches(console, found)
    if as_json:
        print(json.dumps(found))


def run_flow(spec: BatchInferenceSpec, **options: Any) -> dict[str, Any]:
    """Run the flow with live progress; return its report."""
    from flows.batch_inference import batch_inference
    from flows.terminal import live_progress

    with live_progress(console):
        return batch_inference(spec, **options)


def call_backfill(
    spec: BatchInferenceSpec,
    between: tuple[str | None, str | None],
    every: str,
    as_json: bool,
    **options: bool,
) -> None:
    """Run the backfill, and print what was done with each period.

    Args:
        spec: what to run.
        between: the first and the last scheduled time, as they were written.
        every: the step between them.
        as_json: whether to end with the report as one line of JSON.
        options: the flow's other parameters.
    """
    from flows.backfill import backfill
    from flows.terminal import live_progress

    start, end = (
        parse_time(field, text) if text else None
        for field, text in zip(("--from", "--to"), between, strict=True)
    )
    portions(spec, start, end, every)  # what is wrong with the call is said before a flow starts
    with live_progress(console):
        report = backfill(spec, start, end, every, **options)
    print_periods(console, report)
    if as_json:
        print(json.dumps(report))


def check_spec_file(
    spec_file: Path, overrides: list[str] | None, scheduled_time: str | None
) -> None:
    """Check everything, print what was found as a table, and say what a run would do.

    Raises:
        BatchInferenceError: the first thing that is wrong.
    """
    spec = load_at(spec_file, overrides, scheduled_time)
    wrong: list[BatchInferenceError] = []
    for check in (*CHECKS, Check("inputs", inputs_to_do), Check("nodes", check_nodes)):
        if wrong and check.name in ("inputs", "nodes"):
            print_check(console, check.name, "dim", "-", "not looked at")
            continue
        try:
            print_check(console, check.name, "green", "ok", check.run(spec))
        except BatchInferenceError as error:
            wrong.append(error)
            print_check(console, check.name, "red", "wrong", str(error))
    if wrong:
        raise wrong[0]


def inputs_to_do(spec: BatchInferenceSpec) -> str:
    """What a run would do, and whether it needs no Ray for that."""
    planned = make_plan(spec, save=False)
    return "; ".join(filter(None, (planned.summary, advice_for_small(planned))))


def check_nodes(spec: BatchInferenceSpec) -> str:
    """See from every node of a cluster that runs already whether it can do the job."""
    if isinstance(spec.cluster, KubeRayCluster):
        return "made when the run starts, and looked at then"
    if not isinstance(spec.cluster, RayJobsCluster):
        return "this machine"
    return rehearse(make_plan(spec, save=False))


def print_status(
    spec_file: Path, overrides: list[str] | None, scheduled_time: str | None, as_json: bool
) -> None:
    """What is published, and who is at work."""
    spec = load_at(spec_file, overrides, scheduled_time)
    seen = ledger_of(spec).look()
    body = {
        "output": spec.sink.path,
        "version": seen.version,
        "files": len(seen.files),
        "rows": sum(file.rows for file in seen.files.values()),
        "rows_set_aside": sum(file.rows for file in seen.quarantine.values()),
        "jobs": [{"run_id": job.run_id, "attempt": job.attempt} for job, _ in live_jobs(spec)],
    }
    if as_json:
        print(json.dumps(body))
        return
    for name, value in body.items():
        console.print(f"{name:15} {value}")


def clean_output(
    spec_file: Path,
    delete: bool,
    overrides: list[str] | None,
    scheduled_time: str | None,
    as_json: bool,
) -> None:
    """List what nobody needs any more at the spec's output, and delete it on request."""
    spec = load_at(spec_file, overrides, scheduled_time)
    orphans = find_orphans(spec)
    if delete:
        remove(spec, orphans)
    if as_json:
        print(json.dumps({"deleted": delete, "orphans": [asdict(each) for each in orphans]}))
        return
    print_orphans(console, orphans, deleted=delete)


def cancel_jobs(spec_file: Path, overrides: list[str] | None, scheduled_time: str | None) -> None:
    """Stop every job at work on the spec's output."""
    stopped = stop_jobs(load_at(spec_file, overrides, scheduled_time))
    for job in stopped:
        console.print(f"stopped attempt {job.attempt} of run {job.run_id}; run again to resume it")
    if not stopped:
        console.print("no job is at work")
