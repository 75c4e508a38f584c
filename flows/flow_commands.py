"""What the verbs do that start a flow: run, preview, verify, redrive, backfill and search."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flows.command_spec import load_at, sink_at, time_meant, warn_of_no_use
from flows.console import console, escape, print_json, results
from flows.printed_report import left_by, print_periods, print_report
from tasks.errors import HeldBack
from tasks.kinds.clusters import InlineCluster
from tasks.periods import portions
from tasks.planning.preflight import check_spec
from tasks.previewing import check_preview
from tasks.quick_imports import quick_imports
from tasks.scheduled import at_time, parse_time
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import load_spec


@contextmanager
def at_terminal(
    imports: Iterable[str] = (),
    stopped: str = "stopped; the next run continues from what is recorded",
) -> Iterator[None]:
    """A flow that somebody sees at work, and may end with Ctrl-C.

    Args:
        imports: modules that it is going to need here.
        stopped: what to say then.
    """
    from flows.log_at_terminal import log_at_terminal
    from flows.terminal import live_progress

    with server_at_hand(imports):
        try:
            with log_at_terminal(console), live_progress(console):
                yield
        except BaseException as error:
            if is_stopped(error):
                console.print(stopped)
                raise KeyboardInterrupt from None
            raise


@contextmanager
def server_at_hand(imports: Iterable[str]) -> Iterator[None]:
    """A Prefect server to call a flow on, or what to do where the named one cannot be used.

    Args:
        imports: modules that the flow is going to need here.
    """
    from flows.own_server import start_own_server
    from flows.server_away import own_error_first

    start_own_server(imports)
    with own_error_first():
        yield


def is_stopped(error: BaseException | None) -> bool:
    """Whether somebody has stopped the run, and Prefect perhaps failed to tell its server."""
    from prefect.exceptions import TerminationSignal

    while error is not None and not isinstance(error, (KeyboardInterrupt, TerminationSignal)):
        error = error.__context__
    return error is not None


def call_flow(spec: BatchInferenceSpec, as_json: bool, **options: Any) -> None:
    """Run the flow and print its report.

    Args:
        spec: what to run.
        as_json: whether to end with the report as one line of JSON.
        options: the flow's other parameters.
    """
    report = run_flow(spec, **options)
    print_report(results, report)
    if as_json:
        print_json(report)


def call_redrive(
    spec_file: Path,
    overrides: list[str] | None,
    restart: bool,
    scheduled_time: str | None,
    as_json: bool,
) -> None:
    """Run what was set aside again, and print the report."""
    from flows.redrive import redrive
    from flows.server_away import call

    spec, time_then = load_spec(spec_file, overrides), time_meant(scheduled_time)
    warn_of_no_use(spec, scheduled_time)
    check_spec(at_time(spec, time_then))
    with at_terminal():
        report = call(redrive, spec, restart, time_then)
    if report["published"]:
        print_report(results, report, skipped="changed or gone since")
    else:
        line = f"nothing to do: no row of {report['output']} can be run again{left_by(report)}"
        results.print(escape(line), soft_wrap=True, highlight=False)
    if as_json:
        print_json(report)


def call_preview(
    spec_file: Path,
    rows: int,
    on_cluster: bool,
    overrides: list[str] | None,
    scheduled_time: str | None,
    as_json: bool,
) -> None:
    """Run a preview and print what it found.

    Raises:
        HeldBack: a run of such rows would publish nothing; the flow itself has ended well.
    """
    from flows.preview import preview
    from flows.printing import print_preview
    from flows.server_away import call

    spec, time_then = load_spec(spec_file, overrides), time_meant(scheduled_time)
    warn_of_no_use(spec, scheduled_time)
    check_preview(at_time(spec, time_then), rows, on_cluster=on_cluster)
    imports = () if on_cluster else spec.model.slow_imports
    with at_terminal(imports, stopped="stopped; nothing was published"):
        found = call(preview, spec, rows, time_then, on_cluster)
    print_preview(results, found)
    if as_json:
        print_json(found)
    if reasons := found["would_be_held_back"]:
        raise HeldBack(f"a run with such rows would publish nothing: {'; '.join(reasons)}")


def call_verify(
    spec_file: Path,
    overrides: list[str] | None,
    scheduled_time: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Predict published rows again and print what came of it.

    Args:
        spec_file: what runs do.
        overrides: changes of it.
        scheduled_time: what placeholders in paths stand for, as it was written; None: now.
        as_json: whether to end with the figures as one line of JSON.
        options: the flow's other parameters.
    """
    from flows.printing import print_verified
    from flows.server_away import call
    from flows.verify import refuse_call, verify
    from tasks.verifying.sample import trial_to_verify

    refuse_call(options["rows"], options["tolerance"], accept=options["accept"])
    spec, time_then = load_spec(spec_file, overrides), time_meant(scheduled_time)
    warn_of_no_use(spec, scheduled_time)
    on_cluster = options["on_cluster"]
    check_spec(
        trial_to_verify(at_time(spec, time_then), options["rows"], "check", on_cluster=on_cluster)
    )
    imports = () if on_cluster else spec.model.slow_imports
    with at_terminal(imports, stopped="stopped; nothing was published"):
        found = call(verify, spec, scheduled_time=time_then, **options)
    print_verified(results, found)
    if as_json:
        print_json(found)


def call_search(
    output: str,
    spec_file: Path,
    overrides: list[str] | None,
    scheduled_time: str | None,
    query: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Search an output and print what was found.

    Args:
        output: where the rows are published.
        spec_file: the spec that made them.
        overrides: changes of it.
        scheduled_time: what placeholders in paths stand for, as it was written; None: now.
        query: what is searched for.
        as_json: whether to end with what was found as one line of JSON.
        options: the flow's other parameters.
    """
    from tasks.searching.published import published_vectors
    from tasks.searching.query import read_query
    from tasks.timeouts import at_output

    spec = load_at(spec_file, [*(overrides or []), sink_at(output)], scheduled_time)
    # What is wrong with the call is said before a flow starts.
    asked = read_query(spec, query, options["query_as"])
    with at_output(spec):
        published_vectors(spec, options["column"])

    from flows.printing import print_matches
    from flows.search import refuse_call, refuse_prefix, search
    from flows.server_away import call

    refuse_call(options["k"], options["recall"])
    refuse_prefix(asked, options["prefix"])
    with server_at_hand(() if asked.media == "vector" else spec.model.slow_imports):
        found = call(search, spec, query, **options)
    print_matches(results, found)
    if as_json:
        print_json(found)


def run_flow(spec: BatchInferenceSpec, **options: Any) -> dict[str, Any]:
    """Run the flow with live progress; return its report.

    The report's seconds are the run's. Before it Prefect starts a server, where there is none, and
    that is said beside them as `prefect`.
    """
    from tasks.clusters.waiting import driver_in_waiting

    with driver_in_waiting(spec):
        with quick_imports():
            from flows.batch_inference import batch_inference
            from flows.server_away import call

        begun = time.monotonic()
        is_inline = isinstance(spec.cluster, InlineCluster)
        with at_terminal(spec.model.slow_imports if is_inline else ()):
            report = call(batch_inference, spec, **options)
    seconds = report["seconds"]
    seconds["prefect"] = round(max(0.0, time.monotonic() - begun - seconds["total"]), 3)
    return report


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
    from flows.server_away import call

    start, end = (
        None if text is None else parse_time(field, text)
        for field, text in zip(("--from", "--to"), between, strict=True)
    )
    portions(spec, start, end, every)  # what is wrong with the call is said before a flow starts
    with at_terminal():
        report = call(backfill, spec, start, end, every, **options)
    print_periods(results, report)
    if as_json:
        print_json(report)
