"""Output columns of the types that a spec gives them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.batch_inference import batch_inference
from tasks.errors import InvalidSpec
from tests.flows.conftest import published, spec_of

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


def with_types(numbers: Path, types: dict[str, str]) -> Any:
    sink = {"kind": "parquet", "path": str(numbers.parent / "out"), "types": types}
    return spec_of(numbers, sink=sink)


def test_rows_are_published_in_the_types_that_are_given(numbers: Path) -> None:
    spec = with_types(numbers, {"id": "int32", "doubled": "float32"})
    assert batch_inference(spec)["attempts"] == 1
    rows = published(spec)
    assert [row["doubled"] for row in rows] == [2.0 * each for each in range(1000)]
    schemas = [pq.read_schema(file) for file in Path(spec.sink.path).rglob("*.parquet")]
    assert {each.field("id").type for each in schemas} == {pa.int32()}
    assert {each.field("doubled").type for each in schemas} == {pa.float32()}
    with pytest.raises(InvalidSpec, match="backfill"):
        batch_inference(with_types(numbers, {"id": "int32"}))
    assert published(spec) == rows


def test_a_type_of_no_column_ends_the_run_at_its_first_batch(numbers: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"sink\.types: 'tripled' is not among the columns"):
        batch_inference(with_types(numbers, {"tripled": "float32"}))
    assert not (numbers.parent / "out").exists()
