"""A run without Prefect, in a process of its own that may be struck from within."""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from tasks import lease
from tasks.errors import BatchInferenceError, InputChanged
from tasks.plan import PlannedRun, make_plan
from tasks.publish import publish_planned
from tasks.report import report_run
from tasks.run import left_to_do
from tasks.run_options import RunOptions
from tasks.spec_file import parse_spec
from tests.chaos.calls import at_call
from tests.chaos.processes import MARK
from tests.reporting import run_attempt
from tests.soak.drawn import Strike

MAX_ATTEMPTS = 5
UNFORESEEN = 70
"""Exit code of a run that ended with an error that is none of the project's."""


def lost() -> None:
    """A storage fails."""
    raise OSError("the storage fails, as it was told to")


FROM_WITHIN: dict[str, Callable[[], None]] = {
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "storage error": lost,
}


def orchestrate(
    raw: dict[str, Any], options: RunOptions, strike: Strike, log: str, environment: dict[str, str]
) -> None:
    """Do a run; the process's exit code is that of the command line.

    Args:
        raw: the spec.
        options: how it is called.
        strike: what happens to this process, if that comes from within.
        log: what it says goes to this file, which also marks the processes that it starts.
        environment: of this process, beside what it was forked with.
    """
    os.environ |= {**environment, MARK: log}
    with open(log, "ab", buffering=0) as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    if strike.fault in FROM_WITHIN:
        at_call(strike.call, strike.number, FROM_WITHIN[strike.fault], after=strike.after)
    code = 0
    try:
        carry_out(raw, options)
    except BatchInferenceError as error:
        code = error.exit_code
        print(f"{type(error).__name__}: {error}")
    except BaseException:
        code = UNFORESEEN
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def carry_out(raw: dict[str, Any], options: RunOptions) -> None:
    """Plan, predict, publish, report."""
    started = time.time()
    planned = make_plan(parse_spec(raw), options)
    if planned.nothing_to_do:
        return
    lease.hold(planned.storage, planned.run)
    planned = predict(planned)
    version = publish_planned(planned)
    report_run(planned, started, version, 1)


def predict(planned: PlannedRun) -> PlannedRun:
    """Attempt after attempt, until nothing is left to do.

    Raises:
        BatchInferenceError: another attempt cannot help, or there have been enough.
    """
    tried = 0
    while gap := left_to_do(planned, tried=tried > 0):
        tried += 1
        try:
            run_attempt(planned, gap)
        except BatchInferenceError as error:
            if not error.can_retry or tried == MAX_ATTEMPTS:
                raise
            print(f"attempt {tried} failed: {type(error).__name__}: {error}", flush=True)
            if isinstance(error, InputChanged):
                planned = make_plan(planned.spec, planned.options)
    return planned
