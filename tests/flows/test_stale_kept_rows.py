"""Rows that were kept, and would come out otherwise by now for a reason that no spec shows."""

import json
from pathlib import Path
from typing import Any

import pytest

from flows.batch_inference import batch_inference
from tasks.materializing_run import kept_at
from tasks.plan import make_plan
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published, spec_of

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """What the step goes by."""
    return tmp_path / "told.json"


def tell(told: Path, add: float, refuses: int = 0) -> None:
    """Have the step do something else, as with another release of what it imports."""
    told.write_text(json.dumps({"add": add, "refuses": refuses}))


def spec_told(folder: Path, told: Path, out: str, **changes: Any) -> BatchInferenceSpec:
    """Keeps x as the step makes it, for the model to double."""
    return spec_of(
        folder,
        steps=[{"kind": "python", "function": "told:Told", "init": {"file": str(told)}}],
        sink={"kind": "parquet", "path": str(folder.parent / out)},
        stages={"preprocess": {"materialize": True, "path": str(folder.parent / "kept")}},
        **changes,
    )


def added(spec: BatchInferenceSpec) -> set[float]:
    """What the step has added to each published x."""
    return {row["x"] - row["id"] for row in published(spec)}


def stepped(told: Path) -> int:
    """Rows that the step was handed."""
    return sum(map(int, told.with_suffix(".counts").read_text().split()))


def test_rows_are_prepared_again_where_the_same_config_replaces_them(
    numbers: Path, told: Path
) -> None:
    tell(told, 1.0)
    one, other = (spec_told(numbers, told, out) for out in ("one", "other"))
    batch_inference(one)
    tell(told, 2.0)
    batch_inference(other, replace_output=True)
    assert (added(other), stepped(told)) == ({1.0}, 1000), "of which nothing is published yet"
    batch_inference(one, replace_output=True)
    assert (added(one), stepped(told)) == ({2.0}, 2000)
    third = spec_told(numbers, told, "third")
    batch_inference(third)
    assert (added(third), stepped(told)) == ({2.0}, 2000), "what was kept last is taken"


def test_inputs_of_which_too_many_rows_were_set_aside_are_prepared_again(
    numbers: Path, told: Path
) -> None:
    tell(told, 1.0, refuses=20)
    one = spec_told(numbers, told, "one", errors={"max_rejected_fraction": 0.5})
    assert batch_inference(one)["rows"]["rejected"] == 200
    tell(told, 1.0)
    lenient = spec_told(numbers, told, "lenient", errors={"max_rejected_fraction": 0.2})
    assert batch_inference(lenient)["rows"]["rejected"] == 200
    before = stepped(told)
    strict = spec_told(numbers, told, "strict")
    assert batch_inference(strict)["rows"]["rejected"] == 0
    assert stepped(told) - before == 1000
    assert [row["id"] for row in published(strict)] == list(range(1000))


def test_only_inputs_with_rows_set_aside_are_prepared_again(numbers: Path, told: Path) -> None:
    tell(told, 1.0)
    batch_inference(spec_told(numbers, told, "one"))
    file = numbers / "3.parquet"
    file.write_bytes(file.read_bytes())  # again, under another identity
    tell(told, 1.0, refuses=20)
    lenient = {"max_rejected_fraction": 0.5}
    spec = spec_told(numbers, told, "lenient", errors=lenient)
    assert batch_inference(spec)["rows"]["rejected"] == 20
    tell(told, 1.0)
    before = stepped(told)
    assert batch_inference(spec_told(numbers, told, "strict"))["rows"]["rejected"] == 0
    assert stepped(told) - before == 100


def test_what_the_spec_says_of_packages_and_variables_counts(
    numbers: Path, told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(told, 1.0)
    monkeypatch.setenv("OF_THE_STEP", "1")
    environment = spec_of(numbers).environment.model_dump()
    others = ({"env_vars": {"OF_THE_STEP": "1"}}, {"pip": ["numpy"]})
    specs = [
        spec_told(numbers, told, "out", environment={**environment, **each})
        for each in ({}, {}, *others)
    ]
    places = [kept_at(make_plan(spec, save=False)) for spec in specs]
    assert places[0] == places[1]
    assert len({*places}) == 3
