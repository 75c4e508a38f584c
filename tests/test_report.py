"""The report of real runs, in figures and on the page."""

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image
from rich.console import Console

from flows.printed_report import print_report
from tasks.errors import OutputHeld, StageFailed, Unreachable
from tasks.kinds.clusters import InlineCluster, LocalCluster
from tasks.plan import make_plan
from tasks.planning.unfinished import UnfinishedRuns
from tasks.protocol.rewriting import read_published
from tasks.protocol.storage import FsspecStorage
from tasks.publish import publish_planned
from tasks.publishing.rejections import Rejections
from tasks.ray_job.counts import STAGES
from tasks.report import leave_report, report_failure, report_run, show_run
from tasks.reporting.evidence import look_back, record_time
from tasks.reporting.figures import measure_seconds, rejected_by_stage
from tasks.reporting.page import time_table
from tasks.run import attempts_in
from tasks.run_options import RunOptions
from tests.noted_calls import noted_calls
from tests.ray_job.test_out_of_memory import told
from tests.reporting import classify_spec, make_inputs, run_attempt, run_spec

SECRET = "hunter2hunter2"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_inputs(tmp_path / "in")
    return tmp_path


def test_figures_are_those_of_the_records(folder: Path) -> None:
    bad = [3, 60, 61]
    _, report = run_spec(classify_spec(folder, {"bad": bad}))
    assert report.rows == {"read": 200, "written": 197, "rejected": 3, "filtered": 0}
    rows = {stage: figures["rows"] for stage, figures in report.stages.items()}
    assert rows == {"read": 200, "preprocess": 0, "infer": 200, "write": 197}
    assert report.stages["infer"]["rejected"] == 3
    assert report.stages["infer"]["seconds"] >= 0.02 * 4
    assert (report.resumed_rows, report.redone_rows, report.attempts) == (0, 0, 1)
    json.dumps(report.as_json())


def test_seconds_fit_into_the_total(folder: Path) -> None:
    _, report = run_spec(classify_spec(folder))
    total, startup, steady = (report.seconds[name] for name in ("total", "startup", "steady"))
    assert total is not None
    assert startup is not None
    assert steady is not None
    assert startup > 0
    assert steady >= 0.02 * 4
    assert startup + steady <= total
    assert 0 < report.stages["infer"]["share"] <= 1.05


def test_accuracy_counts_every_published_row(folder: Path) -> None:
    planned, report = run_spec(classify_spec(folder, {"bad": [10]}))
    assert report.accuracy == pytest.approx(180 / 199, abs=1e-6)
    page = planned.storage.read(f"{planned.run.path}/report.md").decode()
    assert "90.45 % of 199 rows with a label" in page
    assert '<img alt="How often each label met each prediction"' in page


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_accuracy_counts_labels_that_became_folders(folder: Path, kind: str) -> None:
    sink = {"kind": kind, "path": str(folder / "out"), "partition_by": ["label"]}
    _, report = run_spec(classify_spec(folder, sink=sink))
    assert report.accuracy == pytest.approx(180 / 200, abs=1e-6)


def test_no_accuracy_without_labels(folder: Path) -> None:
    model = {"kind": "python", "class": "report_models:Parity"}
    _, report = run_spec(classify_spec(folder, model=model))
    assert report.accuracy is None


def test_page_escapes_what_comes_from_data(folder: Path) -> None:
    planned, report = run_spec(classify_spec(folder, {"bad": [7]}))
    assert report.report
    page = planned.storage.read(report.report).decode()
    assert "&lt;img src=x onerror=alert(0)&gt;" in page
    assert "1 x ValueError in infer: &lt;/pre&gt;&lt;script&gt;" in page
    assert "onerror=alert(0)>" not in page
    assert "<script>" not in page
    assert "<b>dog" not in page
    # An empty line would end the HTML and let Markdown read the rest, links and all.
    line = next(line for line in page.splitlines() if "javascript:" in line)
    assert "\n&nbsp;\n" + line in page


def test_page_says_what_happened(folder: Path) -> None:
    planned, report = run_spec(classify_spec(folder, {"bad": [7]}))
    page = planned.storage.read(str(report.report)).decode()
    for part in (
        "# Pets_nightly: 199 rows published",
        "data:image/svg+xml;base64,",
        "rows/s, steady",
        "0.parquet, row 7",
        "part-00001-00000.parquet",
        "<td>ray</td>",
        "<details>",
        "report_models:Classify",
    ):
        assert part in page, part


def test_manifest_names_files_and_schema(folder: Path) -> None:
    planned, report = run_spec(classify_spec(folder))
    assert report.manifest == f"{planned.output.manifests}/{report.run_id}.json"
    manifest = json.loads(planned.storage.read(report.manifest))
    assert sum(file["rows"] for file in manifest["files"]) == 200
    for file in manifest["files"]:
        assert Path(file["path"]).stat().st_size == file["bytes"]
    assert manifest["schema"]["predicted_label"] == "string"
    assert manifest["rows"] == report.rows
    assert manifest["stages"] == report.stages
    assert manifest["report"] == report.report
    assert set(manifest["fingerprints"]) == {"model", "code"}
    assert manifest["versions"]["pyarrow"]
    assert manifest["spec"]["model"]["class"] == "report_models:Classify"


def test_failed_run_says_what_is_settled_and_the_next_one_resumes(folder: Path) -> None:
    init = {"bad": [7], "crash_at": 120, "marker": str(folder / "crashed")}
    spec = classify_spec(folder, init)
    started = time.time()
    planned = make_plan(spec)
    with pytest.raises(StageFailed) as failed:
        run_attempt(planned)
    path = report_failure(planned, started, failed.value)
    assert path
    page = planned.storage.read(path).decode()
    for part in (
        "# Pets_nightly: failed, nothing published",
        "<td>stage</td><td>infer</td>",
        "2.parquet</td>",
        "ConnectionError: the model&#x27;s server is gone",
        "<td>settled, not done again</td><td>99 rows</td>",
        "1 x ValueError in infer",
        "attempts of the run so far: 1",
    ):
        assert part in page, part

    planned, report = run_spec(spec)
    assert report.resumed_rows == 99
    # The row set aside was tried again, which the first attempt's last progress may not know of.
    assert report.redone_rows in (0, 1)
    assert report.rows["read"] == 200
    assert len(report.stages) == 4
    assert "published" in planned.storage.read(path).decode().splitlines()[0]
    assert planned.summary == "4 to do (99 rows done before), 0 published already"
    told = {**report.as_json(), "redone_rows": 1, "attempts": 2, "flow_run_id": "-"}
    console = Console(record=True, width=400)
    print_report(console, told)
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    first_figure = lines.index("rows read    200")
    assert lines[0].startswith("  1 x ValueError in infer: ")
    assert lines[first_figure - 2] == f"      {folder}/in/0.parquet, row 7"
    assert lines[first_figure - 1] == (
        f"All of them, with their inputs: {folder}/out.state/quarantine; `batch-inference redrive "
        "SPEC` runs them again, once code, model or spec is fixed; a fixed input is the next "
        "run's"
    )
    assert f"{folder}/out.state/quarantine; " in planned.storage.read(path).decode()
    assert lines[first_figure + 5 : first_figure + 8] == [
        "resumed      99 rows, done before this call",
        "redone       1 row, predicted again: lost, changed or set aside",
        "attempts     2",
    ]


def test_seconds_are_of_this_call_alone(folder: Path) -> None:
    """A run whose rows were all there when it was called had nothing left but to publish."""
    run_attempt(make_plan(classify_spec(folder)))
    planned = make_plan(classify_spec(folder))
    time.sleep(0.01)
    report = report_run(planned, time.time(), publish_planned(planned), 0)
    assert report.seconds["startup"] is None
    assert report.seconds["steady"] is None
    assert report.bottleneck is None
    assert report.resumed_rows == 200
    assert report.stages["infer"]["rows"] == 200


def test_start_up_is_no_less_for_what_a_first_job_did_later() -> None:
    """Of a run that is cut the rows that were kept had gone, and the first job came once more."""
    kept = [
        SimpleNamespace(started=100.0, seconds=10.0),
        SimpleNamespace(started=130.0, seconds=20),
    ]
    spans = {1: (112.0, 115.0), 2: (152.0, 160.0)}
    records = [SimpleNamespace(attempt=at, inferred_at=spans[at]) for at in spans]
    evidence: Any = SimpleNamespace(
        planned=SimpleNamespace(attempts_before=0),
        started=100.0,
        own_records=records,
        first_job=SimpleNamespace(attempts=kept),
    )
    assert measure_seconds(evidence, 61.0) == {"total": 61.0, "startup": 2.0, "steady": 11.0}


def test_a_call_that_came_when_the_model_was_done_has_no_speed(folder: Path) -> None:
    """It has followed a job, whose last record was made in its time; it took less than none."""
    run_attempt(make_plan(classify_spec(folder)))
    planned = make_plan(classify_spec(folder))
    spans = [(each.inferred_at, each) for each in planned.accepted().records]
    (_, done), last = [(span, each) for span, each in spans if span][-1]
    called = (done + record_time(last)) / 2
    report = report_run(planned, called, publish_planned(planned), 1)
    assert (report.seconds["startup"], report.seconds["steady"]) == (None, None)
    assert report.rows_per_second is None
    assert report.resumed_rows == 150
    assert report.manifest


@pytest.mark.parametrize("by", [-300, 300])
@pytest.mark.parametrize("who", ["protocol.records", "ray_job.stage_adapter", "ray_job.counts"])
def test_clocks_that_differ_make_no_row_another_calls_and_none_redone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, who: str, by: int
) -> None:
    """Of who writes, who predicts and who counts: machines of their own on a cluster."""
    off = SimpleNamespace(**vars(time))
    off.time, off.time_ns = lambda: time.time() + by, lambda: time.time_ns() + by * 10**9
    monkeypatch.setattr(f"tasks.{who}.time", off)
    _, report = run_spec(classify_spec(folder))
    assert (report.resumed_rows, report.redone_rows) == (0, 0)
    total, startup, steady = (report.seconds[name] for name in ("total", "startup", "steady"))
    assert total
    assert steady
    assert startup is not None
    assert startup >= 0
    assert startup + steady <= total + 0.002  # all are rounded
    assert report.rows_per_second == pytest.approx(200 / steady, rel=0.01)
    assert report.bottleneck


def test_rows_of_a_skipped_record_count_as_redone(folder: Path) -> None:
    planned = make_plan(classify_spec(folder))
    run_attempt(planned)
    storage, records = planned.storage, planned.storage.list(planned.run.records)
    copy = json.loads(storage.read(records[0].path))
    late = records[-1].path.replace(".json", "f.json")
    copy["name"] = late.rsplit("/", 1)[1].removesuffix(".json")
    storage.write(late, json.dumps(copy).encode())
    assert report_run(planned, time.time(), publish_planned(planned), 1).redone_rows == 50


def test_rows_of_records_that_name_no_attempt_are_redone_by_nobody(folder: Path) -> None:
    """As an earlier version has left them."""
    planned = make_plan(classify_spec(folder))
    run_attempt(planned)
    for each in planned.storage.list(planned.run.records):
        record = json.loads(planned.storage.read(each.path))
        assert record.pop("attempt") == 1
        planned.storage.write(each.path, json.dumps(record).encode())
    assert report_run(planned, time.time(), publish_planned(planned), 1).redone_rows == 0


def test_attempts_before_a_call_are_counted_by_their_numbers(folder: Path) -> None:
    """Which skip those of which a cluster remembers another job."""
    planned = make_plan(classify_spec(folder))
    planned.storage.write(f"{planned.run.path}/attempts/4/note", b"")
    assert make_plan(classify_spec(folder)).attempts_before == 4


def test_a_run_reads_each_record_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one has tens of thousands, each of which takes a store's answer."""
    read = noted_calls(monkeypatch, "read")
    _, report = run_spec(classify_spec(folder))
    records = [path for path in read if "/records/" in path]
    assert len(records) == len(set(records)) > 3
    assert report.rows["written"] == 200


def test_who_replaces_the_rows_while_they_are_reported_is_named(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spec = classify_spec(folder)
    planned, report = run_spec(spec)
    evidence = look_back(planned, time.time())
    assert evidence.ledger.version == 1
    newer = make_plan(spec, RunOptions(replace_output=True))
    run_attempt(newer)
    assert publish_planned(newer) == 2
    caplog.clear()
    late = leave_report(evidence, replace(report, report=None, manifest=None))
    assert late.replaced_by == {"version": 2, "run_id": newer.run.run_id}
    assert late.report
    assert late.manifest
    (said,) = caplog.messages
    assert f"as version 1; run {newer.run.run_id} has published version 2 since" in said


def test_rows_set_aside_that_are_replaced_while_they_are_counted_fail_no_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = classify_spec(folder, {"bad": [7, 120]})
    started = time.time()
    planned = make_plan(spec)
    run_attempt(planned)
    version = publish_planned(planned)
    newer = make_plan(spec, RunOptions(replace_output=True))
    run_attempt(newer)

    def read_late(*what: Any) -> bytes:
        publish_planned(newer)
        return read_published(*what)

    monkeypatch.setattr("tasks.reporting.evidence.read_published", read_late)
    report = report_run(planned, started, version, 1)
    assert report.replaced_by == {"version": 2, "run_id": newer.run.run_id}
    assert report.report
    assert (report.rows["rejected"], report.stages["infer"]["rejected"]) == (2, 2)
    assert (report.stages["write"]["rows"], report.redone_rows) == (198, 0)


def test_a_row_that_each_attempt_has_set_aside_counts_once() -> None:
    """Else fewer than no rows would have come to the last stage."""
    attempts = [
        SimpleNamespace(stages={stage: {"rejected": its.get(stage, 0)} for stage in STAGES})
        for its in ({"preprocess": 4, "infer": 2}, {"preprocess": 1, "infer": 2})
    ]
    accepted, nothing_read = SimpleNamespace(rejected=[1, 2, 3, 4]), Rejections()
    evidence: Any = SimpleNamespace(attempts=attempts, accepted=accepted, rejections=nothing_read)
    assert +rejected_by_stage(evidence) == {"preprocess": 2, "infer": 2}


def test_a_run_is_judged_as_its_job_was_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spec names no Ray, and its job has joined one."""
    judged: list[Any] = []
    monkeypatch.setattr(
        "tasks.reporting.run_report.judge_run",
        lambda spec, *_, given, **more: judged.extend((spec.cluster, given.cluster)),
    )
    planned = make_plan(classify_spec(folder))
    run_attempt(planned)
    (job_file,) = attempts_in(planned.storage, planned.run)
    job = json.loads(planned.storage.read(job_file))
    job["spec"]["cluster"] = {"kind": "local", "address": "127.0.0.1:6379"}
    planned.storage.write(job_file, json.dumps(job).encode())
    report_run(planned, time.time(), publish_planned(planned), 1)
    assert judged == [LocalCluster(address="127.0.0.1:6379"), InlineCluster()]
    planned.storage.write(job_file, b'{"spec": {}}')  # an earlier version's
    assert look_back(planned, time.time()).job_spec == planned.spec


def test_a_run_on_a_limit_that_an_earlier_one_has_found_is_judged_by_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of this one's halvings there is none to report."""
    judged: list[bool] = []
    monkeypatch.setattr(
        "tasks.reporting.run_report.judge_run",
        lambda *_, memory_ran_out, **more: judged.append(memory_ran_out),
    )
    planned = make_plan(classify_spec(folder))
    run_attempt(planned)
    own = planned.plan.pins["fingerprints"]
    for fingerprints in ({**own, "model": "others"}, own):
        told(planned.spec, fingerprints)
        report_run(planned, time.time(), publish_planned(planned), 1)
    assert judged == [False, True]


def test_who_did_a_part_of_the_rows_is_judged_as_such(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A redrive, a trial, and the rest of a run that another call began; new inputs are a run's."""
    judged: list[bool] = []
    monkeypatch.setattr(
        "tasks.reporting.run_report.judge_run", lambda *_, is_part, **more: judged.append(is_part)
    )

    def run(options: RunOptions, *, rest: bool = False) -> None:
        begun = time.time()
        spec = classify_spec(folder, {"bad": [7]}, errors={"max_rejected_fraction": 1})
        planned = make_plan(spec, options)
        run_attempt(planned)
        if rest:
            planned, begun = make_plan(spec, options), time.time()
        report_run(planned, begun, publish_planned(planned), 1)

    run(RunOptions())
    (folder / "in" / "4.parquet").write_bytes((folder / "in" / "3.parquet").read_bytes())
    run(RunOptions())
    run(RunOptions(redrive=True))
    run(RunOptions(replace_output=True, limit=60))
    run(RunOptions(replace_output=True), rest=True)
    assert judged == [False, False, True, True, True]


def test_nothing_to_do_leaves_the_last_report_alone(folder: Path) -> None:
    spec = classify_spec(folder)
    run_spec(spec)
    planned = make_plan(spec)
    assert planned.nothing_to_do
    report = report_run(planned, time.time())
    assert not report.published
    assert report.inputs_skipped == 4
    assert report.seconds["startup"] is None
    assert report.seconds["steady"] is None
    assert report.bottleneck is None
    assert report.report is None
    assert {figures["rows"] for figures in report.stages.values()} == {0}


def test_nothing_to_do_and_a_storage_that_is_away_as_that_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_spec(classify_spec(folder))
    planned = make_plan(classify_spec(folder))
    assert planned.nothing_to_do

    def refuse(self: FsspecStorage, path: str) -> None:
        raise ConnectionError("Connection reset by peer")

    monkeypatch.setattr(FsspecStorage, "list", refuse)
    with pytest.raises(Unreachable, match=r"^sink\.path: the storage does not answer.*by peer"):
        report_run(planned, time.time())


def test_of_a_run_that_others_have_overtaken_the_page_promises_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are done again by the next one, which builds on what they have published."""
    planned = make_plan(classify_spec(folder))
    run_attempt(planned)
    monkeypatch.setattr(UnfinishedRuns, "refuse_others", lambda *_: None)
    source = {"kind": "parquet", "path": str(folder / "in/0.parquet")}
    run_spec(classify_spec(folder, source=source))
    with pytest.raises(OutputHeld, match=r"run again to predict and publish what is left") as held:
        publish_planned(planned)
    page = planned.storage.read(report_failure(planned, time.time(), held.value) or "").decode()
    assert "<p>Nothing: others have published since this run was planned" in page
    assert "not done again" not in page
    assert make_plan(planned.spec).run != planned.run


def test_secrets_are_written_nowhere(folder: Path) -> None:
    options = {"password": SECRET, "client": {"token": SECRET}, "endpoint_url": "http://localhost"}
    spec = classify_spec(
        folder,
        {"crash_at": 0, "marker": str(folder / "crashed")},
        source={"kind": "parquet", "path": str(folder / "in"), "storage_options": options},
        environment={"working_dir": str(folder.cwd() / "tests/report_code"), "env_vars": {}},
    )
    planned = make_plan(spec)
    with pytest.raises(StageFailed, match=SECRET) as failed:
        run_attempt(planned)
    path = report_failure(planned, time.time(), failed.value)
    assert path
    page = planned.storage.read(path).decode()
    assert "key ***" in page
    assert SECRET not in page
    _, report = run_spec(spec)
    for written in (report.report, report.manifest):
        text = planned.storage.read(str(written)).decode()
        assert SECRET not in text
        assert "http://localhost" in text


def test_a_report_that_fails_fails_no_published_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*arguments: Any) -> str:
        raise ValueError("cannot draw")

    monkeypatch.setattr("tasks.report.success_page", broken)
    _, report = run_spec(classify_spec(folder))
    assert report.published
    assert "is published, but its report failed" in caplog.text


def test_images_are_shown_beside_their_predictions(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(10):
        Image.new("RGB", (640, 480), (number, 0, 0)).save(tmp_path / "in" / f"{number}.jpg")
    (tmp_path / "in" / "cut.jpg").write_bytes(b"\xff\xd8\xffno more")
    spec = classify_spec(
        tmp_path,
        source={"kind": "images", "path": str(tmp_path / "in")},
        model={"kind": "python", "class": "report_models:Brightness"},
    )
    planned, report = run_spec(spec)
    page = planned.storage.read(str(report.report)).decode()
    assert page.count("data:image/jpeg;base64,") == 8
    assert report.stages["preprocess"]["rejected"] == 1
    assert report.stages["infer"]["rows"] == 10
    assert report.rows == {"read": 11, "written": 10, "rejected": 1, "filtered": 0}
    assert len(page) < 100_000


def test_cost_is_what_all_attempts_held(folder: Path) -> None:
    """At one a second for a core, inline holding the two that the model may use."""
    init = {"crash_at": 120, "marker": str(folder / "crashed")}
    spec = classify_spec(
        folder, init, cost={"per_cpu_hour": 3600, "per_gpu_hour": 5}, resources={"num_cpus": 2}
    )
    with pytest.raises(StageFailed):
        run_attempt(make_plan(spec))
    # Time in which a job does not say anything is not counted.
    planned, report = run_spec(spec)
    evidence = look_back(planned, 0)
    assert len(evidence.attempts) == 2
    assert report.cost
    held = sum(attempt.held["cpu_hours"] for attempt in evidence.attempts) * 3600
    assert report.cost == pytest.approx(held, abs=1e-3)
    assert 2 * 0.02 * 2 < report.cost < 2 * 60
    assert report.held["gpu_hours"] == 0
    assert "<td>cost</td>" in planned.storage.read(str(report.report)).decode()


def test_without_prices_there_is_no_cost(folder: Path) -> None:
    planned, report = run_spec(classify_spec(folder))
    assert report.cost is None
    assert report.held["cpu_hours"] > 0
    assert "<td>cost</td>" not in planned.storage.read(str(report.report)).decode()


def test_a_slow_model_has_a_speed(folder: Path) -> None:
    """Which is not 0 rows a second."""
    _, report = run_spec(classify_spec(folder))
    said = []
    for speed in (0.4, 12_345.6):
        console = Console(record=True, width=200)
        found = {**report.as_json(), "rows_per_second": speed, "cost": speed, "flow_run_id": "-"}
        print_report(console, found)
        said += [
            line.split()
            for line in console.export_text(clear=False).splitlines()
            if "rows/s" in line
        ]
        assert f"{said[-1][1]} rows/s, steady" in time_table(found)
        assert f"cost         {said[-1][1]}\n" in console.export_text()
        assert f"{said[-1][1]} (all attempts of the run)" in time_table(found)
    assert said == [["rows/s", "0.4"], ["rows/s", "12,346"]]


@pytest.mark.parametrize("accuracy", [None, 0.9])
def test_only_predictions_that_have_labels_have_an_accuracy(
    folder: Path, accuracy: float | None
) -> None:
    _, report = run_spec(classify_spec(folder))
    console = Console(record=True, width=200)
    print_report(console, {**report.as_json(), "accuracy": accuracy, "flow_run_id": "-"})
    said = [line for line in console.export_text().splitlines() if "accuracy" in line]
    assert said == ([] if accuracy is None else ["accuracy     90.00 %"])


@pytest.mark.parametrize("error", [ConnectionError("no route"), ZeroDivisionError("by zero")])
def test_a_published_run_whose_figures_cannot_be_read_is_published(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*given: object) -> None:
        raise error

    monkeypatch.setattr("tasks.report.look_back", fail)
    planned, report = run_spec(classify_spec(folder))
    assert (report.published, report.version, report.rows) == (True, 1, {})
    console = Console(record=True, width=200)
    print_report(console, {**report.as_json(), "flow_run_id": "-"})
    assert "written      -" in console.export_text()
    with pytest.raises(Unreachable if isinstance(error, OSError) else type(error)):
        report_run(planned, time.time())


def test_what_prefect_cannot_show_is_told_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise ConnectionError("413 Request Entity Too Large")

    monkeypatch.setattr("tasks.report.show_page", refuse)
    monkeypatch.setattr("tasks.report.show_link", refuse)
    gates = [{"kind": "accuracy", "minimum": 0.9}]
    planned, report = run_spec(classify_spec(folder, gates=gates))
    show_run(planned, report)
    assert report.accuracy == pytest.approx(0.9)
    assert [each["passed"] for each in report.gates] == [True]
    assert report.report
    assert Path(report.report).exists()
    assert report.manifest
    assert json.loads(Path(report.manifest).read_text())["accuracy"] == 0.9
    assert "the report cannot be shown in Prefect" in caplog.text
    assert "its report failed" not in caplog.text
