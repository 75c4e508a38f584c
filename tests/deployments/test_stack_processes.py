"""The stack ends its own processes and no others."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from socket import socket

import psutil
import pytest
from typer.testing import CliRunner

from deployments.stack import stack as whole_stack
from deployments.stack.__main__ import app, introduce, say
from deployments.stack.ports import any_free_port, free_port_from, is_free
from deployments.stack.processes import ServiceFailedError, await_ready, start
from deployments.stack.registration import register
from deployments.stack.services import Service, prefect_server
from deployments.stack.stack import Stack, down, known_or_new, up
from deployments.stack.state import State, load_state, save_state, state_file
from tasks.lease import Holder
from tests.web_server import web_server


@contextmanager
def sleeping(**environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is no service's."""
    command = [sys.executable, "-c", "print(flush=True); import time; time.sleep(60)"]
    child = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE)
    assert child.stdout
    child.stdout.readline()
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def saved(folder: Path, **processes: Holder) -> State:
    state = State(prefect_port=1, ray_port=2, processes=processes)
    save_state(folder, state)
    return state


def test_down_ends_services_and_what_they_left_behind(tmp_path: Path) -> None:
    state = saved(tmp_path)
    with sleeping() as service, sleeping(STACK_MARK=state.mark) as orphan, sleeping() as stranger:
        state.processes["worker"] = Holder.of(service.pid)
        save_state(tmp_path, state)
        assert down(tmp_path, print)
        assert not psutil.pid_exists(service.pid)
        assert not psutil.pid_exists(orphan.pid)
        assert stranger.poll() is None
    assert not down(tmp_path, print), "there is no stack any more"


def test_folders_and_names_are_told_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path("/data/[old]:eyes:/[/b]")
    introduce(Stack(folder, State(prefect_port=1, ray_port=2), print))
    say(f"the automation '[nightly] alert [/]' of {folder}")
    said = capsys.readouterr().err
    assert f"needs the ray_token in {folder}/stack.json" in said
    assert f"{folder}/logs" in said
    assert f"'[nightly] alert [/]' of {folder}" in said


def test_a_service_that_ends_of_itself_meanwhile_keeps_no_other_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def terminate_too_late(service: psutil.Process) -> None:
        service.kill()
        raise psutil.NoSuchProcess(service.pid)

    monkeypatch.setattr(psutil.Process, "terminate", terminate_too_late)
    with sleeping() as one, sleeping() as other:
        saved(tmp_path, server=Holder.of(one.pid), worker=Holder.of(other.pid))
        assert down(tmp_path, print)
        assert not psutil.pid_exists(one.pid)
        assert not psutil.pid_exists(other.pid)


def test_a_pid_that_has_passed_to_another_process_is_left_alone(tmp_path: Path) -> None:
    with sleeping() as stranger:
        recycled = replace(Holder.of(stranger.pid), birth="another boot 1")
        saved(tmp_path, server=recycled)
        assert down(tmp_path, print)
        assert stranger.poll() is None


def test_no_setting_for_another_server_leads_this_one_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would answer 404 to whoever asks whether it is ready."""
    monkeypatch.setenv("PREFECT_SERVER_API_BASE_PATH", "/prefect/api")
    server = prefect_server(tmp_path, State(prefect_port=1, ray_port=2))
    assert "PREFECT_SERVER_API_BASE_PATH" not in server.environment


def test_a_service_that_ends_at_once_says_why(tmp_path: Path) -> None:
    service = Service("server", ["prefect", "server", "nonsense"], dict(os.environ), lambda: False)
    log = tmp_path / "logs/server.log"
    process = start(service, log)
    with pytest.raises(ServiceFailedError, match="server ended") as told:
        await_ready(service, Holder.of(process.pid), log)
    process.wait()
    assert str(log) in str(told.value)
    assert "nonsense" in str(told.value)


def test_a_port_that_is_taken_is_passed_over() -> None:
    with socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        taken = listener.getsockname()[1]
        assert free_port_from(taken) > taken


def test_a_port_for_later_is_none_that_others_are_given_meanwhile() -> None:
    """A server listens there seconds after it was chosen, in which thousands of others connect."""
    chosen = [any_free_port() for _ in range(50)]
    assert max(chosen) < 32_768, "from there on Linux hands them out"
    assert min(chosen) >= 20_000, "below, a Ray's workers take theirs"
    assert all(map(is_free, chosen))


def test_a_service_whose_port_somebody_else_has_taken_is_not_started(tmp_path: Path) -> None:
    with socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        save_state(tmp_path, State(prefect_port=listener.getsockname()[1], ray_port=2))
        with pytest.raises(ServiceFailedError, match="make down, then make up"):
            known_or_new(tmp_path)


def test_no_proxy_is_asked_for_what_is_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all machines of a place reach the web by one, the stack was never ready."""
    for name, value in (("http_proxy", "http://proxy:3128"), ("no_proxy", "x"), ("NO_PROXY", "x")):
        monkeypatch.setenv(name, value)
    brought: list[Stack] = []
    monkeypatch.setattr(whole_stack, "bring_up", brought.append)
    up(tmp_path, print)
    (stack,) = brought
    # Its own processes, and the questions that this one asks.
    for environment in (stack.environment, os.environ):
        assert environment["no_proxy"] == environment["NO_PROXY"] == "x,127.0.0.1"


def test_a_password_that_is_not_the_servers_is_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "operator:of another stack")
    with web_server(tmp_path) as server:
        server.trouble = 401
        state = State(prefect_port=int(server.address.rpartition(":")[2]), ray_port=2)
        monkeypatch.setattr(whole_stack, "bring_up", lambda _: register(state))
        told = CliRunner().invoke(app, ["up", "--folder", str(tmp_path)])
    assert told.exit_code == 1
    said = f"Unreachable Prefect's server at {state.api_url} does not answer, or refuses access"
    assert told.output.startswith(said)
    assert "PREFECT_API_AUTH_STRING" in told.output


def test_a_server_that_is_started_once_more_knows_who_holds_a_deployments_places(
    tmp_path: Path,
) -> None:
    """Else Prefect ends each run whose place the server does not know, minutes later."""
    told = prefect_server(tmp_path, State(prefect_port=1, ray_port=2)).environment
    names = ("PREFECT_HOME", "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE")
    script = """
import asyncio, sys
from datetime import timedelta
from uuid import UUID, uuid4
from prefect.server.concurrency.lease_storage import get_concurrency_lease_storage
leases, for_long = get_concurrency_lease_storage(), timedelta(minutes=5)
if known := sys.argv[1:]:
    print(asyncio.run(leases.renew_lease(UUID(known[0]), for_long)))
else:
    print(asyncio.run(leases.create_lease([uuid4()], for_long)).id)
"""
    environment = os.environ | {name: told[name] for name in names}

    def server(*known: str) -> str:
        command = [sys.executable, "-c", script, *known]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    lease = server()
    assert server(lease) == "True"


def test_nobody_else_can_read_the_state(tmp_path: Path) -> None:
    state = saved(tmp_path)
    assert load_state(tmp_path) == state
    assert state_file(tmp_path).stat().st_mode & 0o077 == 0
    assert load_state(tmp_path / "elsewhere") is None


def test_the_commands_say_what_runs(tmp_path: Path) -> None:
    where = ["--folder", str(tmp_path)]
    assert CliRunner().invoke(app, ["down", *where]).exit_code == 0
    assert CliRunner().invoke(app, ["status", *where]).exit_code == 1
    with sleeping() as service:
        saved(tmp_path, worker=Holder.of(service.pid))
        told = CliRunner().invoke(app, ["status", *where])
        assert told.exit_code == 1, "neither Ray nor the server runs"
        assert f"worker  process {service.pid}" in told.output


def test_no_process_here_is_ended_for_a_stack_on_another_machine(tmp_path: Path) -> None:
    with sleeping() as stranger:
        saved(tmp_path, server=replace(Holder.of(stranger.pid), host="elsewhere"))
        assert down(tmp_path, print)
        assert stranger.poll() is None
