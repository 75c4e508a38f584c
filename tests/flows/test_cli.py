"""The command line: one clear message for each wrong spec, exit codes, and before Ray starts."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from flows import cli
from flows.command_spec import load_at, sink_at
from flows.console import print_json
from flows.flow_commands import run_flow
from flows.printed_report import seconds_told
from tasks.clusters import stopping
from tasks.errors import InvalidSpec, Unreachable
from tasks.lease import Holder, save_holder
from tasks.plan import make_plan
from tasks.run import left_to_do, new_job
from tasks.run_options import RunOptions
from tasks.spec_reading.yaml import parse_yaml
from tests.flows.conftest import CODE, published, spec_of
from tests.reporting import run_spec
from tests.s3_server import S3


def write_spec(folder: Path, **changes: Any) -> Path:
    spec = {
        "source": {"kind": "parquet", "path": "numbers"},
        "model": {"kind": "python", "class": "predictors:Double"},
        "sink": {"kind": "parquet", "path": "out"},
        "cluster": {"kind": "inline"},
        "environment": {"working_dir": str(CODE)},
    }
    file = folder / "spec.yaml"
    file.write_text(yaml.safe_dump({**spec, **changes}))
    return file


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["batch-inference", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is refused is refused before anything is started."""

    def refuse(*_: Any) -> None:
        raise AssertionError("a job was started")

    monkeypatch.setattr("tasks.clusters.local.Local.start", refuse)


PARQUET = {"kind": "parquet", "path": "numbers"}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown field": ({"modle": {}}, "modle: {} is given, but there is no such field"),
    "unknown kind": (
        {"source": {"kind": "excel", "path": "x"}},
        "source.kind: 'excel' is not one of",
    ),
    "no kind": ({"model": {"class": "a:B"}}, "model.kind: is missing"),
    "missing field": ({"sink": {"kind": "parquet"}}, "sink.path: is missing; add it"),
    "wrong type": (
        {"resources": {"num_cpus": "many"}},
        "resources.num_cpus: 'many' is not allowed",
    ),
    "out of range": (
        {"errors": {"max_rejected_fraction": 3}},
        "errors.max_rejected_fraction: 3 is not allowed",
    ),
    "no fields": ({"source": "numbers"}, "source: 'numbers' is not allowed: it must have fields"),
    "no list": ({"steps": {"kind": "select"}}, "is not allowed: it must be a list"),
    "a dashboard": (
        {"cluster": {"kind": "local", "address": "http://127.0.0.1:8265"}},
        "a dashboard's URL needs cluster.kind ray_jobs",
    ),
    "its own inputs": (
        {"sink": {"kind": "parquet", "path": "numbers/out"}},
        "numbers/out' is inside source.path",
    ),
    "no such path": ({"source": {"kind": "parquet", "path": "nowhere"}}, "source.path"),
    "empty folder": ({"source": {"kind": "images", "path": "numbers"}}, "has no file ending in"),
    "no such module": (
        {"model": {"kind": "python", "class": "nowhere:Model"}},
        "model.class: 'nowhere:Model' needs the module 'nowhere', which is not",
    ),
    "no such class": (
        {"model": {"kind": "python", "class": "predictors:Treble"}},
        "model.class: 'predictors:Treble' is not there",
    ),
    "no such model folder": (
        {
            "model": {
                "kind": "huggingface",
                "task": "image-classification",
                "name_or_path": "./no-model",
            }
        },
        "model.name_or_path",
    ),
    "bad filter": (
        {"steps": [{"kind": "filter", "expression": "x >"}]},
        "steps.filter.expression: 'x >' does not parse: invalid syntax at its end",
    ),
    "no such column": (
        {"steps": [{"kind": "select", "columns": ["id", "xs"]}]},
        "steps.0.columns: 'xs' is read by select but is not among the columns at that point: id, x",
    ),
    "64 GPUs": (
        {"cluster": {"kind": "local"}, "resources": {"num_gpus": 64}},
        "resources.num_gpus: 64",
    ),
    "too many cores": (
        {"cluster": {"kind": "local"}, "resources": {"num_cpus": 5_000}},
        "resources.num_cpus: 5000",
    ),
    "a variable inline": (
        {"cluster": {"kind": "inline"}, "environment": {"env_vars": {"A": "b"}}},
        "environment.env_vars: ['A'] is not possible in this process",
    ),
    "no working dir": ({"environment": {"working_dir": "gone"}}, "environment.working_dir"),
}


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize(("changes", "message"), WRONG.values(), ids=WRONG.keys())
def test_wrong_specs(
    numbers: Path,
    changes: dict[str, Any],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = write_spec(numbers.parent, **changes)
    assert call(monkeypatch, "run", str(spec)) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["run", "preview", "verify", "redrive"])
def test_what_is_wrong_is_found_before_prefects_server_starts(
    numbers: Path, verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(imports: object = ()) -> None:
        raise AssertionError("it was started")

    monkeypatch.setattr("flows.own_server.start_own_server", start)
    for changes, message in (WRONG["no such class"], WRONG["no such model folder"]):
        spec = write_spec(numbers.parent, **changes)
        assert call(monkeypatch, verb, str(spec)) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--accept", "--rows", "10"), "rows: 10 must be at least 64 to accept a config"),
        (("--tolerance", "nan"), "tolerance: nan must be a number, at least 0"),
    ],
)
def test_a_comparison_that_could_show_nothing_starts_no_server(
    numbers: Path,
    arguments: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("flows.own_server.start_own_server", None)
    assert call(monkeypatch, "verify", str(write_spec(numbers.parent)), *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_wrong_spec_is_one_message(numbers: Path) -> None:
    """In a process of its own, as a person sees it."""
    spec = write_spec(numbers.parent, source={"kind": "parquet", "path": "nowhere"})
    command = [str(Path(sys.executable).with_name("batch-inference")), "run", str(spec)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2
    (line,) = ended.stderr.strip().splitlines()
    assert line.startswith("InputNotFound: source.path: ")
    assert ended.stdout == ""


@pytest.mark.parametrize("section", ["source", "sink"])
def test_a_storage_that_does_not_answer_is_one_message(
    numbers: Path,
    section: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Found before a flow run exists, so it needs no Prefect server."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")  # botocore's own, on top of which s3fs tries again
    options = {"endpoint_url": "http://127.0.0.1:9", "key": "a", "secret": "b"}
    place = {"kind": "parquet", "path": "s3://bucket/x", "storage_options": options}
    spec = write_spec(numbers.parent, **{section: place})
    assert call(monkeypatch, "run", str(spec)) == 1
    assert f"{section}.path: 's3://bucket/x' cannot be reached" in capsys.readouterr().err


@pytest.mark.s3
@pytest.mark.parametrize("verb", ["check", "run", "status", "clean", "cancel", "search"])
def test_a_bucket_that_is_not_there_is_one_message(
    numbers: Path,
    verb: str,
    s3: S3,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sink = {"kind": "parquet", "path": "s3://nobodys/x", "storage_options": s3.storage_options}
    spec = str(write_spec(numbers.parent, sink=sink))
    searched = ["s3://nobodys/x", "--query", "[1]", "--spec", spec]
    assert call(monkeypatch, verb, *(searched if verb == "search" else [spec])) == 2
    told = "InvalidSpec: sink.path: 's3://nobodys/x' is in the bucket 'nobodys', which does not"
    assert f"{told} exist: create it, or use another" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["status", "clean", "cancel"])
def test_what_starts_no_flow_says_that_the_storage_does_not_answer(
    numbers: Path,
    verb: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    options = {"endpoint_url": "http://127.0.0.1:9", "key": "a", "secret": "b"}
    sink = {"kind": "parquet", "path": "s3://bucket/x", "storage_options": options}
    spec = str(write_spec(numbers.parent, sink=sink))
    as_json = [] if verb == "cancel" else ["--json"]
    assert call(monkeypatch, verb, spec, *as_json) == 1
    said = capsys.readouterr()
    assert said.err.startswith("Unreachable: sink.path: the storage does not answer")
    if as_json:
        assert json.loads(said.out)["state"] == "failed"


def test_a_search_says_that_the_storage_does_not_answer(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    options = {"endpoint_url": "http://127.0.0.1:9", "key": "a", "secret": "b"}
    sink = {"kind": "parquet", "path": "s3://bucket/x", "storage_options": options}
    spec = str(write_spec(numbers.parent, sink=sink))
    asked = ("search", "s3://bucket/x", "--spec", spec, "--query", "[1]", "--json")
    assert call(monkeypatch, *asked) == 1
    said = capsys.readouterr()
    assert said.err.startswith("Unreachable: sink.path: the storage does not answer")
    assert json.loads(said.out)["error_class"] == "Unreachable"


@pytest.mark.parametrize(
    "given",
    [
        "status SPEC --set sink.path=foo://x",
        "clean SPEC --set sink.path=foo://x",
        "cancel SPEC --set sink.path=foo://x",
        "run SPEC --limit 1 --output foo://x",
        "search foo://x --spec SPEC --query [1]",
    ],
)
def test_an_output_on_no_storage_that_there_is_is_one_message(
    numbers: Path,
    given: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = str(write_spec(numbers.parent))
    assert call(monkeypatch, *given.replace("SPEC", spec).split()) == 2
    told = "InvalidSpec: sink.path: 'foo://x' cannot be opened: no storage is known for foo://: use"
    assert capsys.readouterr().err.startswith(told)


def test_who_reports_a_fault_sees_the_versions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "--version") == 0
    told = dict(line.split() for line in capsys.readouterr().out.splitlines())
    packages = ("prefect-ray-data", "ray", "prefect")
    assert {name: told[name] for name in packages} == {name: version(name) for name in packages}


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "is not YAML"), ("just text", "must contain fields"), (None, "cannot be read")],
)
def test_files_that_are_no_spec(
    tmp_path: Path,
    text: str | None,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "spec.yaml"
    if text is not None:
        file.write_text(text)
    assert call(monkeypatch, "run", str(file)) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--limit 5", "--limit: 5 needs --output"),
        ("--limit 5 --output out", "--output: 'out' is the spec's own output"),
        ("--limit 5 --output ./numbers/../out", "is the spec's own output"),
        ("--limit 5 --output link", "is the spec's own output"),
        (
            "--limit 5 --output y1999 --set sink.path=y{scheduled:%Y} --scheduled-time 1999-01-01",
            "is the spec's own output",
        ),
        ("--limit 0 --output small", "greater than or equal to 1"),
    ],
)
def test_limit_needs_an_output(
    options: str,
    problem: str,
    numbers: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(numbers.parent)
    Path("link").symlink_to("out")
    assert call(monkeypatch, "run", str(write_spec(numbers.parent)), *options.split()) == 2
    assert problem in capsys.readouterr().err


def test_another_output_of_a_table_has_another_name(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Readers of the catalog would find a trial's rows in the table's place."""
    monkeypatch.chdir(numbers.parent)
    sink = {"kind": "iceberg", "path": "out", "table": "shop.pets", "catalog": {"type": "sql"}}
    file = str(write_spec(numbers.parent, sink=sink))
    assert call(monkeypatch, "run", file, "--limit", "5", "--output", "trial") == 2
    said = "--output: 'trial' would still be shop.pets in the catalog: rename it too"
    assert said in " ".join(capsys.readouterr().err.split())


def test_an_output_may_be_called_anything(tmp_path: Path) -> None:
    folder = tmp_path / "\N{CAT FACE}"
    override = sink_at(str(folder))
    assert parse_yaml(override.partition("=")[2]) == str(folder)


@pytest.mark.parametrize("written", ["latest", "./latest/", "large/../latest", "large/inner/.."])
def test_an_output_that_is_a_link_is_known_by_the_links_name(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state lies beside the link, as a spec that names it has put it there."""
    (tmp_path / "large/inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    Path("latest").symlink_to("large")
    meant = "large" if written.endswith("..") else "latest"
    assert parse_yaml(sink_at(written).partition("=")[2]) == str(tmp_path / meant)


def test_an_output_counts_from_no_folder_that_is_deleted(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where a checkout is put anew while a shell is in it; that was a traceback."""
    here = numbers.parent / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    here.rmdir()
    assert call(monkeypatch, "run", str(write_spec(numbers.parent)), "--output", "out") == 2
    assert "'out' is relative, but the current folder was del" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["run", "search"])
@pytest.mark.parametrize(
    ("output", "problem"),
    [("", "'' is not allowed"), ("~nobody-here/out", "there is no such user")],
)
def test_an_empty_output_is_not_this_folder(
    verb: str,
    output: str,
    problem: str,
    numbers: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is a shell's variable that is not set."""
    spec = str(write_spec(numbers.parent))
    calls = {"run": (spec, "--output", output), "search": (output, "--spec", spec, "--query", "a")}
    assert call(monkeypatch, verb, *calls[verb]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("http://127.0.0.1:8265", "cluster.address: 'http://127.0.0.1:8265' is not"),
        ("127.0.0.1", "cluster.address: '127.0.0.1' is not"),
        ("", "--address: '' is empty"),
    ],
)
def test_an_address_is_checked_as_in_the_spec(
    address: str,
    problem: str,
    numbers: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = str(write_spec(numbers.parent))
    assert call(monkeypatch, "run", spec, "--address", address) == 2
    assert problem in capsys.readouterr().err


def test_a_part_of_the_rows_is_some() -> None:
    with pytest.raises(InvalidSpec, match="limit: 0 must be at least 1"):
        RunOptions(limit=0)


def test_the_start_of_prefect_is_told_beside_the_runs_seconds(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def starts_a_server(*_: Any, **__: Any) -> dict[str, Any]:
        time.sleep(0.2)
        return {"seconds": {"total": 0.1}}

    monkeypatch.setattr("flows.batch_inference.batch_inference", starts_a_server)
    seconds = run_flow(spec_of(numbers))["seconds"]
    assert seconds["total"] == 0.1
    assert seconds["prefect"] >= 0.1
    assert seconds_told({"total": 0.1, "prefect": 12.34}).startswith("0.1, and 12.3 for Prefect")
    assert seconds_told({"total": 0.1}) == "0.1"


def test_status_shows_a_path_as_it_is(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(numbers.parent / "of:id:all" / ("days" * 50))
    spec = write_spec(numbers.parent, sink={"kind": "parquet", "path": path})
    assert call(monkeypatch, "status", str(spec)) == 0
    assert path in capsys.readouterr().out


def test_status_tells_of_a_run_whose_job_no_cluster_knows(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An inline one is in its own process, and before and after its jobs a run has none."""
    file = write_spec(numbers.parent)
    planned = make_plan(load_at(file, None, None))
    for at, told in ((time.time(), 1), (1.0, 0)):
        elsewhere = replace(Holder.of(os.getpid()), host="elsewhere")
        save_holder(planned.storage, planned.run.lease, elsewhere)
        os.utime(planned.run.lease, (at, at))
        assert call(monkeypatch, "status", str(file), "--json") == 0
        one = {"run_id": planned.run.run_id, "at_work_in": f"process {os.getpid()} on elsewhere"}
        said = json.loads(capsys.readouterr().out)
        assert said["runs"] == [one] * told
        assert [each["run_id"] for each in said["unfinished"]] == [planned.run.run_id] * (1 - told)
        assert call(monkeypatch, "status", str(file)) == 0
        lines = capsys.readouterr().out.splitlines()[-3:]
        run = f"run {planned.run.run_id}, "
        assert lines == [
            "jobs            none",
            f"runs            {run}in {one['at_work_in']}" if told else "runs            none",
            "unfinished      " + ("none" if told else f"{run}which left no report"),
        ]


def test_status_tells_where_the_last_report_and_the_rows_set_aside_are(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    picky = {"kind": "python", "class": "predictors:Picky", "init": {"refuses": [5.0]}}
    file = write_spec(numbers.parent, model=picky)
    _, report = run_spec(load_at(file, None, None))
    capsys.readouterr()
    assert call(monkeypatch, "status", str(file), "--json") == 0
    said = json.loads(capsys.readouterr().out)
    aside = f"{said['output']}.state/quarantine"
    assert (said["rows"], said["rows_set_aside"], said["set_aside_in"]) == (999, 1, aside)
    assert said["report"] == report.report
    assert call(monkeypatch, "status", str(file)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "rows_set_aside  1; `batch-inference redrive SPEC` runs them again" in lines
    assert f"set_aside_in    {aside}" in lines


@pytest.mark.parametrize("setting", ["x", "=1", "steps.7.column=x"])
def test_wrong_set(
    numbers: Path,
    setting: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call(monkeypatch, "run", str(write_spec(numbers.parent)), "--set", setting) == 2
    assert "--set" in capsys.readouterr().err


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_run_rerun_limit_check_status(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = str(write_spec(numbers.parent))
    small = str(numbers.parent / "small")

    def run(*arguments: str) -> dict[str, Any]:
        assert call(monkeypatch, *arguments, "--json") == 0
        report: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
        return report

    assert run("run", spec, "--limit", "250", "--output", small)["rows"]["written"] == 250
    assert call(monkeypatch, "check", spec) == 0
    assert "10 to do, 0 published already; columns " in capsys.readouterr().out
    first = run("run", spec)
    assert (first["published"], first["version"], first["rows"]["written"]) == (True, 1, 1000)
    assert 0 < first["seconds"]["prefect"] < 60
    again = run("run", spec)
    assert (again["published"], again["version"], again["inputs_skipped"]) == (False, 1, 10)
    told = run("status", spec)
    assert (told["rows"], told["unfinished"]) == (1000, [])
    assert len(published(spec_of(numbers))) == 1000


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_exit_codes_3_and_2(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {"kind": "python", "class": "predictors:Double", "init": {"bad": 123.0}}
    tight = {"max_rejected_fraction": 0.0005}
    spec = str(write_spec(numbers.parent, model=bad, errors=tight))
    assert call(monkeypatch, "run", spec) == 3
    error = capsys.readouterr().err
    assert "1 of 1,000 rows set aside" in error
    assert "ValueError in infer: cannot double 123.0" in error
    assert "1.parquet, row 23" in error
    assert not (numbers.parent / "out").exists()
    assert call(monkeypatch, "status", spec, "--json") == 0
    (held,) = json.loads(capsys.readouterr().out)["unfinished"]
    assert "1 of 1,000 rows set aside" in Path(held["report"]).read_text()
    other = str(write_spec(numbers.parent))
    assert call(monkeypatch, "run", other) == 2
    assert "--restart" in capsys.readouterr().err
    # A larger budget is no other run: it publishes what is done.
    generous = str(write_spec(numbers.parent, model=bad))
    assert call(monkeypatch, "run", generous, "--json") == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (report["rows"]["written"], report["rows"]["rejected"]) == (999, 1)
    changed = str(write_spec(numbers.parent))
    assert call(monkeypatch, "run", changed) == 2
    assert "--replace-output" in capsys.readouterr().err
    assert call(monkeypatch, "run", changed, "--replace-output", "--json") == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["rows"]["written"] == 1000
    assert len(published(spec_of(numbers))) == 1000


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("verb", ["run", "preview"])
def test_a_run_that_fails_says_where_its_report_lies(
    verb: str, numbers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A preview's is gone by then."""
    broken = {"kind": "python", "class": "predictors:LacksItsFile"}
    once = {"max_attempts": 1}
    file = str(write_spec(numbers.parent, model=broken, retries=once))
    assert call(monkeypatch, verb, file, "--json") == 1
    said = capsys.readouterr()
    ended, last_line = json.loads(said.out.splitlines()[-1]), said.err.splitlines()[-1]
    if verb == "preview":
        assert "report" not in ended
        assert "report:" not in last_line
    else:
        assert last_line == f"report: {ended['report']}"
        assert "failed, nothing published" in Path(ended["report"]).read_text()


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_a_preview_of_rows_that_would_be_held_back_ends_with_3(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {"kind": "python", "class": "predictors:Double", "init": {"bad": 2.0}}
    held = str(write_spec(numbers.parent, model=bad))
    assert call(monkeypatch, "preview", held, "--rows", "8", "--json") == 3
    said = capsys.readouterr()
    found, ended = map(json.loads, said.out.splitlines()[-2:])
    assert found["rows"]["rejected"] == 1
    assert (ended["state"], ended["error_class"], ended["exit_code"]) == ("failed", "HeldBack", 3)
    assert "HeldBack: a run with such rows would publish nothing: 1 of 8 rows set aside" in said.err
    fine = str(write_spec(numbers.parent))
    assert call(monkeypatch, "preview", fine, "--rows", "8", "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["would_be_held_back"] == []


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_who_verifies_sees_how_far_rows_are_off_and_has_runs_go_on(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = str(write_spec(numbers.parent))
    assert call(monkeypatch, "run", spec) == 0
    capsys.readouterr()
    assert call(monkeypatch, "verify", spec, "--rows", "16") == 0
    assert capsys.readouterr().out.splitlines() == [
        "rows         16 input rows come out as they are published; nothing is published",
        "floats       equal; tolerance 0.0001",
        "config       the one that published",
    ]
    slower = ("--set", "model.init.seconds=0.001")
    assert call(monkeypatch, "verify", spec, *slower) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "config       other than version 1's: model.init was its default, now {'seconds': 0.001}",
        "accepted     no: --accept lets runs continue with it",
    ]
    assert call(monkeypatch, "run", spec, *slower) == 2
    assert call(monkeypatch, "verify", spec, *slower, "--accept", "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["accepted"]
    assert call(monkeypatch, "run", spec, *slower) == 0
    assert call(monkeypatch, "verify", spec, "--set", "model.init.bad=0", "--json") == 3
    ended = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert ended["error_class"] == "PredictionsDiffer"


@pytest.mark.parametrize("shell", ["", "signal.signal(signal.SIGINT, signal.SIG_IGN)"])
def test_who_is_told_to_end_does_so_also_in_the_background(shell: str) -> None:
    """A shell has those that a script starts with & ignore Ctrl-C."""
    code = f"""
import signal, time
{shell}
from flows import cli
@cli.app.command()
def work():
    try:
        print("at work", flush=True)
        time.sleep(60)
    finally:
        print("stops", flush=True)
cli.main()
"""
    command = [sys.executable, "-c", code, "work"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        assert running.stdout.readline() == "at work\n"
        running.terminate()
        assert running.communicate(timeout=60)[0] == "stops\n"
    assert running.returncode > 0


def usage(_: Any) -> None:
    raise AssertionError("typer refuses the call first")


def ctrl_c(_: Any) -> None:
    signal.default_int_handler(signal.SIGINT, None)  # a shell's background jobs hear no signal


def no_server(_: Any) -> None:
    raise RuntimeError("Timed out while attempting to connect to ephemeral Prefect API server.")


@pytest.mark.parametrize(
    ("options", "ends", "exit_code", "error_class", "words"),
    [
        ("--bogus", usage, 2, "NoSuchOption", "--bogus"),
        ("--limit 0", usage, 2, "BadParameter", "Invalid value for '--limit': Input"),
        ("", ctrl_c, 130, "KeyboardInterrupt", "stopped by Ctrl-C or SIGTERM"),
        ("", no_server, 1, "RuntimeError", "Timed out while attempting to connect"),
        ("--set x", usage, 2, "InvalidSpec", "--set"),
    ],
)
def test_whatever_ends_a_command_is_one_object(
    options: str,
    ends: Any,
    exit_code: int,
    error_class: str,
    words: str,
    numbers: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("flows.flow_commands.call_flow", lambda *_, **__: ends(None))
    command = ["run", str(write_spec(numbers.parent)), "--json", *options.split()]
    monkeypatch.setattr(sys, "argv", ["batch-inference", *command])
    with pytest.raises(RuntimeError if ends is no_server else SystemExit) as ended:
        cli.main()
    if ends is not no_server:  # else Python shows where it happened, and ends with 1
        assert getattr(ended.value, "code", None) == exit_code
    (line,) = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert words in told.pop("error")
    assert told == {"state": "failed", "error_class": error_class, "exit_code": exit_code}


def test_what_own_code_prints_is_no_part_of_what_programs_read(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model in this process may leave a line open, as those do that print a dot a batch."""

    def run(*_: Any, **__: Any) -> None:
        print("...", end="")
        print_json({"state": "done"})

    monkeypatch.setattr("flows.flow_commands.call_flow", run)
    file = str(write_spec(numbers.parent))
    assert call(monkeypatch, "run", file, "--json") == 0
    assert capsys.readouterr() == ('{"state": "done"}\n', "...")
    assert call(monkeypatch, "run", file) == 0
    assert capsys.readouterr().out.startswith("...")


def test_cancel_says_what_has_become_of_each_job(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a run that has gone on, two on a cluster that is gone or left: the last is its own."""
    file = write_spec(numbers.parent)
    planned = make_plan(load_at(file, None, None))
    jobs = [new_job(planned, left_to_do(planned, tried=False), attempt) for attempt in (1, 2, 3)]
    assert call(monkeypatch, "cancel", str(file)) == 0
    said = capsys.readouterr().out
    told = f"told attempt 3 of run {jobs[2].run_id} to stop; it does not seem to be running"
    assert said.splitlines() == [told]
    elsewhere = replace(Holder.of(os.getpid()), host="elsewhere")
    save_holder(planned.storage, planned.run.lease, elsewhere)
    assert call(monkeypatch, "cancel", str(file)) == 0
    seen = f"told attempt 3 of run {jobs[2].run_id} to stop; {elsewhere} does so\n"
    assert capsys.readouterr().out == seen
    planned.storage.delete(planned.run.lease)
    assert all(Path(job.stopped_file).exists() for job in jobs)
    answers, running = {1: False, 2: False, 3: True}, SimpleNamespace(stop=lambda: None)

    def attach(job: Any) -> Any:
        if not answers[job.attempt]:
            raise Unreachable(f"cluster.address: gone with {job.attempt}")
        return running

    monkeypatch.setattr(stopping, "cluster_of", lambda _: SimpleNamespace(attach=attach))
    assert call(monkeypatch, "cancel", str(file)) == 0
    assert capsys.readouterr().out.startswith("stopped attempt 3 of run ")
    answers[3] = False
    assert call(monkeypatch, "cancel", str(file)) == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [told]
    assert printed.err.splitlines() == ["Unreachable: cluster.address: gone with 3"]


def test_importing_the_flow_loads_nothing_heavy() -> None:
    code = (
        "import sys, flows.batch_inference, flows.cli, tasks.kinds.models\n"
        "heavy = ('ray', 'torch', 'transformers', 'sklearn', 'pytest')\n"
        "print([each for each in heavy if each in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
