"""What published runs have set aside is found wherever the output lies, in one look at it."""

import shutil
from pathlib import Path

import pytest

from tasks.protocol import set_aside
from tasks.protocol.ids import IdRuns
from tasks.protocol.plan_file import save_plan
from tasks.protocol.publishing import publish
from tasks.protocol.set_aside import lines_of, published_shards, runs_with_rows_aside
from tests.protocol.bench import Bench, in_memory, on_disk


def publish_runs(bench: Bench, aside: str, none_aside: str) -> None:
    """Runs of an input each, some of which set a row aside."""
    for key in aside + none_aside:
        what = bench.prepare(key, {key: "v1"}, rejects=1 if key in aside else None)
        save_plan(bench.storage, what.run, what.plan)
        publish(bench.storage, bench.ledger, bench.output, what)


def test_an_output_may_be_moved_with_its_state(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    publish_runs(on_disk(before), "ab", "c")
    shutil.move(before, after)
    moved = on_disk(after)
    runs = [*runs_with_rows_aside(moved.storage, moved.output, moved.ledger.look())]
    assert [run.run_id for run in runs] == ["run-a", "run-b"]
    assert [line["path"] for run in runs for line in lines_of(run)] == ["a", "b"]


def test_files_are_gone_through_once_for_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, looks, parsed = in_memory(), list[object](), list[str]()
    publish_runs(bench, "abc", "defg")
    seen, of_json = bench.ledger.look(), IdRuns.of_json

    def look(*given: object) -> dict[str, set[int]]:
        looks.append(given)
        return published_shards(seen, ["run-a", "run-b", "run-c"])

    def parse(text: str) -> IdRuns:
        parsed.append(text)
        return of_json(text)

    monkeypatch.setattr(set_aside, "published_shards", look)
    runs = runs_with_rows_aside(bench.storage, bench.output, seen)
    assert [run.published for run in runs] == [{0}] * 3
    assert len(looks) == 1
    monkeypatch.setattr(IdRuns, "of_json", staticmethod(parse))
    assert published_shards(seen, ["run-a", "run-d"]) == {"run-a": {0}, "run-d": {0}}
    assert len(parsed) == 2, "files of other runs are passed over"
