"""A server has the deployments of a file as the file is now, and what people have switched off."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import (
    DeploymentScheduleCreate,
    DeploymentUpdate,
    WorkPoolCreate,
)
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId
from prefect.client.schemas.objects import StateType
from prefect.client.schemas.schedules import CronSchedule
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    get_current_settings,
    temporary_settings,
)

from deployments import automations
from deployments.automations_left import automations_left
from deployments.deploying import check_specs, deploy, leave_at_rest
from deployments.entry_defaults import enforce_schemas, keep_places
from deployments.known_deployments import all_deployments
from deployments.lost_schedules import remove_lost_schedules
from deployments.misfits import refuse_misfit_values
from deployments.misspelt import refuse_unknown_steps
from deployments.named_server import named_server
from deployments.prefect_command import DeployFailedError, run_prefect
from deployments.prefect_file import Deployment
from flows.search import search
from tasks.errors import InvalidSpec

POOL = "deployed"
SEARCH = "flows.search.search"
HERE, SMALL = "flow.py:search", "from prefect import flow\n\n@flow\ndef search(): ...\n"
DAILY = {"cron": "0 2 * * *", "timezone": "UTC"}


def entry(name: str, *slugs: str, **more: Any) -> dict[str, Any]:
    """A deployment of a file."""
    return {
        "name": name,
        "entrypoint": SEARCH,
        "description": name,
        "schedules": [{**DAILY, "slug": slug} for slug in slugs],
        "work_pool": {"name": POOL},
        **more,
    }


@pytest.fixture
def server(prefect_server: None) -> Iterator[Any]:
    """A client of a server with a pool of the test's own, whose deployments go with it."""
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name=POOL, type="process"), overwrite=True)
        yield client
        for each in client.read_deployments():
            if each.work_pool_name == POOL:
                client.delete_deployment(each.id)


def deployed(client: Any, name: str, entrypoint: str = SEARCH, **slugs: bool) -> Any:
    """A deployment of an earlier file: slugs of its schedules, and whether each is on."""
    daily: Any = CronSchedule(cron=DAILY["cron"], timezone="UTC")
    made = client.create_deployment(
        client.create_flow(search),
        name=name,
        entrypoint=entrypoint,
        work_pool_name=POOL,
        schedules=[
            DeploymentScheduleCreate(schedule=daily, slug=slug, active=on)
            for slug, on in slugs.items()
        ],
    )
    return client.read_deployment(made)


def test_without_its_work_pool_nothing_is_deployed(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flow.py").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    lacks = entry("no-pool", entrypoint=HERE, work_pool={"name": "nowhere"})
    file = tmp_path / "prefect.yaml"
    entries = [entry("has-pool", entrypoint=HERE), lacks]
    file.write_text(yaml.safe_dump({"name": "ours", "pull": [], "deployments": entries}))
    told = r"^no-pool: work_pool\.name: 'nowhere' is .*: prefect work-pool create nowhere --type"
    with pytest.raises(InvalidSpec, match=told):
        deploy(server, os.environ, file, tmp_path)
    assert not {"has-pool", "no-pool"} & {each.name for each in server.read_deployments()}


@pytest.mark.prefect
def test_a_queue_that_prefect_makes_without_a_limit_is_told_of(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flow.py").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    pool = {"name": POOL, "work_queue_name": "in-turn"}
    entries = [entry(name, entrypoint=HERE, work_pool=pool) for name in ("one", "other")]
    file = tmp_path / "prefect.yaml"
    file.write_text(yaml.safe_dump({"name": "ours", "pull": [], "deployments": entries}))
    environment = os.environ | get_current_settings().to_environment_variables(exclude_unset=True)
    told: list[str] = []
    deploy(server, environment, file, tmp_path, told.append)
    (said,) = (line for line in told if "in-turn" in line)
    command = re.search(r"prefect (work-queue .*) has them", said)
    assert command
    call = [sys.executable, "-m", "prefect", *command[1].split()]
    subprocess.run(call, env=environment, check=True)
    queue = server.read_work_queue_by_name("in-turn", work_pool_name=POOL)
    assert queue.concurrency_limit == 1, "what is told does it"
    deploy(server, environment, file, tmp_path, told.append)
    assert len([line for line in told if "in-turn" in line]) == 1


@pytest.mark.prefect
def test_what_a_file_has_lost_goes_and_what_somebody_has_switched_off_stays_so(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a flow of no parameters: of each deployment the server looks at all that a spec may be."""
    (tmp_path / "flow.py").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    deployed(server, "renamed", HERE, nightly=True)
    changed = deployed(server, "changed", HERE, nightly=False, old=True)
    server.update_deployment(changed.id, DeploymentUpdate(enforce_parameter_schema=False))
    by_hand = deployed(server, "by-hand", HERE, nightly=True)
    # Of people's own, made in Prefect's pages: it has no slug.
    own: Any = CronSchedule(cron="30 5 * * *", timezone="UTC")
    server.create_deployment_schedules(by_hand.id, [(own, True)])
    paused = deployed(server, "paused", HERE, nightly=True)
    moved = deployed(server, "moved", "flows.where_it_was.search", nightly=False)
    for each in (paused, moved):
        server.pause_deployment(each.id)
    entries = [
        entry("new-name", "nightly", entrypoint=HERE, concurrency_limit=1),
        entry("changed", "nightly", "new", entrypoint=HERE),
        entry("by-hand", entrypoint=HERE),
        entry("paused", "nightly", entrypoint=HERE),
        entry("moved", "nightly", entrypoint=HERE),
    ]
    file = tmp_path / "prefect.yaml"
    file.write_text(yaml.safe_dump({"name": "ours", "pull": [], "deployments": entries}))
    environment = os.environ | get_current_settings().to_environment_variables(exclude_unset=True)
    said: list[str] = []
    deploy(server, environment, file, tmp_path, said.append)

    def schedules(of: Any) -> dict[str, bool]:
        found = server.read_deployment(of.id).schedules
        return {each.slug or each.schedule.cron: each.active for each in found}

    assert schedules(changed) == {"nightly": False, "new": True}
    assert server.read_deployment(changed.id).enforce_parameter_schema
    assert schedules(by_hand) == {own.cron: True}
    assert schedules(paused) == {"nightly": True}
    assert schedules(moved) == {"nightly": False}
    for each in (paused, moved):
        assert server.read_deployment(each.id).paused
    new = server.read_deployment_by_name("search/new-name")
    assert not new.paused
    assert new.global_concurrency_limit.limit == 1
    told = new.concurrency_options.model_dump(mode="json")
    assert told == {"collision_strategy": "ENQUEUE", "grace_period_seconds": 1800}
    assert said == [
        "the schedule old of changed is removed, since its file does not have it",
        "the schedule nightly of by-hand is removed, since its file does not have it",
        f"1 deployment of the same work pool, not in {file}, on a schedule: search/renamed; one "
        "that is not in another file either is a leftover: prefect deployment delete NAME "
        "removes it",
    ]


@pytest.mark.prefect
@pytest.mark.parametrize("weeks_behind", [None, 4])
def test_nights_that_are_late_outlive_their_schedule(
    server: Any, monkeypatch: pytest.MonkeyPatch, weeks_behind: int | None
) -> None:
    """As where a slug is renamed on a day without a worker: nobody else would do their days.

    They are late by the server's clock, by which they start, and not by this machine's.
    """
    if weeks_behind:
        at_server = datetime.now(UTC) - timedelta(weeks=weeks_behind)
        monkeypatch.setattr("flows.heartbeats.time_at_server", lambda: at_server)
    tonight = datetime.now(UTC).replace(hour=2, minute=0, second=0, microsecond=0)
    nights = [tonight - timedelta(days=each) for each in (3, 2, 1)]
    made = deployed(server, "late", old=True)
    server.request(
        "POST",
        "/deployments/{id}/schedule",
        path_params={"id": made.id},
        json={"start_time": str(nights[0]), "end_time": str(nights[-1]), "min_runs": 3},
    )
    said: list[str] = []
    wanted = Deployment.model_validate(entry("late", "new"))
    remove_lost_schedules(server, made, wanted, said.append)
    assert said == ["the schedule old of late is removed, since its file does not have it"]
    assert not server.read_deployment(made.id).schedules
    its = DeploymentFilter(id=DeploymentFilterId(any_=[made.id]))
    kept = server.read_flow_runs(deployment_filter=its)
    late = [] if weeks_behind else nights
    assert sorted(each.expected_start_time for each in kept) == late
    assert sorted(each.next_scheduled_start_time for each in kept) == late
    assert {each.state_type for each in kept} <= {StateType.SCHEDULED}


@pytest.mark.prefect
def test_what_prefect_refuses_is_told_in_a_few_lines(server: Any, tmp_path: Path) -> None:
    """Its answer holds all that was sent: 60,000 characters, where a flow takes a spec."""
    file = tmp_path / "prefect.yaml"
    entries = [entry("wrong", parameters={"k": "{{ $HOW_MANY }}"})]
    file.write_text(yaml.safe_dump({"name": "ours", "pull": [], "deployments": entries}))
    environment = os.environ | get_current_settings().to_environment_variables(exclude_unset=True)
    environment["HOW_MANY"] = "many"
    with pytest.raises(DeployFailedError, match="Validation failed for field 'k'") as failed:
        deploy(server, environment, file, tmp_path)
    assert len(str(failed.value)) < 8000


@pytest.mark.prefect
def test_an_automation_whose_deployment_is_gone_is_told_of(server: Any) -> None:
    """Made anew under the same name, a deployment has another id."""
    gone, there = deployed(server, "gone"), deployed(server, "there")
    alert = automations.alert_when_overdue(uuid4(), "search/gone", hours=26)
    arrival = automations.run_on_arrival("search/gone", "data.arrived", "s3://bucket/*")
    after = automations.run_after("search/there", then="search/there")
    made = automations.deploy_automations([alert, arrival, after])
    server.delete_deployment(gone.id)
    deployed(server, "gone")
    ids = {str(each.id) for each in all_deployments(server)}
    assert str(there.id) in ids
    assert sorted(automations_left(server, ids)) == sorted([alert.name, arrival.name])
    for each in server.read_automations():
        if each.id in made:
            server.pause_automation(each.id)
    assert automations_left(server, ids) == []
    for each in made:
        server.delete_automation(each)


def test_what_a_file_says_of_its_rest_counts_and_is_nobody_elses() -> None:
    """Entries may share schedules, by an anchor."""
    slept = type("Schedule", (), {"slug": "nightly", "active": False})
    found: Any = type("Found", (), {"paused": True, "schedules": [slept]})
    raw = [entry("a", "nightly"), entry("b", "nightly", paused=False), entry("new", "nightly")]
    raw[0] |= {"paused": None}
    raw[1]["schedules"][0]["active"] = True
    leave_at_rest(raw, {(SEARCH, "a"): found, (SEARCH, "b"): found})
    assert [each.get("paused") for each in raw] == [True, False, None]
    assert [each["schedules"][0].get("active") for each in raw] == [False, True, None]
    renamed = [entry("a", "night")]
    renamed[0]["schedules"][0]["replaces"] = "nightly"
    leave_at_rest(renamed, {(SEARCH, "a"): found})
    assert renamed[0]["schedules"][0]["active"] is False


def test_a_place_is_kept_for_a_process_that_takes_its_time_to_begin() -> None:
    """Else another run takes it, and Prefect cancels the first for good once that begins."""
    own = {"limit": 2, "collision_strategy": "CANCEL_NEW"}
    raw = [entry(str(limit), concurrency_limit=limit) for limit in (None, "3", own)]
    raw += [entry("own", concurrency_limit={**own, "grace_period_seconds": 60})]
    keep_places(raw)
    assert [each["concurrency_limit"] for each in raw] == [
        None,
        {"limit": 3, "collision_strategy": "ENQUEUE", "grace_period_seconds": 1800},
        {**own, "grace_period_seconds": 1800},
        {**own, "grace_period_seconds": 60},
    ]


def test_parameters_are_looked_at_again_where_an_entry_no_longer_says_otherwise() -> None:
    raw = [entry("a"), entry("b", enforce_parameter_schema=False)]
    raw[0] |= {"enforce_parameter_schema": None}
    enforce_schemas(raw)
    assert [each["enforce_parameter_schema"] for each in raw] == [True, False]


def test_a_server_that_tells_some_at_a_time_is_asked_for_all() -> None:
    class Client:
        def read_deployments(self, *, offset: int, **_: Any) -> list[int]:
            return [*range(450)][offset : offset + 200]

    client: Any = Client()
    assert all_deployments(client) == [*range(450)]


def test_schedules_that_share_an_anchor_rest_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deployments import deploying

    schedules = [{**DAILY, "slug": "nightly"}]
    shared = [{**entry("a"), "schedules": schedules}, {**entry("b"), "schedules": schedules}]
    file = tmp_path / "prefect.yaml"
    file.write_text(yaml.safe_dump({"name": "ours", "deployments": shared}))
    assert "*id" in file.read_text()
    slept = type("Schedule", (), {"slug": "nightly", "active": False})
    found: Any = type("Found", (), {"paused": False, "schedules": [slept]})
    brought: dict[str, Any] = {}

    def run_prefect(file: Path, *_: object) -> None:
        brought.update(yaml.safe_load(file.read_text()))
        raise InvalidSpec("far enough")

    monkeypatch.setattr(deploying, "refuse_no_pool", lambda *_: None)
    monkeypatch.setattr(deploying, "run_prefect", run_prefect)
    monkeypatch.setattr(deploying, "known_of", lambda *_: {(SEARCH, "a"): found})
    nobody: Any = None
    with pytest.raises(InvalidSpec, match="far enough"):
        deploy(nobody, {}, file)
    rest = [each["schedules"][0].get("active") for each in brought["deployments"]]
    assert rest == [False, None]


def test_a_file_with_a_key_that_prefect_would_drop_is_not_deployed(tmp_path: Path) -> None:
    file = tmp_path / "prefect.yaml"
    file.write_text(yaml.safe_dump({"name": "ours", "deployments": [entry("a", paussed=True)]}))
    nobody: Any = None
    with pytest.raises(InvalidSpec, match=r"deployments\.0\.paussed: Extra inputs"):
        deploy(nobody, {}, file)


STEP = {"deployments.parameters.stack_file": {"id": "a", "file": "x"}}
SPEC = {"deployments.parameters.full_spec": {"id": "a", "file": "{{ $SPEC }}"}}
MISSPELT: dict[str, tuple[dict[str, Any], str]] = {
    "a step": (
        {"build": [STEP, {"deployments.parameters.full_specc": {"file": "a.yaml"}}]},
        r"^a: build: 'deployments\.parameters\.full_specc' is not a .* no attribute 'full_specc'",
    ),
    "its package": (
        {"push": {"deploymens.parameters.stack_file": {"file": "x"}}},
        r"^a: push: 'deploymens\.parameters\.stack_file' is not a .*: No module named 'deploymen",
    ),
    "a step where runs start": (
        {"pull": [{"prefect.deployments.steps.set_working_directori": {"directory": "/x"}}]},
        r"^a: pull: 'prefect\.deployments\.steps\.set_working_directori' is not a step",
    ),
    "what a step takes": (
        {"build": [{"deployments.parameters.full_spec": {"id": "a", "fil": "a.yaml"}}]},
        r"^a: build: 'fil' is not a parameter of .*full_spec, which takes .*; did you mean file\?",
    ),
    "what a step needs": (
        {"build": [{"deployments.parameters.full_spec": {"id": "a"}}]},
        r"^a: build: deployments\.parameters\.full_spec: missing a required argument: 'file'",
    ),
    "a parameter": (
        {"parameters": {"spec": {}, "querry_": "cat"}},
        r"^a: parameters: 'querry_' is not a parameter of flows\.search\..*did you mean query",
    ),
    "a value": (
        {"parameters": {"spec": "{{ a.spec }}", "query": "cat", "k": "many"}, "build": [SPEC]},
        r"^a: parameters\.k: 'many' does not fit, .* should be a valid integer",
    ),
    "a schedule's value": (
        {"schedules": [{**DAILY, "parameters": {"any_model": "perhaps"}}]},
        r"^a: schedules\.parameters\.any_model: 'perhaps' does not fit, .* a valid boolean",
    ),
    "a schedule's": (
        {"schedules": [{**DAILY, "parameters": {"kk": 3}}]},
        r"^a: parameters: 'kk' is not a parameter of flows\.search\.search, which takes .*k",
    ),
}


@pytest.mark.parametrize(("changes", "said"), MISSPELT.values(), ids=MISSPELT.keys())
def test_a_name_that_nobody_has_is_named_before_anything_is_deployed(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """Prefect shows where in its code it met one, or deploys it, and every run fails."""
    file = tmp_path / "prefect.yaml"
    file.write_text(yaml.safe_dump({"name": "ours", "deployments": [entry("a", **changes)]}))
    nobody: Any = None
    with pytest.raises(InvalidSpec, match=said):
        deploy(nobody, {}, file)


def test_values_that_are_filled_in_or_converted_are_nobodys_slip() -> None:
    variable = {"__prefect_kind": "workspace_variable", "variable_name": "q"}
    values: dict[str, Any] = {"k": "5", "query": "{{ $QUERY }}", "column": None, "index": "off"}
    values |= {"query": variable, "any_model": {"$ref": "a block's id"}}
    refuse_misfit_values(Deployment.model_validate(entry("a", parameters=values)))


def test_a_step_that_may_be_there_where_it_is_called_is_nobodys_slip() -> None:
    steps = {
        "pull": [{"of_the_workers_image.steps.fetch": {"any": "thing"}}],
        "build": [{"prefect_docker.steps.build_image": {"requires": "prefect-docker", "tag": "x"}}],
    }
    refuse_unknown_steps(Deployment.model_validate(entry("a", **steps)))


def test_what_prefects_command_fails_on_is_said_without_its_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "flow.py").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "prefect.yaml"
    wrong = entry("a", entrypoint="flow.py:sarch")
    file.write_text(yaml.safe_dump({"name": "ours", "deployments": [wrong]}))
    with pytest.raises(DeployFailedError, match="Flow function with name 'sarch' not f") as caught:
        run_prefect(file, os.environ, tmp_path)
    assert "Traceback" not in str(caught.value)
    assert "  File " not in str(caught.value)


def test_a_wrong_spec_is_named_before_anything_is_deployed(tmp_path: Path) -> None:
    shipped = {
        "deployments.parameters.full_spec": {"id": "a", "file": "deployments/specs/sql.yaml"}
    }
    wrong = {"id": "b", "file": "b.yaml", "changes": ["resources.num_gpus=-1"]}
    (tmp_path / "b.yaml").write_text(
        "source: {kind: csv, path: in}\nmodel: {kind: xgboost, path: m.ubj}\n"
        "sink: {kind: parquet, path: out}\n"
    )
    steps = [shipped, {"deployments.parameters.full_spec": wrong}]
    file = tmp_path / "prefect.yaml"
    file.write_text(yaml.safe_dump({"name": "ours", "deployments": [entry("a", build=steps)]}))
    nobody: Any = None
    with pytest.raises(InvalidSpec, match=r"^a: b\.yaml: resources\.num_gpus: -1 is not allowed"):
        deploy(nobody, {}, file, tmp_path)
    shared = {
        "name": "ours",
        "build": steps,
        "deployments": [entry("a"), entry("b", build=[shipped])],
    }
    file.write_text(yaml.safe_dump(shared))
    with pytest.raises(InvalidSpec, match=r"^a: b\.yaml: resources\.num_gpus: -1 is not allowed"):
        deploy(nobody, {}, file, tmp_path)
    wrong["changes"] = ["resources.num_gpus={{ $GPUS }}"]
    deployment = Deployment.model_validate(entry("a", build=steps))
    check_specs(deployment, tmp_path)  # it is Prefect that fills them in


def test_a_schedules_spec_that_takes_the_whole_ones_place_is_a_whole_one(tmp_path: Path) -> None:
    """Prefect merges nothing into it: each of its runs would fail."""
    part = {"errors": {"max_rejected_fraction": 0.5}}
    whole = {
        "source": {"kind": "csv", "path": "/in"},
        "model": {"kind": "xgboost", "path": "/m.ubj"},
        "sink": {"kind": "parquet", "path": "/out"},
    }
    file = tmp_path / "prefect.yaml"

    def check(spec: Any, entrypoint: str = SEARCH) -> None:
        schedules = [{**DAILY, "parameters": {"spec": spec}}]
        step = {"deployments.parameters.full_spec": {"id": "a", "file": "{{ $SPEC }}"}}
        wanted = entry("a", schedules=schedules, build=[step], entrypoint=entrypoint)
        file.write_text(yaml.safe_dump({"name": "ours", "deployments": [wanted]}))
        nobody: Any = None
        deploy(nobody, {}, file, tmp_path)

    said = r"^a: schedules\.parameters\.spec replaces .* Now source: is missing"
    with pytest.raises(InvalidSpec, match=said):
        check(part)
    for spec in (whole, "{{ a.spec }}", {**part, "name": "{{ $NAME }}"}):
        with pytest.raises(AttributeError, match="read_work_pool"):
            check(spec)
    (tmp_path / "flow.py").write_text(SMALL.replace("search()", "search(spec)"))
    with pytest.raises(AttributeError, match="read_work_pool"):  # a flow of somebody's own
        check(part, f"{tmp_path}/flow.py:search")


@pytest.mark.parametrize(
    ("server", "code", "said"),
    [
        (None, 2, "InvalidSpec: PREFECT_API_URL: is not set: export it first"),
        ("http://127.0.0.1:9/api", 1, "Unreachable: Prefect's server at http://127.0.0.1:9/api "),
    ],
)
def test_without_a_server_nothing_is_said_to_be_there(
    server: str | None, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prefect would start one, which ends with the command, and the automations with it."""
    settings: dict[Any, Any] = {PREFECT_API_URL: server, PREFECT_CLIENT_MAX_RETRIES: 0}
    with temporary_settings(settings), pytest.raises(SystemExit) as ended, named_server():
        automations.deploy_automations()
    assert ended.value.code == code
    told = capsys.readouterr()
    assert told.err.startswith(said)
    assert "Traceback" not in told.err
