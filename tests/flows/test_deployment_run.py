"""Which flow runs are a deployment's, and what Prefect hands on to them, on a real server."""

from pathlib import Path
from typing import Any

import pytest
from prefect import flow, get_client
from prefect.deployments import run_deployment
from prefect.flow_engine import run_flow

from flows import deployment_run
from flows.batch_inference import batch_inference
from flows.deployment_run import is_deployment_run
from tests.flows.conftest import published, spec_of

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


def test_a_deployment_made_in_python_takes_a_spec_as_it_was_loaded(numbers: Path) -> None:
    spec = spec_of(numbers)
    made: Any = batch_inference.to_deployment("served", parameters={"spec": spec})
    deployed = made.apply()
    default: Any = run_deployment(deployed, timeout=0)
    given: Any = run_deployment(deployed, timeout=0, parameters={"spec": spec})
    assert default.parameters == given.parameters == {"spec": spec.as_json()}
    run_flow(batch_inference, flow_run=given, parameters=given.parameters)
    assert len(published(spec)) == 1000
