"""In what order a plan reads its inputs."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.kinds.sources import ParquetSource
from tasks.kinds.sources.listing import list_inputs
from tasks.planning.sharding import first_rows, resume_plan, shuffled
from tasks.protocol.plan_file import Plan, Shard, shard_table, shards_of
from tasks.protocol.storage import open_storage
from tasks.spec_file import parse_spec

SHARDS = [Shard(0, f"/{name}.png", "1", 9) for name in "abcdefghijklmnop"]


def in_order(shards: list[Shard], seed: int) -> list[Shard]:
    return shards_of(shuffled(shard_table(shards), seed))


def test_shards_are_shuffled_by_their_names_and_the_seed_alone() -> None:
    first = in_order(SHARDS, 0)
    assert sorted(first, key=lambda each: each.path) == SHARDS
    assert SHARDS != first != in_order(SHARDS, 1)
    assert in_order(SHARDS[::-1], 0) == first
    # What is new finds its place among the others, which keep theirs.
    assert in_order(SHARDS[:9], 0) == [each for each in first if each in SHARDS[:9]]


def test_parts_of_a_big_file_are_shuffled_too(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": range(4_000)}), tmp_path / "a.parquet", row_group_size=100)
    source = ParquetSource(path=str(tmp_path), split_above_mib=0.001)
    parts = source.shards(*list_inputs(source))
    mixed = shuffled(parts, 3)
    assert len(parts) > 5
    assert shards_of(mixed) != shards_of(parts)
    few = first_rows(source, open_storage(str(tmp_path))[0], mixed, {}, limit=150)
    assert few[0].start == mixed["start"][0].as_py()
    assert sum(each.rows or 0 for each in few) == 150


def test_columns_of_mended_inputs_that_are_others_than_planned_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = tmp_path / "in" / "0.csv", tmp_path / "in" / "1.csv"
    first.parent.mkdir()
    first.write_text("id,age\n1,unknown\n")
    second.write_text("id,age\n2,30\n")
    spec = parse_spec(
        {
            "source": {"kind": "csv", "path": str(first.parent)},
            "model": {"kind": "python", "class": "m:f"},
            "sink": {"kind": "parquet", "path": str(tmp_path / "out")},
        }
    )

    def planned(old: Plan | None = None, **options: Any) -> Plan:
        storage, inputs = list_inputs(spec.source)
        return resume_plan(old, spec, {"limit": None}, storage, inputs, **options)

    plan = planned()
    second.write_text("id,age\n2,31\n")
    plan = planned(plan)
    assert not caplog.messages
    first.write_text("id,age,city\n1,29,Oslo\n")
    mended = planned(plan)
    (told,) = caplog.messages
    assert "with those of the plan: age was string and is int64; city was not there" in told
    assert "--restart" in told
    assert mended.pins["reader"] == plan.pins["reader"]
    assert planned(mended) == mended
    assert len(caplog.messages) == 1

    anew = planned(plan, has_done_rows=lambda: False)
    assert anew.pins["reader"] != plan.pins["reader"]
    # A worker of a dead attempt may still store rows of the old columns, under the old numbers.
    assert not {*anew.numbers.tolist()} & {*plan.numbers.tolist()}
