"""What the ledger asks an object store for, however many runs it has seen."""

import uuid

import pytest

from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.ledger import Snapshot
from tasks.protocol.ledger_lines import LINE_SCHEMA
from tasks.protocol.storage import open_storage
from tests.object_stores import ObjectStore
from tests.protocol.test_ledger_contract import entry
from tests.s3_server import S3
from tests.storage_faults.faulty_s3 import faulty_s3


def filled(store: ObjectStore) -> DeltaLedger:
    """A ledger of a dozen runs."""
    ledger = DeltaLedger(store.url(f"{uuid.uuid4().hex}/ledger"), store.storage_options)
    for version in range(12):
        seen = Snapshot(version, LINE_SCHEMA.empty_table())  # a commit needs no more of it
        ledger.commit(entry(f"k{version}", (f"in/{version}", "1-1", 0)), seen)
    return ledger


@pytest.mark.s3
def test_a_look_asks_for_a_few_of_all_entries(s3: S3) -> None:
    """A run looks ten times, and each entry since the last checkpoint is asked for twice."""
    ledger = filled(s3)
    with faulty_s3(s3.endpoint_url) as proxy:
        again = DeltaLedger(ledger.url, {"endpoint_url": proxy.endpoint_url})
        assert again.look().version == 12
        proxy.seen.clear()
        assert again.look().version == 12
        assert sum(proxy.seen.values()) < 20


@pytest.mark.parametrize("store", ["azure", "google"])
def test_checkpoints_of_other_stores_are_read(store: str, request: pytest.FixtureRequest) -> None:
    its: ObjectStore = request.getfixturevalue(store)
    ledger = filled(its)
    storage, folder = open_storage(ledger.url, its.storage_options)
    paths = [stat.path for stat in storage.list(f"{folder}/_delta_log")]
    assert any(path.endswith(".checkpoint.parquet") for path in paths)
    seen = ledger.look()
    assert (seen.version, len(seen.inputs)) == (12, 12)
