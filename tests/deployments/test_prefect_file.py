"""The deployments' file is read strictly: Prefect drops what it does not know."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployments import prefect_file
from deployments.parameters import full_spec, stack_file
from deployments.prefect_file import PREFECT_FILE, PrefectFile, load_prefect_file
from deployments.stack.registration import BLOCK, QUEUES
from deployments.stack.state import DEFAULT_FOLDER, POOL, ROOT
from tasks.errors import InvalidSpec
from tasks.spec import BatchInferenceSpec

DIGITS = "deployments/specs/digits.yaml"
FILE: dict[str, Any] = yaml.safe_load(PREFECT_FILE.read_text())
SPECS = sorted(
    str(file.relative_to(PREFECT_FILE.parents[1]))
    for file in (PREFECT_FILE.parent / "specs").glob("*.yaml")
)


def changed(tmp_path: Path, *where: str | int, to: Any) -> Path:
    """The shipped file with one thing changed or added."""
    raw = yaml.safe_load(PREFECT_FILE.read_text())
    at = raw
    for part in where[:-1]:
        at = at[part]
    at[where[-1]] = to
    file = tmp_path / "prefect.yaml"
    file.write_text(yaml.safe_dump(raw))
    return file


def test_the_shipped_file_is_read() -> None:
    found = load_prefect_file()
    names = [deployment.name for deployment in found.deployments]
    assert len(names) == len(set(names)) == len(FILE["deployments"])
    slugs = [schedule.slug for each in found.deployments for schedule in each.schedules]
    assert slugs
    assert None not in slugs, "a schedule without a slug is made anew by each deployment"


@pytest.mark.parametrize(
    "where",
    [
        ("deploymens",),
        ("deployments", 0, "schedule"),
        ("deployments", 0, "schedules", 0, "time_zone"),
        ("deployments", 0, "work_pool", "job_variabels"),
        ("deployments", 0, "concurrency_limit", "colision_strategy"),
    ],
)
def test_an_unknown_key_is_an_error_at_every_level(
    tmp_path: Path, where: tuple[str | int, ...]
) -> None:
    with pytest.raises(InvalidSpec, match=f"{where[-1]}: Extra inputs are not permitted"):
        load_prefect_file(changed(tmp_path, *where, to="1"))


@pytest.mark.parametrize("limit", [0, -1, {"limit": 0, "collision_strategy": "ENQUEUE"}])
def test_a_limit_below_which_nothing_runs_is_an_error(tmp_path: Path, limit: Any) -> None:
    """Whoever means that says paused; to Prefect each run of it waits for ever."""
    with pytest.raises(InvalidSpec, match=r"concurrency_limit\..*greater than"):
        load_prefect_file(changed(tmp_path, "deployments", 0, "concurrency_limit", to=limit))


def test_of_two_deployments_of_one_name_none_takes_the_others_place(tmp_path: Path) -> None:
    copied = [*FILE["deployments"], FILE["deployments"][0]]
    with pytest.raises(InvalidSpec, match="deployments of one flow are named classify-images"):
        load_prefect_file(changed(tmp_path, "deployments", to=copied))


@pytest.mark.parametrize(
    ("text", "problem"), [("name: a\nname: b", "has 'name' twice"), ("a: [", "is not YAML")]
)
def test_a_file_that_says_a_thing_twice_or_nothing(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "prefect.yaml"
    with pytest.raises(InvalidSpec, match=r"prefect\.yaml cannot be read: No such file"):
        load_prefect_file(file)
    file.write_text(text)
    with pytest.raises(InvalidSpec, match=problem):
        load_prefect_file(file)


@pytest.mark.parametrize(
    ("key", "value"), [("cron", "61 2 * * *"), ("timezone", "Europe/Atlantis"), ("cron", None)]
)
def test_a_schedule_that_never_comes_is_an_error(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(InvalidSpec, match=r"deployments\.0\.schedules\.0"):
        load_prefect_file(changed(tmp_path, "deployments", 0, "schedules", 0, key, to=value))


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ({"interval": 3600, "anchor_date": "2026-01-01T00:00:00Z"}, None),
        ({"interval": "PT1H"}, None),
        ({"cron": "{{ $CRON }}", "timezone": "{{ $ZONE }}"}, None),
        ({"rrule": "FREQ=DAILY", "timezone": "UTC", "active": "{{ $ON }}"}, None),
        ({"cron": "0 2 * * *"}, "give the timezone of cron"),
        ({"cron": "0 2 * * *", "timezone": "UTC", "interval": 60}, "give one of cron, interval"),
        ({"slug": "nightly"}, "give one of cron, interval"),
    ],
)
def test_what_prefect_knows_of_schedules_may_be_used(
    tmp_path: Path, schedule: dict[str, Any], said: str | None
) -> None:
    file = changed(tmp_path, "deployments", 0, "schedules", 0, to=schedule)
    if said is None:
        load_prefect_file(file)
        return
    with pytest.raises(InvalidSpec, match=said):
        load_prefect_file(file)


def test_null_is_as_if_it_were_left_out(tmp_path: Path) -> None:
    """Files that `prefect init` makes are full of it."""
    file = changed(tmp_path, "deployments", 0, "version", to=None)
    raw = yaml.safe_load(file.read_text())
    raw |= dict.fromkeys(("prefect-version", "build", "push", "pull"))
    raw["deployments"][0] |= dict.fromkeys(("tags", "schedules", "concurrency_limit", "paused"))
    file.write_text(yaml.safe_dump(raw))
    assert load_prefect_file(file).deployments[0].schedules == []
    raw["deployments"][0] |= {"paussed": None}
    file.write_text(yaml.safe_dump(raw))
    with pytest.raises(InvalidSpec, match=r"deployments\.0\.paussed: Extra inputs"):
        load_prefect_file(file)


def test_an_only_step_needs_no_list(tmp_path: Path) -> None:
    step = {"prefect.deployments.steps.set_working_directory": {"directory": "/code"}}
    assert load_prefect_file(changed(tmp_path, "pull", to=step)).pull == [step]
    assert load_prefect_file(changed(tmp_path, "pull", to={})).pull == []


@pytest.mark.parametrize(
    ("placeholder", "is_filled_in"),
    [
        ("{{ digits.spec }}", True),
        ("{{spec}}", True),
        ("{{ digits.spec.source }}", True),
        ("{{ $SPEC }}", True),
        ("{{ prefect.variables.spec }}", True),
        ("{{ spec.spec }}", False),
        ("{{ digits.spce }}", False),
        ("{{ digits }}", False),
        ("{{ image.tag }}", False),
    ],
)
@pytest.mark.parametrize("where", [(), ("schedules", 0, "parameters")])
def test_a_placeholder_that_no_step_fills_in_is_an_error(
    tmp_path: Path, placeholder: str, is_filled_in: bool, where: tuple[str | int, ...]
) -> None:
    """Prefect leaves such a parameter out, and each night fails for want of it."""
    parameters = {"spec": placeholder}
    file = changed(tmp_path, "deployments", 0, *(where or ["parameters"]), to=parameters)
    if is_filled_in:
        load_prefect_file(file)
        return
    said = f"parameters of classify-images: {placeholder} is not an output of a build step: "
    with pytest.raises(InvalidSpec, match=f"does not fit:\n{re.escape(said)}there is digits.spec"):
        load_prefect_file(file)


def test_a_step_that_makes_what_is_asked_for_is_to_have_its_id(tmp_path: Path) -> None:
    step = {"deployments.parameters.full_spec": {"file": DIGITS}}
    with pytest.raises(InvalidSpec, match=r"there is no step with an id: .* it id: digits$"):
        load_prefect_file(changed(tmp_path, "deployments", 0, "build", to=[step]))


def test_what_a_step_of_somebody_elses_gives_nobody_knows(tmp_path: Path) -> None:
    step = {"prefect_docker.deployments.steps.build_docker_image": {"id": "image"}}
    own = [*FILE["deployments"][0]["build"], step]
    for placeholder in ("{{ image.tag }}", "{{ tag }}", "{{ additional_tags[0] }}"):
        entry = FILE["deployments"][0] | {"build": own, "parameters": {"spec": placeholder}}
        load_prefect_file(changed(tmp_path, "deployments", 0, to=entry))
    entry["parameters"] = {"spec": "{{ spec.spec }}"}
    with pytest.raises(InvalidSpec, match=r"there is digits\.spec, image\.\*"):
        load_prefect_file(changed(tmp_path, "deployments", 0, to=entry))


def test_every_key_that_prefect_reads_is_known() -> None:
    """A file of somebody's own may use them; one that Prefect lacks here would be dropped."""
    from prefect.cli.deploy import _models as theirs

    for ours, known in (
        (prefect_file.Schedule, theirs.RawScheduleConfig),
        (prefect_file.ConcurrencyLimit, theirs.ConcurrencyLimitSpec),
        (prefect_file.WorkPool, theirs.WorkPoolConfig),
        (prefect_file.Deployment, theirs.DeploymentConfig),
        (PrefectFile, theirs.PrefectYamlModel),
    ):
        deprecated = {"schedule"} if ours is prefect_file.Deployment else set[str]()
        extra = {"definitions"} if ours is PrefectFile else set[str]()
        assert set(ours.model_fields) - extra == set(known.model_fields) - deprecated


def test_the_readmes_example_fits() -> None:
    text = (PREFECT_FILE.parent / "README.md").read_text()
    example = text.split("```yaml\n")[1].split("```")[0]
    found = PrefectFile.model_validate(yaml.safe_load(example))
    theirs = FILE["definitions"]["work_pool"]
    assert found.deployments[0].work_pool == prefect_file.WorkPool(**theirs)


@pytest.mark.parametrize("file", SPECS)
def test_a_spec_is_deployed_with_every_field_written_out(file: str) -> None:
    spec = full_spec(file)["spec"]
    assert BatchInferenceSpec.model_validate(spec).model_dump(mode="json", by_alias=True) == spec
    assert set(spec) == set(BatchInferenceSpec.model_fields), "fields left out are guessed"
    assert spec["source"]["kind"]
    assert spec["cluster"]["kind"]


def test_a_spec_of_ones_own_is_read_from_where_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Path(ROOT / DIGITS).read_text().replace("name: ", "name: own-", 1)
    (tmp_path / "deployments/specs").mkdir(parents=True)
    (tmp_path / DIGITS).write_text(own)
    assert not full_spec(DIGITS)["spec"]["name"].startswith("own-")
    monkeypatch.chdir(tmp_path)
    assert full_spec(DIGITS)["spec"]["name"].startswith("own-")
    with pytest.raises(InvalidSpec, match=r"SPEC: 'deployments/specs/none.yaml' cannot be read"):
        full_spec("deployments/specs/none.yaml")


def test_a_stack_elsewhere_has_its_data_there() -> None:
    here, there = (
        full_spec(DIGITS)["spec"],
        full_spec(DIGITS, stack_folder="/elsewhere/stack")["spec"],
    )
    assert here["source"]["path"].startswith(str(PREFECT_FILE.parents[1] / ".stack/data/"))
    assert there["source"]["path"].startswith("/elsewhere/stack/data/")
    assert there["sink"]["path"].startswith("/elsewhere/stack/predictions/")


def test_a_file_of_the_stack_lies_in_the_stack() -> None:
    assert stack_file("data/x.png") == {"path": f"{DEFAULT_FOLDER}/data/x.png"}
    assert stack_file("data/x.png", "/elsewhere/") == {"path": "/elsewhere/data/x.png"}


def test_a_deployment_may_change_a_field_of_its_spec() -> None:
    assert full_spec(DIGITS, ["cluster={kind: inline}"])["spec"]["cluster"] == {"kind": "inline"}
    with pytest.raises(InvalidSpec, match=r"cluster\.kind: 'cloud' is not one of"):
        full_spec(DIGITS, ["cluster={kind: cloud}"])


def test_the_stack_has_what_the_deployments_name() -> None:
    for deployment in load_prefect_file().deployments:
        assert deployment.work_pool.name == POOL
    clusters = [full_spec(file)["spec"]["cluster"] for file in SPECS]
    assert {cluster["block"] for cluster in clusters if cluster["kind"] == "ray_jobs"} == {BLOCK}


def test_deployments_that_write_one_output_share_a_queue() -> None:
    """A scheduled run that finds another at work on its output fails, and is not started again."""
    writers: dict[str, list[str | None]] = {}
    for deployment in load_prefect_file().deployments:
        if deployment.entrypoint.rpartition(".")[2] in {"batch_inference", "backfill", "redrive"}:
            (step,) = deployment.build
            (parameters,) = step.values()
            queue = deployment.work_pool.work_queue_name
            writers.setdefault(parameters["file"], []).append(queue)
    shared = {queue for queues in writers.values() if len(queues) > 1 for queue in queues}
    assert shared == set(QUEUES)
    assert all(len(set(queues)) == 1 for queues in writers.values())
