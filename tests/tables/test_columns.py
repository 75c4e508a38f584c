"""What others do to a table's columns is found before anything is decided."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from tasks.errors import InvalidSpec
from tasks.plan import make_plan
from tasks.publish import publish_planned
from tests.flows.conftest import spec_of
from tests.flows.test_s3 import predict
from tests.tables.bench import TableBench
from tests.tables.conftest import OpenBench
from tests.tables.foreigners import iceberg
from tests.tables.readers import frame_of


def drop_delta(bench: TableBench) -> None:
    """All of it is written anew, without a column of ours."""
    rows = pa.table({"id": pa.array([0], pa.int64()), "x": [0.0]})
    write_deltalake(bench.sink.path, rows, mode="overwrite", schema_mode="overwrite")


def drop_iceberg(bench: TableBench) -> None:
    with iceberg(bench) as table, table.update_schema() as update:
        update.delete_column("doubled")


DROP = {"delta": drop_delta, "iceberg": drop_iceberg}


@pytest.mark.parametrize("kind", [*DROP])
def test_a_column_that_others_drop_does_not_come_back(
    open_bench: OpenBench, kind: str, tmp_path: Path
) -> None:
    bench, folder = open_bench(), tmp_path / "in"
    spec = spec_of(folder, sink={"kind": kind, "path": bench.sink.path})
    folder.mkdir()
    for number in range(2):
        pq.write_table(pa.table({"id": [number], "x": [1.0]}), folder / f"{number}.parquet")
        planned = make_plan(spec)
        predict(planned)
        if number:
            DROP[kind](bench)
            with pytest.raises(InvalidSpec, match=r"without the columns \['doubled'\]"):
                publish_planned(planned)
            assert planned.ledger.look().version == 1
        else:
            publish_planned(planned)
    with pytest.raises(InvalidSpec, match=r"without the columns \['doubled'\]"):
        make_plan(spec)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_tensors_are_lists_in_tables_that_have_none(bench: TableBench) -> None:
    kind = pa.fixed_shape_tensor(pa.float32(), [2, 2])
    numbers = pa.array([[1, 2, 3, 4]] * 3, pa.list_(pa.float32(), 4))
    bench.run("k1", {"a": "v1"}, extra={"t": pa.ExtensionArray.from_storage(kind, numbers)})
    assert frame_of(bench)["t"].to_list() == [[1, 2, 3, 4]] * 3
    (file,) = bench.ledger.look().files.values()
    own = bench.storage.read(file.target(bench.output))
    kept = bench.sink.select(own, ["t"], pa.schema([("t", kind)]))
    assert kept["t"].type == kind
