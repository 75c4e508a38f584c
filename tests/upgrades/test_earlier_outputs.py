"""This release goes on with what earlier ones have left: no row is lost, doubled or done again."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from s3fs import S3FileSystem

from tasks.errors import GateFailed, InvalidSpec
from tasks.materializing_run import plan_materializing_run
from tasks.outputs import opened
from tasks.plan import PlannedRun, make_plan
from tasks.planning.config import config_digests
from tasks.publish import publish_planned
from tasks.run import left_to_do
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import complete_spec
from tasks.spec_reading.yaml import parse_yaml
from tests import golden
from tests.reporting import run_attempt, run_spec
from tests.s3_server import S3
from tests.upgrades.earlier import ARCHIVES, Earlier, numbers, refused
from tests.upgrades.making import TOO_MANY

pytestmark = pytest.mark.s3

ALL = [*range(120)]
WITHOUT_REFUSED = [each for each in ALL if each not in (3, 13, 43)]


@pytest.fixture(params=ARCHIVES, ids=lambda archive: archive.name.partition(".")[0])
def earlier(
    request: pytest.FixtureRequest, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Earlier]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint_url)
    clear = (S3FileSystem.clear_instance_cache, opened.cache_clear)
    for each in clear:  # a process reads the environment once
        each()
    monkeypatch.delitem(sys.modules, "numbers_model", raising=False)  # of another archive, or test
    yield Earlier.unpacked(request.param, tmp_path, s3)
    for each in clear:
        each()


def go_on(spec: BatchInferenceSpec, **options: Any) -> PlannedRun:
    """A run of which something is done already."""
    planned = make_plan(spec, RunOptions(**options))
    assert planned.rows_before > 0
    run_attempt(planned)
    publish_planned(planned)
    return planned


@pytest.mark.parametrize("name", ["parquet", "csv", "jsonl"])
def test_a_run_that_was_killed_goes_on(earlier: Earlier, name: str) -> None:
    spec = earlier.spec(name)
    assert numbers(spec) == [each for each in WITHOUT_REFUSED if each < 80]
    go_on(spec)
    assert (numbers(spec), refused(spec)) == (WITHOUT_REFUSED, [3, 13, 43])
    assert make_plan(spec).nothing_to_do


def test_what_is_published_is_not_done_again(earlier: Earlier) -> None:
    """But what is new, and what has changed."""
    spec = earlier.spec("parquet")
    go_on(spec)
    earlier.put("parquet", 1, range(1040, 1080))
    earlier.put("parquet", 3)
    planned, report = run_spec(spec)
    assert (report.rows["read"], planned.inputs_skipped) == (80, 2)
    rest = [each for each in [*range(160), *range(1040, 1080)] if not 40 <= each < 80]
    assert numbers(spec) == [each for each in rest if each not in (3, 13)]
    assert refused(spec) == [3, 13]


def test_rows_of_a_key_take_the_place_of_those_that_were_published(earlier: Earlier) -> None:
    spec = earlier.spec("upsert")
    assert numbers(spec) == [*range(80)]
    go_on(spec)
    assert numbers(spec) == [*range(20, 120)]


def test_rows_set_aside_are_redriven(earlier: Earlier) -> None:
    """By a redrive that was killed, and by one that begins now."""
    spec = earlier.spec("redrive")
    go_on(spec, redrive=True)
    assert (numbers(spec), refused(spec)) == ([*range(80)], [])
    other = earlier.spec("held")
    run_spec(other, RunOptions(accept=True))
    run_spec(other, RunOptions(redrive=True))
    assert (numbers(other), refused(other)) == (ALL, [])


def test_what_a_gate_held_back_is_published_on_somebodys_word(earlier: Earlier) -> None:
    spec = earlier.spec("held", TOO_MANY)
    planned = make_plan(spec, RunOptions(accept=True))
    assert not left_to_do(planned, tried=False), "all of its rows are there"
    with pytest.raises(GateFailed):
        publish_planned(make_plan(spec))
    publish_planned(planned)
    assert numbers(spec) == WITHOUT_REFUSED


def test_rows_that_were_kept_for_a_second_job_are_taken(earlier: Earlier) -> None:
    """By the run that kept them, and by those of other outputs."""
    spec = earlier.spec("kept")
    planned = make_plan(spec)
    first = plan_materializing_run(planned)
    assert first is not None
    assert not left_to_do(first, tried=False)
    go_on(spec)
    wanted = [each for each in ALL if each % 2]
    assert numbers(spec) == wanted
    place = f"stages.preprocess.path={spec.sink.path}.state/prepared"
    other = earlier.spec("kept", f"sink.path={spec.sink.path}_other", place)
    planned = make_plan(other)
    assert plan_materializing_run(planned) is None
    run_attempt(planned)
    publish_planned(planned)
    assert numbers(other) == wanted


def test_a_spec_that_differs_is_told_in_what(earlier: Earlier) -> None:
    spec = earlier.spec("parquet", "sink.keep_columns=[number, day]")
    with pytest.raises(InvalidSpec, match=r"what differs: sink\.keep_columns was its default, now"):
        make_plan(spec)


def test_specs_that_deployments_keep_are_read_as_they_were_meant(earlier: Earlier) -> None:
    """Prefect's server has them with all fields, as that release has written them out."""
    for name, kept in earlier.parameters.items():
        file = golden.SPECS / f"{name}.yaml"
        now = complete_spec(parse_yaml(file.read_text()), [], golden.FOLDER)
        then = BatchInferenceSpec.model_validate(kept)
        assert configs_of(then) == configs_of(now), name


def configs_of(spec: BatchInferenceSpec) -> tuple[str, str]:
    """Digests of what decides its predictions, whatever weights and code are."""
    return config_digests(spec, {"model": "", "code": ""}, None)
