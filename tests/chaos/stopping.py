"""Runs that are stopped in the middle of publishing: `python -m tests.chaos.stopping SCENES`.

SCENES is a JSON list of scenes. In each a run stops itself (SIGSTOP) at a call of publishing,
another one comes to its end, and the first goes on. Both are processes of their own, forked from
this one, which has imported all and started no thread. Prints how each of them ended.
"""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tasks import lease
from tasks.errors import BatchInferenceError
from tasks.plan import make_plan
from tasks.publish import publish_planned
from tasks.report import report_run
from tasks.run_options import RunOptions
from tasks.spec_file import parse_spec
from tests.chaos.calls import at_call
from tests.chaos.publisher import predict


def stop_itself() -> None:
    """Stop this process until somebody lets it go on."""
    os.kill(os.getpid(), signal.SIGSTOP)


def run(raw: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Plan, predict, publish, report, and say all the while who does it."""
    started = time.time()
    planned = make_plan(parse_spec(raw), RunOptions(**options))
    if planned.nothing_to_do:
        return report_run(planned, started).as_json()
    lease.hold(planned.storage, planned.run)
    predict(planned)
    return report_run(planned, started, publish_planned(planned), 1).as_json()


def fork(scene: dict[str, Any], raw: dict[str, Any], log: str, *, stops: bool) -> int:
    """A process that does a run; its exit code is that of the command line."""
    pid = os.fork()
    if pid:
        return pid
    code = 0
    try:
        if stops:
            at_call(scene["call"], scene["number"], stop_itself, after=scene["after"])
        host = scene["host"] if stops else socket.gethostname()
        with (
            patch.object(socket, "gethostname", lambda: host),
            patch.object(lease, "SILENT_SECONDS", scene["silent_seconds"]),
        ):
            report = run(raw, {} if stops else scene["options"])
        Path(log).with_suffix(".json").write_text(json.dumps(report))
    except BatchInferenceError as error:
        code = error.exit_code
        with open(log, "w") as file:
            file.write(str(error))
    except BaseException as error:
        code = 1
        with open(log, "w") as file:
            file.write(repr(error))
    os._exit(code)


def play(scene: dict[str, Any]) -> dict[str, Any]:
    """One scene: how the two ended, in their own words."""
    logs = [f"{scene['folder']}/{name}.log" for name in ("first", "other")]
    first = fork(scene, scene["first"], logs[0], stops=True)
    _, status = os.waitpid(first, os.WUNTRACED)
    assert os.WIFSTOPPED(status), f"it ended before it stopped: {status}"
    time.sleep(scene["silent_seconds"])
    other = fork(scene, scene["other"], logs[1], stops=False)
    codes = [os.waitstatus_to_exitcode(os.waitpid(other, 0)[1])]
    os.kill(first, signal.SIGCONT)
    codes.insert(0, os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]))
    reports = [Path(log).with_suffix(".json") for log in logs]
    told = [json.loads(each.read_text()) if each.exists() else None for each in reports]
    said = [Path(log).read_text() if os.path.exists(log) else "" for log in logs]
    return {"codes": codes, "said": said, "first": first, "reports": told}


if __name__ == "__main__":
    print(json.dumps([play(scene) for scene in json.loads(sys.argv[1])]))
