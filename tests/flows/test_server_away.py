"""A Prefect server that is gone once a run has ended: what was done is done, and said."""

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.runtime import flow_run
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    get_current_settings,
    temporary_settings,
)

from flows import ending, server_away
from flows.batch_inference import batch_inference
from flows.server_away import ask_server, own_error
from tasks.errors import GateFailed, Unreachable
from tasks.previewing import clear_away
from tasks.ray_job.counts import STAGES
from tests.flows.conftest import published, spec_of
from tests.flows.test_cli import call, write_spec

SLOW = {"kind": "python", "class": "predictors:Double", "init": {"seconds": 0.1}}
pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


def refuse(*given: object) -> None:
    """As Prefect's client does where nobody listens."""
    asked = httpx.Request("POST", f"{PREFECT_API_URL.value()}/flow_runs/")
    raise httpx.ConnectError("All connection attempts failed", request=asked)


@pytest.fixture
def none_at_the_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """The server is gone once a flow has ended; codes with which the process would end."""
    really = SyncPrefectClient.set_flow_run_state

    def tell(client: SyncPrefectClient, run: Any, state: Any, force: bool = False) -> Any:
        if not state.is_final():
            return really(client, run, state, force)
        assert client._client.timeout.read == server_away.LAST_WORD_SECONDS
        return refuse()

    monkeypatch.setattr(SyncPrefectClient, "set_flow_run_state", tell)
    monkeypatch.setattr(SyncPrefectClient, "hello", refuse)
    monkeypatch.setattr(server_away, "COMMAND_SECONDS", 0.1)
    codes: list[object] = []
    monkeypatch.setattr(ending, "end_at_once", codes.append)
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 5}):
        yield codes
    ending.SERVER_GIVEN_UP.clear()


def test_what_is_published_is_done(
    numbers: Path,
    none_at_the_end: list[object],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call(monkeypatch, "run", str(write_spec(numbers.parent)), "--json") == 0
    said = capsys.readouterr()
    report = json.loads(said.out.splitlines()[-1])
    assert "ConnectError): no longer waiting for it" in said.err
    assert "done, but Prefect was not told: its server at http://" in said.err
    assert f"`prefect flow-run delete {report['flow_run_id']}` removes it there" in said.err
    assert len(published(spec_of(numbers))) == 1000
    assert get_current_settings().client.max_retries == 0, "nobody waits for it again"
    assert get_current_settings().api.request_timeout == server_away.LAST_WORD_SECONDS
    assert none_at_the_end == [0], "nor for what Prefect has still to tell it"


@pytest.mark.usefixtures("none_at_the_end")
def test_what_ended_a_run_is_told_and_not_that_prefect_was_not(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {"kind": "python", "class": "predictors:Double", "init": {"bad": 123.0}}
    tight = {"max_rejected_fraction": 0.0005}
    spec = str(write_spec(numbers.parent, model=bad, errors=tight))
    assert call(monkeypatch, "run", spec) == 3
    said = capsys.readouterr().err
    assert "ErrorBudgetExceeded: 1 of 1,000 rows set aside" in said
    assert "Prefect was not told how the run ended: its server at http://" in said


def test_a_server_that_is_back_in_time_is_told_that_the_run_is_done(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Prefect would tell it by then that the run has failed, since it could not tell it before."""
    monkeypatch.setattr("tasks.timeouts.MAX_BACKOFF_SECONDS", 0.1)
    really, asked = SyncPrefectClient.hello, []

    def hello(client: SyncPrefectClient) -> httpx.Response:
        asked.append(client)
        if len(asked) < 3:
            refuse()
        return really(client)

    monkeypatch.setattr(SyncPrefectClient, "hello", hello)
    state: Any = batch_inference(spec_of(numbers), return_state=True)
    assert (state.name, len(asked)) == ("Completed", 3)
    assert "is away (ConnectError); retrying for at most 600 s" in caplog.text


def test_a_server_that_missed_the_end_of_the_stages_shows_it_once_it_is_back(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the pictures of a run that is done would say for ever how long it goes on."""
    really = SyncPrefectClient.update_artifact
    monkeypatch.setattr("tasks.stage_artifacts.REPORT_EVERY_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(SyncPrefectClient, "update_artifact", refuse)

    def ask() -> None:
        monkeypatch.setattr(SyncPrefectClient, "update_artifact", really)

    monkeypatch.setattr(server_away, "ask_server", ask)
    batch_inference(spec_of(numbers, name="missed", model=SLOW))
    keys = ArtifactFilterKey(any_=[f"missed-{stage}" for stage in STAGES])
    with get_client(sync_client=True) as client:
        found = client.read_artifacts(artifact_filter=ArtifactFilter(key=keys))
    told = {each.key: str(each.description).partition(",000 rows")[0] for each in found}
    done = dict.fromkeys(["missed-read", "missed-infer", "missed-write"], "1")
    assert told == {**done, "missed-preprocess": "nothing to do"}
    assert {each.data for each in found} == {100.0}


@pytest.mark.parametrize(
    ("status", "is_away"), [(401, False), (403, False), (404, False), (503, True)]
)
def test_a_server_that_lets_us_in_no_more_is_not_waited_for(
    status: int, is_away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = httpx.Request("GET", f"{PREFECT_API_URL.value()}/hello")
    answer = httpx.Response(status, request=asked)
    monkeypatch.setattr(SyncPrefectClient, "hello", lambda _: answer.raise_for_status())
    with pytest.raises(Unreachable) if is_away else nullcontext():
        ask_server()


def test_a_preview_whose_rows_cannot_be_cleared_away_has_failed(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prefect was told well what came of it."""

    def fail(spec: Any) -> None:
        clear_away(spec)
        raise Unreachable("the storage does not answer")

    monkeypatch.setattr("flows.preview.clear_away", fail)
    assert call(monkeypatch, "preview", str(write_spec(numbers.parent))) == 1
    assert "Unreachable: the storage does not answer" in capsys.readouterr().err


def delete_flow_run() -> None:
    with get_client(sync_client=True) as client:
        client.delete_flow_run(UUID(str(flow_run.id)))


@pytest.mark.parametrize(("maximum", "code"), [(1.0, 0), (0.0005, 3)])
def test_a_flow_run_that_somebody_deletes_meanwhile_ends_as_it_would_have(
    numbers: Path,
    maximum: float,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As one of which a server knows nothing whose database is lost."""
    for module in ("batch_inference", "at_work"):
        monkeypatch.setattr(f"flows.{module}.await_server", delete_flow_run)
    bad = {"kind": "python", "class": "predictors:Double", "init": {"bad": 123.0}}
    errors = {"max_rejected_fraction": maximum}
    spec = str(write_spec(numbers.parent, model=bad, errors=errors))
    assert call(monkeypatch, "run", spec) == code
    said = capsys.readouterr().err
    assert "Prefect was not told" in said
    assert "answers 404" in said
    assert ("ErrorBudgetExceeded: 1 of 1,000 rows" in said) is (code == 3)
    assert len(published(spec_of(numbers))) == (0 if code else 999)


def test_own_errors_are_found_behind_the_clients() -> None:
    def fail() -> None:
        try:
            raise GateFailed("too few")
        except GateFailed:
            raise httpx.ConnectError("refused") from OSError()

    with pytest.raises(httpx.ConnectError) as raised:
        fail()
    assert isinstance(own_error(raised.value), GateFailed)
    assert own_error(ValueError()) is None
