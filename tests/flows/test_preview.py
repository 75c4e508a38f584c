"""A few rows through the real pipeline: seen, measured, and gone again."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

from flows.batch_inference import batch_inference
from flows.preview import preview, stop_preview
from flows.printing import preview_lines
from tasks import report
from tasks.clusters import stopping
from tasks.errors import InvalidSpec, StageFailed, Unreachable
from tasks.plan import make_plan
from tasks.previewing import trial_of
from tasks.run import left_to_do, new_job
from tasks.run_options import RunOptions
from tasks.spec_file import parse_spec
from tests.flows.conftest import spec_of
from tests.reporting import html_in

VLLM = {"kind": "vllm", "task": "generate", "name_or_path": "any/model"}

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


def page_of(name: str) -> str:
    """The newest preview artifact of a spec."""
    only = ArtifactFilter(key=ArtifactFilterKey(any_=[f"{name}-preview"]))
    with get_client(sync_client=True) as client:
        found = client.read_artifacts(artifact_filter=only)
    return str(max(found, key=lambda each: each.updated or 0).data)


def left_behind(folder: Path) -> list[str]:
    """Files beside the inputs."""
    return [
        str(path) for path in folder.rglob("*") if path.is_file() and "numbers" not in str(path)
    ]


def test_a_preview_shows_inputs_beside_predictions_and_leaves_nothing(numbers: Path) -> None:
    found = preview(spec_of(numbers, name="seen"), rows=20)
    assert found["rows"] == {"read": 20, "written": 20, "rejected": 0, "filtered": 0}
    assert found["sample"][3] == {"id": "3", "x": "3", "doubled": "6"}
    assert found["source"]["inputs"] == 10
    assert found["source"]["rows"] == 1000
    page = page_of("seen")
    assert "# seen-preview: 20 rows, nothing published" in page
    assert "<td>doubled</td>" in page or "<th>doubled</th>" in page
    assert left_behind(numbers.parent) == []


def test_of_many_columns_a_preview_says_which_it_does_not_show(numbers: Path) -> None:
    names = [f"*c{at:02}*" for at in range(12)]
    steps = [{"kind": "template", "column": name, "template": "{x}"} for name in names]
    found = preview(spec_of(numbers, name="wide", steps=steps), rows=2)
    assert [*found["sample"][0]] == ["id", "x", *names[:4], *names[7:], "doubled"]
    assert found["columns_not_shown"] == names[4:7]
    assert "Columns not shown: *c04*, *c05*, *c06*" in html_in(page_of("wide"))


def test_of_many_predictions_a_preview_shows_all_and_fewer_inputs(numbers: Path) -> None:
    steps = [{"kind": "template", "column": f"c{at:02}", "template": "{x}"} for at in range(12)]
    model = {"kind": "python", "class": "predictors:Scores", "init": {"num_scores": 20}}
    found = preview(spec_of(numbers, name="scores", steps=steps, model=model), rows=2)
    scores = [f"score{at:02}" for at in range(20)]
    assert [*found["sample"][0]] == ["id", "x", "c10", "c11", *scores]
    assert found["columns_not_shown"] == [f"c{at:02}" for at in range(10)]
    assert "<th>score09</th>" in page_of("scores")


@pytest.mark.parametrize(
    ("cluster", "rows_per_file", "told"),
    [
        ("local", None, "2,500 or more, of some 2 rows or fewer: by sink.partition_by each write "),
        ("local", 1_000, None),
        ("inline", None, None),  # where rows wait for others of their folders
    ],
)
def test_a_preview_says_that_a_run_would_write_many_small_files(
    tmp_path: Path, cluster: str, rows_per_file: int | None, told: str | None
) -> None:
    folder = tmp_path / "numbers"
    folder.mkdir()
    columns = {"id": range(5_000), "user": [f"u{at % 5}" for at in range(5_000)]}
    pq.write_table(pa.table({**columns, "x": [0.5] * 5_000}), folder / "0.parquet")
    sink = {"kind": "parquet", "path": str(tmp_path / "out"), "partition_by": ["user"]}
    spec = spec_of(folder, sink={**sink, "rows_per_file": rows_per_file}, name="files")
    read = {"read": {"rows_per_batch": 10}}
    planned_for = {"cluster": {"kind": cluster}, "stages": read}
    spec = parse_spec({**spec.model_dump(mode="json", by_alias=True), **planned_for})
    found = preview(spec, rows=20)
    assert (found["small_files"] or "").startswith(told or "")
    assert bool(found["small_files"]) is bool(told)
    assert ("sink.rows_per_file" in page_of("files").split("The spec")[0]) is bool(told)


def test_of_many_rows_a_page_shows_some_and_the_estimate_counts_all(numbers: Path) -> None:
    found = preview(spec_of(numbers, name="many"), rows=70)
    assert found["rows"]["written"] == 70
    page = page_of("many")
    rows, after = page.split("## Inputs and predictions")[1].split("and 6 more")
    assert rows.count("<tr>") == 1 + 64
    assert "## Speed" in after


def test_no_preview_fails_since_prefect_cannot_show_it(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(report, "show_page", refuse)
    assert preview(spec_of(numbers), rows=5)["rows"]["written"] == 5
    assert "the preview cannot be shown in Prefect: ConnectionError('413" in caplog.text


def refuse(*_: object) -> None:
    raise ConnectionError("413 Request Entity Too Large")


def test_the_estimate_is_of_all_rows_with_its_range(numbers: Path) -> None:
    slow = {"kind": "python", "class": "predictors:Double", "init": {"seconds": 0.25}}
    cost = {"per_cpu_hour": 36.0}
    found = preview(spec_of(numbers, model=slow, cost=cost), rows=40)
    estimate = found["estimate"]
    # 8 batches of 5 rows and 0.25 s each: a thousand rows are 200 batches, 50 s.
    assert (estimate["rows"], estimate["is_total"], estimate["stage"]) == (1000, True, "infer")
    assert (estimate["batches"], estimate["more_rows"]) == (7, None), "all but the first"
    low, high = estimate["seconds_range"]
    assert 49.9 < low <= estimate["seconds"] <= high
    # Of a run in this process the model's core is held, as its report has it too.
    assert estimate["cost"] == pytest.approx(estimate["seconds"] * 1 * 0.01, rel=1e-3)


def test_rows_that_nobody_has_counted_are_reckoned(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(40):  # more than are looked at
        lines = "".join(f"{number},{row}.0\n" for row in range(50))
        (folder / f"{number:02d}.csv").write_text("id,x\n" + lines)
    found = preview(spec_of(folder, source={"kind": "csv", "path": str(folder)}), rows=10)
    assert found["rows"]["read"] == 10
    assert found["source"]["rows"] == pytest.approx(2_000, rel=0.05)
    assert found["source"]["rows_are_known"] is False
    assert found["estimate"]["rows"] == found["source"]["rows"]
    assert found["estimate"]["is_total"] is True


def test_rows_set_aside_are_shown_with_their_reason(numbers: Path) -> None:
    bad = {"kind": "python", "class": "predictors:Picky", "init": {"refuses": [2.0, 5.0]}}
    found = preview(spec_of(numbers, model=bad), rows=10)
    assert (found["rows"]["written"], found["rows"]["rejected"]) == (8, 2)
    assert "2 x ValueError in infer: cannot double [2.0]" in found["set_aside"][0]


def test_a_preview_says_why_a_run_would_be_held_back(numbers: Path) -> None:
    bad = {"kind": "python", "class": "predictors:Picky", "init": {"refuses": [2.0, 5.0]}}
    gates = [
        {"kind": "bounds", "column": "doubled", "maximum": 1},
        {"kind": "bounds", "column": "doubled", "minimum": 0},
        {"kind": "rows", "minimum": 1_000},  # which no preview has
    ]
    found = preview(spec_of(numbers, model=bad, gates=gates), rows=10)
    budget, gate = found["would_be_held_back"]
    allowed = "more than errors.max_rejected_fraction 0.01 allows"
    assert budget == f"2 of 10 rows set aside, {allowed}"
    assert gate.startswith("FAILED")
    assert preview_lines(found)["held back"] == f"a run would be: {budget}; {gate}"
    (said,) = preview(
        spec_of(numbers, gates=[{"kind": "nulls", "column": "y", "max_fraction": 0}]), rows=4
    )["would_be_held_back"]
    assert "gates.0.column: 'y' is not among the columns of the output: id, x, doubled" in said
    fine = preview(spec_of(numbers, gates=gates[1:]), rows=4)
    assert fine["would_be_held_back"] == []
    assert "held back" not in preview_lines(fine)


def test_a_word_that_makes_text_of_numbers_is_told(numbers: Path) -> None:
    import joblib
    from sklearn.linear_model import LinearRegression

    (numbers.parent / "words.csv").write_text("id,x\n1,unknown\n2,1.5\n3,2.5\n")
    source = {"kind": "csv", "path": str(numbers.parent / "words.csv")}
    picky = {"kind": "python", "class": "predictors:Picky", "init": {"refuses": []}}
    (said,) = preview(spec_of(numbers, source=source, model=picky))["would_be_held_back"]
    assert "3 of 3 rows set aside" in said
    assert "'x' is read as text, because 'unknown' is among its numbers" in said
    file = numbers.parent / "line.joblib"
    joblib.dump(LinearRegression().fit([[1.0, 1.0]], [1.0]), file)
    line = {"kind": "sklearn", "path": str(file), "columns": ["x", "id"], "trust_pickle": True}
    with pytest.raises(InvalidSpec, match=r"stage infer .*is string.* 'unknown' is among its"):
        preview(spec_of(numbers, source=source, model=line))


def test_what_no_row_came_to_has_no_speed_and_nothing_is_reckoned(numbers: Path) -> None:
    nothing = {"kind": "python", "function": "predictors:refuse_all"}
    found = preview(spec_of(numbers, name="none", steps=[nothing]), rows=10)
    assert found["rows"]["rejected"] == 10
    assert found["rows_per_second"]["preprocess"] > 0
    assert found["rows_per_second"]["infer"] is found["rows_per_second"]["write"] is None
    assert found["estimate"] is None
    assert "based on" not in page_of("none")


def test_another_model_may_be_previewed_on_a_published_output(numbers: Path) -> None:
    spec = spec_of(numbers)
    batch_inference(spec)
    before = {path: path.stat().st_mtime_ns for path in Path(spec.sink.path).iterdir()}
    other = {"kind": "python", "class": "predictors:Picky", "init": {"refuses": []}}
    found = preview(spec_of(numbers, model=other), rows=5)
    assert (found["published"], found["source"]["rows"]) == (False, 1000)
    assert {path: path.stat().st_mtime_ns for path in Path(spec.sink.path).iterdir()} == before


def test_what_is_wrong_with_the_pipeline_is_said_and_nothing_is_left(numbers: Path) -> None:
    dies = {"kind": "python", "class": "predictors:Double", "init": {"dies": 3.0}}
    with pytest.raises(StageFailed, match="the device is gone"):
        preview(spec_of(numbers, model=dies), rows=10)
    assert left_behind(numbers.parent) == []
    with pytest.raises(InvalidSpec, match="rows: 0 must be at least 1"):
        preview(spec_of(numbers), rows=0)


def test_who_waits_for_a_preview_is_told_once_and_not_to_go_on(
    numbers: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lacking = {"kind": "python", "class": "predictors:LacksItsFile"}
    with pytest.raises(StageFailed, match=r"no file vocab.txt \(predictors.py:\d+ in __init__\)$"):
        preview(spec_of(numbers, model=lacking, retries={"max_attempts": 3}), rows=10)
    assert "another follows" not in caplog.text


def test_a_cancelled_preview_leaves_nothing(numbers: Path) -> None:
    spec = spec_of(numbers)
    trial = trial_of(spec, 10, "the-run")
    state = Path(f"{trial.sink.path}.state")
    (state / "runs").mkdir(parents=True)

    parameters = {"spec": json.loads(spec.model_dump_json(by_alias=True)), "rows": 10}
    stop_preview(
        None,
        SimpleNamespace(
            id="the-run", parameters=parameters, expected_start_time=None, parent_task_run_id=None
        ),
        None,
    )
    assert not state.exists()


def test_a_preview_whose_job_could_not_be_stopped_leaves_word_that_it_is_to_end(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attach(_: Any) -> Any:
        raise Unreachable("cluster.address: gone")

    spec = spec_of(numbers)
    planned = make_plan(trial_of(spec, 10, "the-run"), RunOptions(limit=10))
    job = new_job(planned, left_to_do(planned, tried=False), 1)
    monkeypatch.setattr(stopping, "cluster_of", lambda _: SimpleNamespace(attach=attach))
    parameters = {"spec": json.loads(spec.model_dump_json(by_alias=True)), "rows": 10}
    cancelled = SimpleNamespace(
        id="the-run", parameters=parameters, expected_start_time=None, parent_task_run_id=None
    )
    with pytest.raises(Unreachable):
        stop_preview(None, cancelled, None)
    assert Path(job.stopped_file).exists()


def test_a_preview_needs_no_cluster_and_says_where_it_was_measured(numbers: Path) -> None:
    nowhere = {"kind": "ray_jobs", "address": "http://127.0.0.1:9"}
    spec = spec_of(numbers, name="here", cluster=nowhere)
    found = preview(spec, rows=8)
    assert found["rows"]["written"] == 8
    said = "on this machine's CPUs, not on cluster ray_jobs, where a run would go"
    assert said in found["measured"]
    assert said in preview_lines(found)["measured"]
    assert "not on cluster ray_jobs" in page_of("here")
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"):
        preview(spec, rows=8, on_cluster=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"resources": {"num_gpus": 1}},
            r"resources\.num_gpus: 1.* is not possible in this process",
        ),
        ({"model": VLLM}, r"resources\.num_gpus: 1.* on cluster.kind local"),
        ({"resources": {"accelerator_type": "A100"}}, r"accelerator_type: 'A100' .*--cluster"),
        ({"environment": {"env_vars": {"A": "b"}}}, r"env_vars: \['A'\] .* on cluster.kind local"),
    ],
)
def test_what_only_the_cluster_has_is_named_with_the_way_there(
    numbers: Path, changes: dict[str, Any], message: str
) -> None:
    spec = spec_of(numbers, cluster={"kind": "local"}, **changes)
    with pytest.raises(InvalidSpec, match=message):
        preview(spec)
