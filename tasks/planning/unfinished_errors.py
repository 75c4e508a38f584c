"""What to say of an unfinished run that is in the way, and the ways out."""

from tasks.counted import counted
from tasks.errors import UnfinishedRun
from tasks.protocol.layout import OutputFolder, RunFolder

UNTOLD = "unknown, for example because its plan is gone or another release started it"
LEFT_TO_A_BACKFILL = "is given up, and only a backfill --from that time predicts its inputs"


def of_another_time(output: OutputFolder, run: RunFolder, time: str) -> UnfinishedRun:
    """The error for an unfinished run of the same spec, of another scheduled time."""
    error = UnfinishedRun(
        f"{output.path} has the unfinished run {run.run_id} of the scheduled time {time}, which "
        f"has other inputs: finish it first, with --scheduled-time {time}. With --restart it "
        f"{LEFT_TO_A_BACKFILL}"
    )
    error.scheduled_time = time
    return error


def of_a_run(output: OutputFolder, run: RunFolder, rows: int) -> UnfinishedRun:
    """The error for an unfinished run of the same spec, beside which a redrive is asked for."""
    return UnfinishedRun(
        f"{output.path} has the unfinished run {run.run_id}{done_in_words(rows)}, which is no "
        "redrive: finish it first with `batch-inference run SPEC` (if a gate holds its rows back, "
        "--accept publishes them), or use --restart to give it up (nothing published is lost)"
    )


def giving_up(*, is_begun: bool) -> tuple[str, str]:
    """The option that gives an unfinished run up, and that it does; nothing where there is none.

    Whoever were sent without it to what predicts every input again would be refused there as well.
    """
    return (" --restart", "gives up the unfinished run and ") if is_begun else ("", "")


def done_in_words(rows: int) -> str:
    """How many rows a run has settled, if any."""
    return f", with {counted(rows, 'row')} done" if rows else ""


def of_another_spec(
    output: OutputFolder,
    run: RunFolder,
    differs: list[str],
    rows: int,
    time: str | None,
    *,
    of_several: bool,
) -> UnfinishedRun:
    """The error for an unfinished run of another spec.

    Args:
        output: that it is on.
        run: its folder.
        differs: what does; empty where nobody can tell.
        rows: that it has settled.
        time: that it is of, where that is another one.
        of_several: whether it is of no single time, and who asks is.
    """
    at = f" of the scheduled time {time}" if time else ""
    ways = (
        f"Finish it with --scheduled-time {time} and its own spec (or, if it has done no row, "
        f"this one); with --restart it {LEFT_TO_A_BACKFILL}"
        if time
        else "Undo the change to finish it, or use --restart to give it up (nothing published is "
        "lost)"
    )
    if of_several:
        ways = f"If a backfill of several times started it, run that backfill again. {ways}"
    return UnfinishedRun(
        f"{output.path} has the unfinished run {run.run_id}{at} of another spec"
        f"{done_in_words(rows)}; what "
        f"differs: {'; '.join(differs) or UNTOLD}. {ways}"
    )
