"""Which rows a replica was at that died too often; that it is told is in `tests/flows`."""

from typing import Any

import pyarrow as pa
import pytest

from tasks.protocol.batch import ROW, RowBatch
from tasks.protocol.ids import row_id
from tasks.ray_job import in_hand
from tasks.ray_job.in_hand import InHand, over_rows_in_hand
from tasks.ray_job.stage_adapter import StageAdapter

ACTOR = "0123abcd"


def died() -> Any:
    """Of a replica that Ray knows."""
    from ray.exceptions import ActorDiedError

    error = ActorDiedError()
    error.actor_id = ACTOR
    return error


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> dict[bytes, bytes]:
    """Stands for Ray's table of notes."""
    held: dict[bytes, bytes] = {}
    monkeypatch.setattr(in_hand, "_internal_kv_get", lambda key, namespace: held.get(key))
    monkeypatch.setattr(
        in_hand, "_internal_kv_put", lambda key, value, **_: held.update({key: value})
    )
    return held


def batch() -> RowBatch:
    """Rows 97 to 99 of one file, and 0 of the next."""
    ids = [*(row_id(3, row) for row in (97, 98, 99)), row_id(4, 0)]
    rows = pa.table({ROW: pa.array(ids, pa.int64())})
    return RowBatch(rows, sources={3: "/in/3.parquet", 4: "/in/4.parquet"})


@pytest.mark.usefixtures("table")
def test_the_last_call_is_told() -> None:
    hand = InHand(ACTOR.encode())
    hand.begin(batch())
    error = over_rows_in_hand(died())
    assert (error.stage, error.source, error.row) == ("infer", "/in/3.parquet", 97)
    assert "at last over 4 rows up to row 0 of /in/4.parquet: " in error.message
    stage = hand.noting(StageAdapter("infer", (lambda rows: rows,)))
    stage.functions[0](batch().rows.slice(1, 2))
    error = over_rows_in_hand(died())
    assert (error.source, error.row) == ("/in/3.parquet", 98)
    assert "at last over 2 rows up to row 99: " in error.message


@pytest.mark.usefixtures("table")
def test_where_nothing_was_noted_the_stage_is_told() -> None:
    """As of a replica that has died while it loaded its model."""
    InHand(b"another").begin(batch())
    error = over_rows_in_hand(died())
    assert (error.stage, error.source) == ("infer", None)
    assert error.message.startswith("ActorDiedError: The actor died unexpectedly")
