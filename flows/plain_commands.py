"""What the verbs do that start no flow: check, status, clean and cancel; and the versions."""

from dataclasses import asdict
from functools import partial
from pathlib import Path

from flows.command_spec import load_at
from flows.console import console, escape, print_json, results
from flows.printed_report import print_check, print_orphans, print_output_status
from tasks.access import access_told
from tasks.cleaning import find_orphans, remove
from tasks.errors import BatchInferenceError
from tasks.first_rows import first_rows
from tasks.kinds.clusters import KubeRayCluster, RayJobsCluster
from tasks.lease import holder_of
from tasks.ledgers import ledger_of
from tasks.left_previews import stop_left_previews
from tasks.outputs import output_of
from tasks.plan import make_plan
from tasks.planning.preflight import CHECKS, Check
from tasks.planning.unfinished import UnfinishedRuns
from tasks.protocol.ledger import Snapshot
from tasks.rehearsal import rehearse
from tasks.reporting.addresses import named_on
from tasks.reporting.manifest import versions
from tasks.run_options import RunOptions
from tasks.running_jobs import live_jobs, runs_at_work, tell_to_stop
from tasks.scheduled import timed_inputs
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import load_spec
from tasks.timeouts import at_output
from tasks.without_ray import advice_without_ray


def print_versions() -> None:
    """What whoever reports a fault is asked for, a line each."""
    for name, version in versions().items():
        results.print(f"{name:16} {version}", highlight=False)


def check_spec_file(
    spec_file: Path, overrides: list[str] | None, scheduled_time: str | None
) -> None:
    """Check everything, print what was found as a table, and say what a run would do.

    Raises:
        BatchInferenceError: the first thing that is wrong.
    """
    spec = load_at(spec_file, overrides, scheduled_time)
    options = RunOptions(timed_inputs=timed_inputs(load_spec(spec_file, overrides)))
    nodes = Check("nodes", partial(check_nodes, options))
    wrong: list[BatchInferenceError] = []
    for check in (*CHECKS, Check("inputs", inputs_to_do), nodes):
        if wrong and check.name in ("inputs", "nodes"):
            print_check(results, check.name, "dim", "-", "not checked")
            continue
        try:
            with access_told(spec):
                found = check.run(spec)
            print_check(results, check.name, "green", "ok", found)
        except BatchInferenceError as error:
            wrong.append(error)
            print_check(results, check.name, "red", "wrong", str(error))
    if wrong:
        raise wrong[0]


def inputs_to_do(spec: BatchInferenceSpec) -> str:
    """What a run would do, and whether it needs no Ray for that."""
    planned = make_plan(spec, save=False)
    told = (planned.summary, first_rows(planned), *planned.notes, advice_without_ray(planned))
    return "; ".join(filter(None, told))


def check_nodes(options: RunOptions, spec: BatchInferenceSpec) -> str:
    """See from every node of a cluster that runs already whether it can do the job."""
    if isinstance(spec.cluster, KubeRayCluster):
        return "created when the run starts, and checked then"
    if not isinstance(spec.cluster, RayJobsCluster):
        return "this machine"
    planned = make_plan(spec, options, save=False)
    return rehearse(planned, lambda line: console.print(escape(line), soft_wrap=True))


def print_status(
    spec_file: Path, overrides: list[str] | None, scheduled_time: str | None, as_json: bool
) -> None:
    """What is published, who is at work, and what was begun and is neither.

    Raises:
        Unreachable: the output's storage does not answer.
    """
    spec = load_at(spec_file, overrides, scheduled_time)
    with at_output(spec):
        seen, live, runs = ledger_of(spec).look(), live_jobs(spec), runs_at_work(spec)
        begun, report = UnfinishedRuns(spec, seen).begun(), last_report(spec, seen)
        storage, output = output_of(spec)
    at_work = {*runs, *(job.run_id for job, _ in live)}
    aside = sum(file.rows for file in seen.quarantine.values())
    body = {
        "output": spec.sink.path,
        "version": seen.version,
        "files": len(seen.files),
        "rows": sum(file.rows for file in seen.files.values()),
        "rows_set_aside": aside,
        "set_aside_in": named_on(storage, output.quarantine) if aside else None,
        "report": report,
        "jobs": [{"run_id": job.run_id, "attempt": job.attempt} for job, _ in live],
        "runs": [{"run_id": run_id, "at_work_in": place} for run_id, place in runs.items()],
        "unfinished": [
            {"run_id": run_id, "report": page and named_on(storage, page)}
            for run_id, page in begun.items()
            if run_id not in at_work
        ],
    }
    if as_json:
        print_json(body)
    else:
        print_output_status(results, body)


def last_report(spec: BatchInferenceSpec, seen: Snapshot) -> str | None:
    """Where the report of the run lies that has published last; None where there is none."""
    if not seen.version:
        return None
    storage, output = output_of(spec)
    page = output.run(seen.entries[seen.version]["run_id"]).page
    return named_on(storage, page) if storage.stat(page) else None


def clean_output(
    spec_file: Path,
    delete: bool,
    overrides: list[str] | None,
    scheduled_time: str | None,
    as_json: bool,
) -> None:
    """List what nobody needs any more at the spec's output, and delete it on request.

    Raises:
        Unreachable: the output's storage does not answer.
    """
    spec = load_at(spec_file, overrides, scheduled_time)
    with at_output(spec):
        orphans = find_orphans(spec)
        if delete:
            remove(spec, orphans)
    if as_json:
        print_json({"deleted": delete, "orphans": [asdict(each) for each in orphans]})
        return
    print_orphans(results, spec.sink.path, orphans, deleted=delete)


def cancel_jobs(spec_file: Path, overrides: list[str] | None, scheduled_time: str | None) -> None:
    """Stop every job at work on the spec's output, and say which.

    So it does with those of previews and verifications that were killed; others end by themselves.

    Raises:
        BatchInferenceError: a cluster could not be asked, after all others were.
        Unreachable: the output's storage does not answer.
    """
    spec = load_at(spec_file, overrides, scheduled_time)
    with at_output(spec):
        told, left = tell_to_stop(spec), stop_left_previews(spec)
    for job in left.stopped:
        line = f"stopped job {job.id}, which a preview or verification has left that was killed"
        results.print(line, soft_wrap=True)
    for job in told.stopped:
        line = f"stopped attempt {job.attempt} of run {job.run_id}; run again to resume it"
        results.print(line, soft_wrap=True)
    for job in told.unseen:
        name = f"attempt {job.attempt} of run {job.run_id}"
        holder = holder_of(job.storage, job.run)  # as of a job that runs in its process
        seen = f"{holder} does so" if holder else "it does not seem to be running"
        results.print(f"told {name} to stop; {seen}", soft_wrap=True)
    for job in told.ended:
        name = f"attempt {job.attempt} of run {job.run_id}, which has ended"
        results.print(f"no other job will follow {name}; run again to resume it", soft_wrap=True)
    if errors := told.errors + left.errors:
        raise errors[0]
    if not (left.stopped or told.stopped or told.unseen or told.ended):
        unseen = "a run that is still planning is not seen; stop it with Ctrl-C or in Prefect"
        results.print(f"no job is at work on {spec.sink.path}; {unseen}", soft_wrap=True)
