"""Where outputs and sources are: URLs that name them, that a browser opens, Prefect takes."""

from pathlib import Path
from typing import Any

import pytest
from prefect.assets import Asset

from tasks.artifacts import artifact_key
from tasks.kinds.sinks.parquet import ParquetSink
from tasks.kinds.sources import DeltaSource, IcebergSource
from tasks.kinds.sources.parquet import ParquetSource
from tasks.lineage import NAMED_SOURCES, asset_key, source_assets
from tasks.reporting.addresses import sink_page, sink_url, source_urls
from tests.reporting import classify_spec


def sink_at(path: str, **options: Any) -> ParquetSink:
    return ParquetSink(kind="parquet", path=path, storage_options=options)


def source_at(*paths: str) -> ParquetSource:
    return ParquetSource(kind="parquet", path=list(paths))


@pytest.mark.parametrize("path", ["s3://bucket/a/out", "s3a://bucket/a/out/", "s3://bucket/a/out/"])
def test_a_place_has_one_url_however_it_is_written(path: str) -> None:
    assert sink_url(sink_at(path)) == "s3://bucket/a/out"
    assert source_urls(source_at(path, path)) == ["s3://bucket/a/out"]


def test_prefect_takes_the_urls_of_tables() -> None:
    wanted = {"/lake/orders/": "file:///lake/orders", "s3a://lake/orders": "s3://lake/orders"}
    for path, url in wanted.items():
        assert source_urls(DeltaSource(path=path)) == [url]
    assert source_urls(IcebergSource(path="sales.orders")) == ["iceberg://default/sales.orders"]
    assert Asset(key="iceberg://default/sales.orders")


def test_a_glob_is_the_folder_that_it_looks_below(tmp_path: Path) -> None:
    globs = [f"{tmp_path}/in/*.parquet", f"{tmp_path}/in/2026-0?-*", "s3://bucket/in/*/[ab]"]
    assert source_urls(source_at(*globs)) == [f"file://{tmp_path}/in", "s3://bucket/in"]


def test_a_browser_opens_what_lies_on_awss_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "s3://bucket/a & b/out"
    page = "https://console.aws.amazon.com/s3/buckets/bucket?prefix=a+%26+b%2Fout%2F"
    assert sink_page(sink_at(path)) == page
    itself = "s3://bucket/a%20%26%20b/out"
    assert sink_page(sink_at(path, endpoint_url="http://127.0.0.1:1")) == itself
    elsewhere = {"endpoint_url": "http://127.0.0.1:1"}
    assert sink_page(sink_at(path, client_kwargs=elsewhere)) == itself
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert sink_page(sink_at(path)) == itself
    assert sink_page(sink_at("/data/out (1)")) == "file:///data/out%20%281%29"


def test_passwords_in_urls_are_shown_nowhere() -> None:
    with pytest.raises(ValueError, match="contains a user's key") as refused:
        sink_url(sink_at("s3://user:hunter2@bucket/out"))
    assert "hunter2" not in str(refused.value)
    (url,) = source_urls(ParquetSource(path="https://user:hunter2@127.0.0.1/in.parquet"))
    assert "127.0.0.1/in.parquet" in url
    assert "hunter2" not in url


def test_every_path_makes_a_key_that_prefect_takes() -> None:
    odd = "".join(map(chr, range(128))).replace("/", "")
    key = asset_key(f"file:///data/{odd}é")
    assert Asset(key=key).key == key
    assert key.endswith("é")
    assert asset_key("file:///a b") == "file:///a~20b" != asset_key("file:///a_b")


def test_an_event_names_no_more_sources_than_it_may(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = [f"{tmp_path}/{number}.parquet" for number in range(NAMED_SOURCES + 1)]
    spec = classify_spec(tmp_path, source={"kind": "parquet", "path": paths})
    assert source_assets(spec) == [f"file://{path}" for path in paths[:NAMED_SOURCES]]
    assert "names 50 of 51 sources" in caplog.text


@pytest.mark.parametrize(
    ("name", "key"),
    [("Pets_nightly", "pets-nightly-report"), ("a..b", "a-b-report"), ("x-", "x-report")],
)
def test_artifact_keys_are_what_prefect_takes(name: str, key: str) -> None:
    assert artifact_key(name, "report") == key
