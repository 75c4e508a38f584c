"""The console script `batch-inference`: one function a verb, no logic of its own."""

import gc
import os
import signal
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal

import typer

from flows import ending
from flows.console import show_all_characters, take_closed_streams
from tasks.quick_imports import quick_imports

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

# Whether it can be read is told by whoever reads it, with the way out.
SpecFile = Annotated[Path, typer.Argument(metavar="SPEC.yaml", help="The spec.", readable=False)]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Change a field, such as model.revision=v2."),
]
ScheduledTime = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="The time for {scheduled:...} in paths, such as 2026-01-31T02:00; default: now.",
    ),
]
OnCluster = Annotated[
    bool, typer.Option("--cluster", help="On the spec's cluster; default: in this process.")
]
AsJson = Annotated[bool, typer.Option("--json", help="End with the report as one JSON line.")]


def tell_versions(is_asked: bool) -> None:
    """Print the versions and end, if that is asked for."""
    if is_asked:
        from flows.plain_commands import print_versions

        print_versions()
        raise typer.Exit


@app.callback()
def batch_inference(
    version: Annotated[
        bool,
        typer.Option("--version", callback=tell_versions, is_eager=True, help="Show versions."),
    ] = False,
) -> None:
    """Offline batch inference on Ray and Prefect that you can schedule and trust."""


@app.command()
def run(
    spec_file: SpecFile,
    set_: Set = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of rows; needs --output.")
    ] = None,
    output: Annotated[str | None, typer.Option(help="Output to use instead of the spec's.")] = None,
    address: Annotated[str | None, typer.Option(help="Address of a running Ray.")] = None,
    replace_output: Annotated[bool, typer.Option(help="Replace what is published.")] = False,
    restart: Annotated[bool, typer.Option(help="Give up another spec's unfinished run.")] = False,
    accept: Annotated[bool, typer.Option(help="Publish rows that gates hold back.")] = False,
    profile: Annotated[
        bool,
        typer.Option(
            help="Leave profiles of the stages in the run's folder; of a run in one process, from "
            "Python 3.12 on, perhaps not of each stage."
        ),
    ] = False,
    scheduled_time: ScheduledTime = None,
    as_json: AsJson = False,
) -> None:
    """Run a spec, or resume it; on a finished output with no new input do nothing."""
    with quick_imports():
        from flows.command_spec import spec_for_run
        from flows.flow_commands import call_flow

    spec, time = spec_for_run(spec_file, set_, limit, output, address, scheduled_time)
    options = {"restart": restart, "replace_output": replace_output, "limit": limit}
    options |= {"profile": profile}
    call_flow(spec, as_json, **options, accept=accept, scheduled_time=time)


@app.command()
def preview(
    spec_file: SpecFile,
    rows: Annotated[int, typer.Option(help="How many rows.")] = 64,
    cluster: OnCluster = False,
    set_: Set = None,
    scheduled_time: ScheduledTime = None,
    as_json: AsJson = False,
) -> None:
    """Run a few rows, publish nothing: see predictions, speed, and what all rows would take.

    Exit code 3 where a run of such rows would be held back by the error budget or a gate.
    """
    from flows.flow_commands import call_preview

    call_preview(spec_file, rows, cluster, set_, scheduled_time, as_json)


@app.command()
def verify(
    spec_file: SpecFile,
    rows: Annotated[int, typer.Option(help="How many rows.")] = 64,
    accept: Annotated[
        bool, typer.Option(help="If all come out the same, let runs continue with this config.")
    ] = False,
    tolerance: Annotated[float, typer.Option(help="For floats, as a share of the value.")] = 1e-4,
    cluster: OnCluster = False,
    set_: Set = None,
    scheduled_time: ScheduledTime = None,
    as_json: AsJson = False,
) -> None:
    """Predict published rows again, publish nothing: see whether they come out the same.

    Exit code 3 where they do not.
    """
    from flows.flow_commands import call_verify

    options = {"rows": rows, "accept": accept, "tolerance": tolerance, "on_cluster": cluster}
    call_verify(spec_file, set_, scheduled_time, as_json, **options)


@app.command()
def redrive(
    spec_file: SpecFile,
    set_: Set = None,
    restart: Annotated[bool, typer.Option(help="Give up another spec's unfinished run.")] = False,
    scheduled_time: ScheduledTime = None,
    as_json: AsJson = False,
) -> None:
    """Run the rows again that were set aside; what works now moves into the output."""
    from flows.flow_commands import call_redrive

    call_redrive(spec_file, set_, restart, scheduled_time, as_json)


@app.command()
def backfill(
    spec_file: SpecFile,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="First scheduled time.")
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="TIME", help="Last scheduled time.")] = None,
    every: Annotated[str, typer.Option(metavar="STEP", help="Such as 1d, 6h or 1w.")] = "1d",
    set_: Set = None,
    restart: Annotated[bool, typer.Option(help="Give up unfinished runs.")] = False,
    accept: Annotated[bool, typer.Option(help="Publish rows that gates hold back.")] = False,
    verify: Annotated[
        bool, typer.Option(help="Keep another config's rows if a sample comes out the same.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bring the output to what the spec would make of it today; of a range, oldest first."""
    from flows.flow_commands import call_backfill
    from tasks.spec_file import load_spec

    spec = load_spec(spec_file, set_)
    options = {"restart": restart, "accept": accept, "verify": verify}
    call_backfill(spec, (from_, to), every, as_json, **options)


@app.command()
def check(spec_file: SpecFile, set_: Set = None, scheduled_time: ScheduledTime = None) -> None:
    """Find what is wrong with a spec, and say what a run would do; publish nothing."""
    from flows.plain_commands import check_spec_file

    check_spec_file(spec_file, set_, scheduled_time)


@app.command()
def status(
    spec_file: SpecFile,
    set_: Set = None,
    scheduled_time: ScheduledTime = None,
    as_json: AsJson = False,
) -> None:
    """What is published at the spec's output, and which run is at work there."""
    from flows.plain_commands import print_status

    print_status(spec_file, set_, scheduled_time, as_json)


@app.command()
def clean(
    spec_file: SpecFile,
    delete: Annotated[bool, typer.Option(help="Delete them; default: only list them.")] = False,
    set_: Set = None,
    scheduled_time: ScheduledTime = None,
    as_json: AsJson = False,
) -> None:
    """List what lies at the output for a day or longer and nobody needs; delete it on request."""
    from flows.plain_commands import clean_output

    clean_output(spec_file, delete, set_, scheduled_time, as_json)


@app.command()
def cancel(spec_file: SpecFile, set_: Set = None, scheduled_time: ScheduledTime = None) -> None:
    """Stop the job at work on the spec's output; the run can be resumed."""
    from flows.plain_commands import cancel_jobs

    cancel_jobs(spec_file, set_, scheduled_time)


@app.command()
def search(
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="Where embeddings are.")],
    spec_file: Annotated[
        Path, typer.Option("--spec", metavar="SPEC.yaml", help="The spec that made them.")
    ],
    query: Annotated[
        str, typer.Option(help="A text, an image (file or URL), a JSON list, or a .npy file.")
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="How many rows to find.")] = 10,
    query_as: Annotated[
        Literal["auto", "text", "image", "vector"],
        typer.Option("--as", help="What the query is, if that is not detected correctly."),
    ] = "auto",
    column: Annotated[str | None, typer.Option(help="The column of embeddings.")] = None,
    any_model: Annotated[
        bool, typer.Option(help="Search even if another model made the embeddings.")
    ] = False,
    index: Annotated[
        Literal["auto", "update", "off"],
        typer.Option(help="update: create or update an index; off: use none."),
    ] = "auto",
    recall: Annotated[
        float, typer.Option(help="Share of the nearest rows that an updated index should find.")
    ] = 0.95,
    prefix: Annotated[
        str | None, typer.Option(help="Put before a text; default: the model's own for queries.")
    ] = None,
    set_: Set = None,
    scheduled_time: ScheduledTime = None,
    as_json: AsJson = False,
) -> None:
    """Find the published rows whose embeddings are nearest to a text, an image or a vector."""
    from flows.flow_commands import call_search

    options = {"k": k, "query_as": query_as, "column": column, "any_model": any_model}
    use = {"index": index, "recall": recall, "prefix": prefix}
    call_search(output, spec_file, set_, scheduled_time, query, as_json, **options, **use)


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="Where to put the demo.")] = Path("demo"),
    as_json: AsJson = False,
) -> None:
    """Classify handwritten digits, some of them broken, with a model trained on the spot."""
    from flows.demo import run_demo

    run_demo(folder, as_json)


def end_as_on_ctrl_c(number: int, frame: FrameType | None) -> None:
    """Stop the job first; also where a shell has had Ctrl-C ignored, as in a script's background.

    Raises:
        KeyboardInterrupt: unless somebody has a handler of their own.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        ending.stop_on_ctrl_c(number, frame)
    signal.raise_signal(signal.SIGINT)


def main() -> None:
    """Run the command line; it ends with one of the exit codes of `run_to_its_end`."""
    take_closed_streams()
    show_all_characters()
    # Prefect reads these when it is first imported.
    os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120")
    # The run's log goes to Prefect; a person at a terminal reads the progress and one message.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_FLOW_RUNS_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_TASK_RUNS_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_INTERNAL_LOGGING_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    signal.signal(signal.SIGTERM, end_as_on_ctrl_c)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, ending.stop_on_ctrl_c)
    try:
        ending.run_to_its_end(app)
    except SystemExit as ended:
        if ending.SERVER_GIVEN_UP.is_set():
            ending.end_at_once(ended.code)
        ending.end_at_once_on_ctrl_c(ended.code)
        raise
    finally:
        gc.freeze()  # else Python goes through all that was imported once more before it ends
