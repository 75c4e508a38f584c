"""Digests of what decides a prediction: an upgrade changes none by itself, a person's change does.

They are published with each version; one that differs stops the next run for a backfill.
"""

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import pytest
from pydantic import Field

from tasks.errors import InvalidSpec
from tasks.kinds.steps.step import Step
from tasks.plan import make_plan
from tasks.planning.config import config_digests, model_digest, other_config, refuse_other_config
from tasks.spec_file import parse_spec
from tests import golden

HF = {"kind": "huggingface", "task": "text-classification", "name_or_path": "a/b"}


def spec_of(**parts: dict[str, Any]) -> dict[str, Any]:
    source = {"kind": "text", "path": "/in"}
    sink = {"kind": "parquet", "path": "/out"}
    return {"source": source, "model": HF, "sink": sink, **parts}


def digest_of(raw: dict[str, Any]) -> str:
    return digests_of(raw)[0]


def digests_of(raw: dict[str, Any]) -> tuple[str, str]:
    return config_digests(parse_spec(raw), {"model": "m", "code": "c"}, None)


SAME: list[dict[str, Any]] = [
    {"model": {**HF, "revision": "main"}},
    {"model": {**HF, "name_or_path": "/moved"}},
    {"model": {**HF, "options": {}}},
    {"model": {**HF, "options": {"top_k": None}, "runtime": "eager", "column": None}},
    {"sink": {"kind": "parquet", "path": "/elsewhere", "compression": "zstd", "mode": "append"}},
    {"resources": {"dtype": "auto", "batch_size": 7}},
]
OTHERS: list[dict[str, Any]] = [
    {"model": {**HF, "revision": "v2"}},
    {"model": {**HF, "options": {"top_k": 2}}},
    {"model": {**HF, "task": "feature-extraction"}},
    {"model": {"kind": "vllm", "task": "classify", "name_or_path": "a/b"}},
    {"sink": {"kind": "jsonl", "path": "/out"}},
    {"sink": {"kind": "parquet", "path": "/out", "compression": "snappy"}},
    {"resources": {"dtype": "float16"}},
    {"steps": [{"kind": "chunk_text"}]},
    {"steps": [{"kind": "chunk_text", "size": 999}]},
    {"steps": [{"kind": "label_from_path"}]},
]


@pytest.mark.parametrize("parts", SAME, ids=str)
def test_a_default_written_out_is_the_default(parts: dict[str, Any]) -> None:
    assert digest_of(spec_of(**parts)) == digest_of(spec_of())


def test_what_is_set_makes_another_digest() -> None:
    digests = [digest_of(spec_of(**parts)) for parts in [{}, *OTHERS]]
    assert len({*digests}) == len(digests)


@pytest.mark.parametrize(("root", "is_same"), [("", True), ("memory://", False), ("s3://b", False)])
def test_files_of_which_only_size_and_time_are_known_may_not_move(root: str, is_same: bool) -> None:
    """Two folds of one training may have written theirs in the same second, of the same size."""
    first, second = (
        digest_of(spec_of(model={"kind": "xgboost", "path": f"{root}/fold-{fold}/model.ubj"}))
        for fold in (1, 2)
    )
    assert (first == second) is is_same


def test_a_model_is_the_same_wherever_it_lies_and_another_with_other_settings() -> None:
    def made_by(**changes: Any) -> str:
        return model_digest(parse_spec(spec_of(model={**HF, **changes})).model, "weights")

    assert made_by(name_or_path="c/d", revision="v2") == made_by()
    assert made_by(options={"top_k": 2}) != made_by()
    assert made_by(task="feature-extraction") != made_by()


@dataclass
class Published:
    """As much of a ledger's snapshot as is looked at."""

    entries: dict[int, dict[str, Any]]
    base: int = 1


def published_under(*configs: str) -> Any:
    return Published({number: {"config": each} for number, each in enumerate(configs, 1)})


def test_what_an_earlier_release_has_published_goes_on_and_then_the_model_may_move() -> None:
    now = digests_of(spec_of())
    anywhere, here = now
    moved = digests_of(spec_of(model={**HF, "name_or_path": "/moved"}))
    other = digests_of(spec_of(model={**HF, "task": "feature-extraction"}))
    assert other_config(published_under(here, anywhere), now) is None
    assert other_config(published_under(anywhere), moved) is None
    assert other_config(published_under(here), moved) == 1
    assert other_config(published_under(anywhere), other) == 1


@pytest.mark.parametrize("release", ["earlier", "this"])
def test_an_unfinished_run_goes_on_whichever_release_has_begun_it(
    release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.plan.check_spec", lambda spec: {"model": "m", "code": ""})
    (tmp_path / "in.txt").write_text("a row")
    raw = spec_of(
        source={"kind": "text", "path": str(tmp_path / "in.txt")},
        sink={"kind": "parquet", "path": str(tmp_path / "out")},
    )
    with monkeypatch.context() as patched:
        if release == "earlier":
            patched.setattr(
                "tasks.planning.call.config_digests", lambda *given: config_digests(*given)[1:] * 2
            )
        begun = make_plan(parse_spec(raw))
    assert make_plan(parse_spec(raw)).run_key == begun.run_key
    moved = parse_spec({**raw, "model": {**HF, "name_or_path": "/moved"}})
    if release == "this":
        assert make_plan(moved).run_key == begun.run_key
    else:  # it says of itself where its model lies
        assert (
            make_plan(moved).notes[0].startswith(f"run {begun.run.run_id}, started by another spec")
        )


class OldStep(Step):
    """As a release has it."""

    kind: Literal["example"] = "example"
    size: int = 8


class NewStep(OldStep):
    """As the next one has it: with a field more."""

    edges: str = Field(default="shift", alias="at_edges")
    levels: list[int] = Field(default=[])


class OtherDefault(OldStep):
    """As one has it that makes other rows of the same spec."""

    size: int = 9
    results_version: ClassVar[int] = 2


def test_a_field_that_an_upgrade_brings_changes_nothing_until_it_is_set() -> None:
    old = OldStep(size=5).identity()
    assert old == {"kind": "example", "size": 5}
    assert NewStep(size=5).identity() == old
    assert NewStep(size=5, at_edges="shift", levels=[]).identity() == old
    assert NewStep(size=5, at_edges="pad").identity() == {**old, "at_edges": "pad"}
    assert NewStep(size=5, levels=[1]).identity() == {**old, "levels": [1]}


def test_a_default_that_has_changed_makes_another_config() -> None:
    assert OtherDefault().identity() != OldStep().identity()
    assert OtherDefault(size=8).identity() != OldStep(size=8).identity()


def test_no_spec_that_is_shipped_asks_for_a_backfill_after_an_upgrade() -> None:
    """After a change that is meant, say so in CHANGELOG.md and run `python -m tests.golden`.

    What is not in the file yet, a field or a spec, is not held to it.
    """
    kept, now = json.loads(golden.FILE.read_text()), golden.current()
    assert golden.changed_defaults(kept["kinds"], now["kinds"]) == [], "raise results_version"
    assert {name: now["specs"].get(name) for name in kept["specs"]} == kept["specs"]


def test_a_default_is_not_changed_by_accident() -> None:
    kept = json.loads(golden.FILE.read_text())["kinds"]
    now = copy.deepcopy(kept)
    now["model huggingface"]["defaults"] |= {"options.top_k": 5, "of_a_later_version": 1}
    del now["step chunk_text"]["defaults"]["size"]
    assert golden.changed_defaults(kept, now) == [
        "model huggingface: options.top_k",
        "step chunk_text: size",
    ]
    now["model huggingface"]["results_version"] += 1
    assert golden.changed_defaults(kept, now) == ["step chunk_text: size"]


def test_another_limit_is_named_where_one_is_given() -> None:
    """Where the folder of the run that published is gone, and nobody can tell what differs."""
    seen = SimpleNamespace(entries={1: {"config": "c", "run_id": "r"}}, base=0)
    with pytest.raises(
        InvalidSpec, match=r"differs: unknown: --limit, .* or use another --output$"
    ):
        refuse_other_config(seen, ("a", "b"), 10, lambda _: ([], []), list)  # type: ignore[arg-type]
    told = r"differs: unknown: model, steps, .*; or nothing, where another release published that"
    with pytest.raises(
        InvalidSpec, match=rf"{told} version\. .* `batch-inference verify SPEC --acc"
    ):
        refuse_other_config(seen, ("a", "b"), None, lambda _: ([], []), list)  # type: ignore[arg-type]
