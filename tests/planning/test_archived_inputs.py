"""Inputs archived of S3 are refused before a run begins, where they are left to do."""

import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import InvalidSpec
from tasks.plan import make_plan
from tasks.protocol.storage import open_storage
from tasks.run_options import RunOptions
from tests.reporting import classify_spec, run_spec
from tests.s3_server import S3

pytestmark = pytest.mark.s3


@pytest.fixture
def folder(s3: S3) -> str:
    return uuid.uuid4().hex


def spec_of(s3: S3, folder: str, tmp_path: Any, **source: Any) -> Any:
    where = {"path": s3.url(f"{folder}/in"), "storage_options": s3.storage_options, **source}
    return classify_spec(tmp_path, source={"kind": "parquet", **where})


def test_a_redrive_needs_what_it_reads_again(s3: S3, folder: str, tmp_path: Any) -> None:
    put(s3, folder, "a.parquet", "STANDARD")
    where = {"path": s3.url(f"{folder}/in"), "storage_options": s3.storage_options}
    given = {"source": {"kind": "parquet", **where}, "errors": {"max_rejected_fraction": 1}}
    spec = classify_spec(tmp_path, {"bad": [1]}, **given)
    run_spec(spec)
    assert len(make_plan(spec, RunOptions(redrive=True), save=False).plan.shards) == 1
    put(s3, folder, "a.parquet", "GLACIER")
    with pytest.raises(InvalidSpec, match=r"in/a\.parquet.*restore them, then run again$"):
        make_plan(spec, RunOptions(redrive=True), save=False)


def put(s3: S3, folder: str, name: str, storage_class: str) -> None:
    data = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1]}), data)
    body = data.getvalue().to_pybytes()
    call(s3, "put_object", f"{folder}/in/{name}", Body=body, StorageClass=storage_class)


def call(s3: S3, method: str, key: str, **more: Any) -> None:
    storage, bucket = open_storage(s3.url(""), s3.storage_options)
    storage.filesystem.call_s3(method, Bucket=bucket.rstrip("/"), Key=key, **more)


@pytest.mark.parametrize("name", ["", "/*.parquet", "/b.parquet"])
def test_the_first_of_them_is_named_with_the_ways_out(
    name: str, s3: S3, folder: str, tmp_path: Any
) -> None:
    for each, storage_class in {"a": "GLACIER_IR", "b": "DEEP_ARCHIVE", "c": "GLACIER"}.items():
        put(s3, folder, f"{each}.parquet", storage_class)
    spec = spec_of(s3, folder, tmp_path, path=s3.url(f"{folder}/in{name}"))
    wanted = "1 input " if name.startswith("/b") else "2 inputs "
    first = rf"source\.path: .*in/b\.parquet.* {wanted}archived"
    with pytest.raises(InvalidSpec, match=first) as told:
        make_plan(spec)
    assert "restore them" in str(told.value)
    assert "source.exclude" in str(told.value)
    rest = spec_of(s3, folder, tmp_path, exclude=["b.parquet", "c.parquet"])
    assert len(make_plan(rest).plan.shards) == 1


def test_what_was_restored_is_read(s3: S3, folder: str, tmp_path: Any) -> None:
    """Its storage class stays, and a listing tells no more."""
    put(s3, folder, "a.parquet", "GLACIER")
    with pytest.raises(InvalidSpec, match="archived in S3"):
        make_plan(spec_of(s3, folder, tmp_path))
    call(s3, "restore_object", f"{folder}/in/a.parquet", RestoreRequest={"Days": 1})
    assert len(make_plan(spec_of(s3, folder, tmp_path)).plan.shards) == 1


def test_what_is_published_may_lie_there(s3: S3, folder: str, tmp_path: Any) -> None:
    put(s3, folder, "a.parquet", "STANDARD")
    run_spec(spec_of(s3, folder, tmp_path))
    put(s3, folder, "a.parquet", "GLACIER")  # of the same content, so of the same identity
    put(s3, folder, "b.parquet", "STANDARD")
    assert len(make_plan(spec_of(s3, folder, tmp_path)).plan.shards) == 1
