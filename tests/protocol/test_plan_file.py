"""Plans: stored and read back, superseded, and never two of them mixed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.protocol import plan_file
from tasks.protocol.layout import RunFolder
from tasks.protocol.plan_file import (
    Plan,
    Shard,
    first_plan,
    load_plan,
    save_plan,
    shard_table,
    shards_of,
    supersede,
)
from tests.protocol.bench import content_of
from tests.simulation.storage import Calm, SimStorage

RUN = RunFolder("runs/one")
PINS: dict[str, Any] = {"model": "m@1", "ledger_version": 3}

contents = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["v1", "v2", "v3"]))


def plan_for(inputs: dict[str, str], pins: dict[str, Any] = PINS) -> Plan:
    return first_plan(shard_table(shards_for(inputs)), pins)


def shards_for(inputs: dict[str, str]) -> list[Shard]:
    return [Shard(0, path, identity, 1) for path, identity in sorted(inputs.items())]


def numbers_of(plan: Plan) -> dict[tuple, int]:
    return {content_of(shard): shard.number for shard in shards_of(plan.shards)}


shard_lists = st.lists(
    st.builds(
        Shard,
        st.just(0),
        st.text(max_size=3),
        st.text(max_size=3),
        st.integers(0, 9),
        st.none() | st.integers(0, 9),
        st.none() | st.integers(0, 9),
        st.integers(0, 9),
        st.none() | st.integers(0, 9),
    )
)


@given(shard_lists)
def test_plan_and_its_digest_survive_storage(shards: list[Shard]) -> None:
    storage = SimStorage(Calm())
    plan = first_plan(shard_table(shards), PINS)
    save_plan(storage, RUN, plan)
    back = load_plan(storage, RUN)
    assert back is not None
    assert back.digest == plan.digest
    assert shards_of(back.shards) == shards_of(plan.shards)
    assert (back.pins, back.ancestors) == (plan.pins, plan.ancestors)


@given(contents, contents)
def test_digest_tells_plans_apart(one: dict[str, str], other: dict[str, str]) -> None:
    plans = [plan_for(inputs) for inputs in (one, other)]
    assert (plans[0].digest == plans[1].digest) == (one == other)
    assert plan_for(one, {**PINS, "model": "m@2"}).digest != plans[0].digest


@given(st.lists(contents, min_size=1, max_size=5))
def test_a_number_means_the_same_content_for_ever(history: list[dict[str, str]]) -> None:
    plan = plan_for(history[0])
    meaning: dict[int, tuple] = {}
    for inputs in history:
        new = supersede(plan, shard_table(shards_for(inputs)), PINS)
        for content, number in numbers_of(new).items():
            assert meaning.setdefault(number, content) == content
        kept = numbers_of(plan).items() & numbers_of(new).items()
        assert len(kept) == len(numbers_of(plan).keys() & numbers_of(new).keys())
        assert new.numbers.tolist() == sorted(new.numbers)
        assert new.lineage == plan.lineage | {new.digest}
        plan = new


def test_latest_generation_is_in_force() -> None:
    storage = SimStorage(Calm())
    assert load_plan(storage, RUN) is None
    old = plan_for({"a": "v1"})
    new = supersede(old, shard_table(shards_for({"a": "v2"})), PINS)
    for plan in (new, old):
        save_plan(storage, RUN, plan)
    for name in (".DS_Store", "Thumbs.db"):  # as file managers leave them
        storage.write(f"{RUN.plans}/{name}", b"")
    found = load_plan(storage, RUN)
    assert found is not None
    assert found.digest == new.digest


def test_of_two_plans_made_at_once_all_take_the_same() -> None:
    storage = SimStorage(Calm())
    plans = [plan_for({"a": identity}) for identity in ("v1", "v2")]
    for plan in plans:
        save_plan(storage, RUN, plan)
    found = load_plan(storage, RUN)
    assert found is not None
    assert found.digest == min(plan.digest for plan in plans)
    assert plans[0].lineage.isdisjoint(plans[1].lineage)


def test_too_many_shards_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_file, "MAX_SHARDS", 2)
    with pytest.raises(OverflowError, match="2 shards; at most 2"):
        plan_for({"a": "v1", "b": "v1"})


@pytest.mark.parametrize(("rows", "known"), [([], 0), ([2, 3], 5), ([2, None], None)])
def test_known_rows(rows: list[int | None], known: int | None) -> None:
    shards = [Shard(0, str(at), "v1", 1, rows=n) for at, n in enumerate(rows)]
    assert first_plan(shard_table(shards), PINS).known_rows == known
