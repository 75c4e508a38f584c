"""What a Delta table's log asks of an object store, however many runs are in it."""

import pytest

from tests.s3_server import S3
from tests.storage_faults.faulty_s3 import faulty_s3
from tests.tables.bench import TableBench


@pytest.mark.s3
@pytest.mark.parametrize("kind", ["delta"])
def test_a_look_asks_for_a_few_of_all_commits(bench_on_s3: TableBench, s3: S3) -> None:
    """A run looks at the table as often as at its ledger."""
    for night in range(12):
        bench_on_s3.run(f"k{night}", {f"night-{night}": "v1"})
    with faulty_s3(s3.endpoint_url) as proxy:
        there = {"endpoint_url": proxy.endpoint_url}
        again = bench_on_s3.sink.model_copy(update={"storage_options": there}).as_table()
        assert again is not None
        assert len(again.look("").files) == 12
        assert len([path for _, path in proxy.seen if path.endswith(".json")]) == 3
