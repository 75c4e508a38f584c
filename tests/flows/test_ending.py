"""How a command ends where somebody tells it to, at whatever moment."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from pydantic import BaseModel, field_serializer
from pydantic_core import SchemaError

from flows import ending

LAST_WORDS = """
import signal, threading, time
from flows import cli
signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's background jobs ignore it

def tell_a_server():
    threading.main_thread().join()
    time.sleep(0.5)  # a signal is lost on Python in the moment in which it begins to wait
    print("done", flush=True)
    time.sleep(60)

@cli.app.command()
def work():
    threading.Thread(target=tell_a_server).start()

cli.main()
"""


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_who_tells_it_to_end_once_it_is_done_waits_no_longer(told: signal.Signals) -> None:
    """As for what Prefect tells its server at the end: Python would show a traceback, and wait."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", LAST_WORDS, "work"], **pipes) as running:
        assert running.stdout
        assert running.stdout.readline() == "done\n"
        running.send_signal(told)
        assert running.communicate(timeout=60) == ("", "")
    assert running.returncode == 0


class Unwritable(BaseModel):
    """Stands for any class that Pydantic is at work on when the signal comes."""

    word: str = ""

    @field_serializer("word")
    def show(self, word: str) -> str:
        raise KeyboardInterrupt


def make_a_class() -> None:
    raise SchemaError('Error building "model" validator:\n  SchemaError: KeyboardInterrupt: ')


def read_an_index() -> None:
    raise pa.ArrowInvalid("External error: TerminationSignal: ")


def search_an_index() -> None:
    with suppress(KeyboardInterrupt):
        ending.stop_on_ctrl_c(signal.SIGINT, None)
    raise ValueError("Invalid argument error: Metric type '<unprintable str object>'")


OF_OTHERS = [Unwritable().model_dump, make_a_class, read_an_index, search_an_index]


@pytest.mark.parametrize("work", OF_OTHERS)
def test_ctrl_c_is_known_also_where_it_comes_amid_the_work_of_others(
    work: Callable[[], object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As while Pydantic makes the spec's classes: it was a traceback, and exit 1."""
    monkeypatch.setattr(sys, "argv", ["batch-inference", "run", "spec.yaml", "--json"])
    monkeypatch.setattr(ending, "STOP_ASKED", Event())
    with pytest.raises(SystemExit) as ended:
        ending.run_to_its_end(work)
    assert ended.value.code == 130
    told = json.loads(capsys.readouterr().out)
    assert (told["error_class"], told["exit_code"]) == ("KeyboardInterrupt", 130)


AMID_OTHERS = """
import signal
from flows import cli

class Word:
    def __str__(self):
        signal.raise_signal(signal.SIGINT)

@cli.app.command()
def work():
    try:
        str(Word())
    except BaseException:
        pass
    raise ValueError("a library's own")

signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's background jobs ignore it
cli.main()
"""


def test_ctrl_c_is_known_where_no_word_of_it_is_left() -> None:
    done = subprocess.run([sys.executable, "-c", AMID_OTHERS, "work"], capture_output=True)
    assert (done.returncode, done.stderr) == (130, b"")
