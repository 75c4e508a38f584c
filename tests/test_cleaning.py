"""What `clean` removes, and what it leaves, beside runs that are done, at work and given up."""

import json
import os
import subprocess
import sys
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from tasks.cleaning import find_orphans, remove
from tasks.errors import InvalidSpec
from tasks.kinds.sinks.delta import DeltaSink
from tasks.lease import Holder, save_holder
from tasks.ledgers import ledger_of
from tasks.outputs import output_of
from tasks.protocol.cleanup import OLD_SECONDS
from tasks.protocol.ids import IdRuns
from tasks.protocol.layout import RunFolder
from tasks.protocol.ledger import Entry
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.local_files import temporary_path
from tasks.protocol.records import Record, StagedFile, to_json
from tasks.spec import BatchInferenceSpec
from tests.noted_calls import noted_calls
from tests.protocol.test_ledger_contract import entry
from tests.s3_server import S3

DAYS_AGO = time.time() - 3 * OLD_SECONDS


@pytest.fixture
def spec(tmp_path: Path) -> BatchInferenceSpec:
    return BatchInferenceSpec.model_validate(
        {
            "name": "cleaned",
            "source": {"kind": "text", "path": str(tmp_path / "in")},
            "model": {"kind": "python", "class": "predictors:Double"},
            "sink": {"kind": "parquet", "path": str(tmp_path / "out")},
            "cluster": {"kind": "inline"},
        }
    )


def put(path: str, data: bytes = b"x", *, is_new: bool = False) -> str:
    """A file of three days ago, or a new one."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(data)
    if not is_new:
        os.utime(path, (DAYS_AGO, DAYS_AGO))
    return path


def header(run_id: str, version: int) -> bytes:
    """As the run's plan leaves it."""
    told = {"run_id": run_id, "run_key": "key", "ledger_version": version, "call": {}, "spec": {}}
    return json.dumps(told).encode()


def unpublished(spec: BatchInferenceSpec, run_id: str, version: int) -> RunFolder:
    """A run that has staged two files and recorded one of them."""
    run = output_of(spec)[1].run(run_id)
    put(run.header, header(run_id, version))
    record = Record("00-a", "plan", "", (StagedFile("named", IdRuns(((0, 1, 1),)), 1),))
    put(f"{run.records}/00-a.json", to_json(record))
    put(f"{run.staging}/named")
    put(f"{run.staging}/unnamed")
    return run


def publish(spec: BatchInferenceSpec, made: Entry) -> None:
    ledger = ledger_of(spec)
    ledger.commit(made, ledger.look())


def found(spec: BatchInferenceSpec) -> set[str]:
    return {orphan.path for orphan in find_orphans(spec)}


def test_nothing_is_there(spec: BatchInferenceSpec) -> None:
    assert found(spec) == set()


def test_what_years_of_runs_have_left_is_listed_at_once(
    spec: BatchInferenceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing for each run takes minutes of an object store."""
    left = set[str]()
    for name in "abcdef":
        staging = unpublished(spec, f"run-{name}", 0).staging
        left |= {f"{staging}/named", f"{staging}/unnamed"}
        publish(spec, entry(name))
    put(f"{output_of(spec)[1].runs}/run-a0/staging/of-another", is_new=True)
    listed = noted_calls(monkeypatch, "list", "list_with_ages")
    assert found(spec) == left
    assert len(listed) < 6


def test_a_run_that_can_be_resumed_keeps_what_it_recorded(spec: BatchInferenceSpec) -> None:
    run = unpublished(spec, "run-a", 0)
    put(f"{run.staging}/young", is_new=True)
    half = put(temporary_path(f"{run.staging}/x.parquet"))
    put(f"{output_of(spec)[1].runs}/.DS_Store")
    assert found(spec) == {f"{run.staging}/unnamed", half}


def test_published_rows_are_kept_whatever_their_folder_is_called(
    spec: BatchInferenceSpec,
) -> None:
    output = output_of(spec)[1]
    name = "host=web.tmp-3/part-00001-00000.parquet"
    staged = StagedFile("named", IdRuns(((0, 1, 1),)), 1)
    put(f"{output.path}/{name}")
    publish(spec, entry("k", files=(LedgerFile.staged_in(output.run("run-k"), staged, name),)))
    assert found(spec) == set()


def test_a_run_at_work_is_let_be(spec: BatchInferenceSpec) -> None:
    run = unpublished(spec, "run-a", 0)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        save_holder(output_of(spec)[0], run.lease, Holder.of(process.pid))
        assert found(spec) == set()
        process.kill()
    assert found(spec) == {f"{run.staging}/unnamed"}


def test_a_published_run_keeps_what_is_not_moved_yet(spec: BatchInferenceSpec) -> None:
    run = unpublished(spec, "run-k", 0)
    output = output_of(spec)[1]
    waiting = StagedFile("named", IdRuns(((0, 1, 1),)), 1)
    file = LedgerFile.staged_in(run, waiting, "part-00001-00000.parquet")
    publish(spec, entry("k", files=(file,)))
    user_file = put(f"{output.path}/notes.txt")
    assert found(spec) == {f"{run.staging}/unnamed"}
    remove(spec, find_orphans(spec))
    assert found(spec) == set()
    assert Path(file.source(output)).exists()
    assert Path(user_file).exists()
    assert Path(f"{run.records}/00-a.json").exists()


def test_a_file_that_the_ledger_removed_may_go(spec: BatchInferenceSpec) -> None:
    output = output_of(spec)[1]
    run = output.run("run-k1")
    names = ("part-00001-00000.parquet", "part-00001-00001.parquet")
    staged = [StagedFile(name, IdRuns(((0, 1, 1),)), 1) for name in names]
    files = tuple(LedgerFile.staged_in(run, each, each.name) for each in staged)
    for name in names:
        put(f"{output.path}/{name}")
    publish(spec, entry("k1", files=files))
    publish(spec, entry("k2", removed=(names[0],)))
    assert found(spec) == {f"{output.path}/{names[0]}"}
    table = spec.model_copy(update={"sink": DeltaSink(kind="delta", path=spec.sink.path)})
    assert found(table) == set(), "who reads an older version of a table still needs it"


def test_a_run_given_up_loses_its_records_first(spec: BatchInferenceSpec) -> None:
    publish(spec, entry("k"))
    run = unpublished(spec, "run-behind", 0)
    paths = [orphan.path for orphan in find_orphans(spec)]
    assert paths == [f"{run.records}/00-a.json", f"{run.staging}/named", f"{run.staging}/unnamed"]
    put(f"{run.staging}/young", is_new=True)
    assert found(spec) == set(), "somebody still writes"


def test_of_an_output_whose_ledger_is_lost_or_an_old_one_no_run_is_given_up(
    spec: BatchInferenceSpec,
) -> None:
    """The ledger may come back, from where it was put or from a copy."""
    output = output_of(spec)[1]
    unpublished(spec, "run-k2", 1)
    names = ("part-00001-00000.parquet", "part-00002-00000.parquet")
    for name in names:
        put(f"{output.path}/{name}")
    with pytest.raises(InvalidSpec, match=r"the state, or the ledger in it, was removed"):
        find_orphans(spec)
    staged = [StagedFile(name, IdRuns(((0, 1, 1),)), 1) for name in names]
    files = [LedgerFile.staged_in(output.run("run-k"), each, each.name) for each in staged]
    publish(spec, entry("k1", files=(files[0],)))
    with pytest.raises(InvalidSpec, match=r"is at version 2 .* is older"):
        find_orphans(spec)
    publish(spec, entry("k2", files=(files[1],)))
    assert f"{output.run('run-k2').staging}/unnamed" in found(spec)


def test_nothing_is_old_since_this_machines_clock_is_ahead(
    spec: BatchInferenceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = unpublished(spec, "run-a", 0)
    staged = f"{run.staging}/unnamed"
    put(staged, is_new=True)
    now = time.time
    with monkeypatch.context() as then:
        then.setattr(time, "time", lambda: now() + 3 * OLD_SECONDS)
        assert found(spec) == set()
    put(staged)
    assert found(spec) == {staged}


def test_a_preview_that_was_killed_is_cleared_away(spec: BatchInferenceSpec) -> None:
    left = put(f"{spec.sink.path}.state/previews/p1.state/runs/r/staging/x")
    kept = put(f"{spec.sink.path}.state/prepared/key/runs/r/staging/x")
    assert found(spec) == {left}
    assert Path(kept).exists()


def age(s3: S3, path: str) -> None:
    """Make an object of the S3 server one of three days ago."""
    from moto.s3.models import s3_backends

    [buckets] = [
        each["aws"].buckets for each in s3_backends.values() if s3.bucket in each["aws"].buckets
    ]
    key = buckets[s3.bucket].keys[path.removeprefix(f"{s3.bucket}/")]
    key.last_modified = datetime.fromtimestamp(DAYS_AGO, UTC).replace(tzinfo=None)


@pytest.mark.s3
def test_on_s3_the_ages_are_those_that_the_store_tells(spec: BatchInferenceSpec, s3: S3) -> None:
    options = s3.storage_options
    sink = spec.sink.moved_to(s3.url(f"{uuid.uuid4().hex}/out"), options)
    spec = spec.model_copy(update={"sink": sink})
    storage, output = output_of(spec)
    run = output.run("run-a")
    staged = [f"{run.staging}/{name}" for name in ("old", "young", "named")]
    for path in staged:
        storage.write(path, b"x")
    storage.write(run.header, header("run-a", 0))
    record = Record("00-a", "plan", "", (StagedFile("named", IdRuns(((0, 1, 1),)), 1),))
    storage.write(f"{run.records}/00-a.json", to_json(record))
    assert found(spec) == set(), "nothing is a day old"
    age(s3, staged[0])
    age(s3, staged[2])
    [orphan] = find_orphans(spec)
    assert orphan.path == staged[0]
    assert 2.9 < orphan.seconds / OLD_SECONDS < 3.1
    remove(spec, [orphan])
    assert [stat.path for stat in storage.list(run.staging)] == [staged[2], staged[1]]


def test_the_command_lists_and_deletes_on_request(spec: BatchInferenceSpec, tmp_path: Path) -> None:
    left = put(f"{spec.sink.path}.state/previews/p1.state/x")
    file = tmp_path / "spec.yaml"
    file.write_text(spec.model_dump_json(by_alias=True))
    call = ["clean", str(file), "--json"]
    listed = json.loads(CliRunner().invoke(app, call).stdout)
    assert [each["path"] for each in listed["orphans"]] == [left]
    assert Path(left).exists()
    assert json.loads(CliRunner().invoke(app, [*call, "--delete"]).stdout)["deleted"] is True
    said = CliRunner().invoke(app, call[:-1])
    assert "nothing to delete" in said.output
    assert not Path(left).exists()
