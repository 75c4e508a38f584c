"""Which flow runs are a deployment's, on a real server."""

import pytest
from prefect import flow, get_client
from prefect.flow_engine import run_flow

from flows import deployment_run
from flows.deployment_run import is_deployment_run

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


@flow
def inner() -> bool:
    return is_deployment_run()


@flow
def outer() -> tuple[bool, bool]:
    return is_deployment_run(), inner()


def test_those_that_a_deployment_has_started_and_what_they_call() -> None:
    with get_client(sync_client=True) as client:
        deployment = client.create_deployment(client.create_flow(outer), "nightly")
        run = client.create_flow_run_from_deployment(deployment)
    assert run_flow(outer, flow_run=run) == (True, True)
    assert outer() == (False, False)


def test_prefects_server_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment_run, "deployment", None)
    assert not inner()
