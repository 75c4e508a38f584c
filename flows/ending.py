"""How a command ends: as one message and an exit code, and with --json as one object too."""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from threading import Event
from types import FrameType

import typer

from flows.console import kept_for_programs, print_json, say
from tasks.errors import BatchInferenceError

SERVER_GIVEN_UP = Event()
"""Set where a command waits for Prefect's server no longer."""
STOP_ASKED = Event()
"""Set where somebody has pressed Ctrl-C, or sent SIGTERM."""
STOPPED = 130


def run_to_its_end(command: Callable[[], object]) -> None:
    """Run the command line; errors of ours end as one message and an exit code.

    With --json the last line of standard output is one object, whatever ends the command.

    Args:
        command: typer's, which has its own ways to end: `SystemExit` for all but what it lets by.

    Raises:
        SystemExit: 0 done, 1 failed, 2 the spec or the call is wrong, 3 held back, 4 another run
            holds the output, 130 stopped.
    """
    # Around the errors too: what was standard output is out of reach from then on.
    with kept_for_programs() if is_for_a_program() else nullcontext():
        try:
            command()
        except BatchInferenceError as error:
            leave_object(error, str(error), error.exit_code)
            say(f"{type(error).__name__}: {error}")
            if error.report:
                say(f"report: {error.report}")
            sys.exit(error.exit_code)
        except SystemExit as ended:
            if ended.code:
                reason = reason_of(ended)
                leave_object(reason, words_of(reason), ended.code)
            raise
        except BaseException as error:
            if hides_ctrl_c(error):
                stopped = KeyboardInterrupt()
                leave_object(stopped, words_of(stopped), STOPPED)
                sys.exit(STOPPED)
            # Nobody foresaw it: Python shows where it happened.
            leave_object(error, str(error), 1)
            raise


def hides_ctrl_c(error: BaseException | None) -> bool:
    """Whether it comes of Ctrl-C, or of SIGTERM, as Prefect has it.

    Pydantic, Arrow and Lance, in whose midst it comes, tell of it as of an error of their own, and
    not always in words that have it.
    """
    seen: list[BaseException] = []
    while error is not None and error not in seen and not STOP_ASKED.is_set():
        told = f"{type(error).__name__}: {error}"
        if KeyboardInterrupt.__name__ in told or "TerminationSignal" in told:
            return True
        seen.append(error)
        error = error.__cause__ or error.__context__
    return STOP_ASKED.is_set()


def stop_on_ctrl_c(number: int, frame: FrameType | None) -> None:
    """What Python does of itself, and remember it.

    Raises:
        KeyboardInterrupt: always.
    """
    STOP_ASKED.set()
    signal.default_int_handler(number, frame)


def end_at_once_on_ctrl_c(code: object) -> None:
    """Have Ctrl-C, pressed once more, end this process as it would have ended by itself.

    It may have to wait for what Prefect tells its server, and Python would show a traceback.

    Args:
        code: to end with, as `SystemExit` has it.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: end_at_once(code))


def end_at_once(code: object) -> None:
    """End this process, with all that Prefect has not told its server.

    It would go on to do so after the command's last word: for two minutes with each event.

    Args:
        code: to end with, as `SystemExit` has it.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def leave_object(error: BaseException, words: str, exit_code: object) -> None:
    """The command's end as one line of JSON, for whoever has asked for that."""
    if is_for_a_program():
        told = {"error": words, "error_class": type(error).__name__, "exit_code": exit_code}
        report = error.report if isinstance(error, BatchInferenceError) else None
        print_json({"state": "failed", **told, **({"report": report} if report else {})})


def is_for_a_program() -> bool:
    """Whether whoever calls has asked for JSON, in a call that may be wrong besides."""
    return "--json" in sys.argv


def reason_of(ended: SystemExit) -> BaseException:
    """Why typer ends: a wrong call, or Ctrl-C."""
    reason: BaseException = ended
    while isinstance(reason, (SystemExit, typer.Exit)) and reason.__context__ is not None:
        reason = reason.__context__
    return reason


def words_of(reason: BaseException) -> str:
    """What typer shows of it; it shows nothing of Ctrl-C."""
    if isinstance(reason, KeyboardInterrupt):
        return "stopped by Ctrl-C or SIGTERM"
    # Typer has no public name for the class of all wrong calls.
    complete = getattr(reason, "format_message", reason.__str__)
    return str(complete())
