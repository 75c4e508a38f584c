"""The shipped specs of tables, on tables that their own libraries have written."""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake

from flows.testing import RunSpec
from tests.kinds.tiny_models import save_bert, texts

CHOSEN = ["amount", "items", "country"]
ARTICLES = texts(4, longest=20)


def orders(numbers: range, seed: int) -> pl.DataFrame:
    """Orders of which large ones of many items are returned."""
    random = np.random.default_rng(seed)
    amount, items = random.uniform(1, 100, len(numbers)), random.integers(1, 9, len(numbers))
    country = ["CH" if each % 2 else "FR" for each in numbers]
    return pl.DataFrame({"order": numbers, "amount": amount, "items": items, "country": country})


@pytest.fixture(scope="module")
def pipeline() -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    seen = orders(range(300), 0).to_pandas()
    prepared = make_column_transformer((OneHotEncoder(), ["country"]), remainder=StandardScaler())
    returned = (seen["amount"] * seen["items"] > 200).astype(int)
    return make_pipeline(prepared, LogisticRegression()).fit(seen[CHOSEN], returned)


@pytest.mark.prefect
def test_scores_of_a_delta_table_in_another(
    run_spec: RunSpec, pipeline: Any, tmp_path: Path
) -> None:
    import skops.io

    skops.io.dump(pipeline, tmp_path / "orders.skops")
    lake, scores = str(tmp_path / "orders"), str(tmp_path / "scores")
    places = (f"source.path={lake}", f"sink.path={scores}")
    call = ("deployments/specs/delta-scores.yaml", f"model.path={tmp_path}/orders.skops", *places)
    first, again = orders(range(20), 1), orders(range(15, 30), 2)
    first[3, "amount"] = -1.0
    for rows in (first, again):
        write_deltalake(lake, rows.to_arrow(), mode="append")
        run_spec(*call)
    newest = pl.concat([first[:15], again]).filter(pl.col("amount") > 0)
    labels = [("kept", "returned")[each] for each in pipeline.predict(newest[CHOSEN].to_pandas())]
    found = pl.read_delta(scores).sort("order")
    assert found["order"].to_list() == newest["order"].to_list()
    assert found["predicted_label"].to_list() == labels
    assert {*labels} == {"kept", "returned"}
    assert DeltaTable(scores).version() == 2
    DeltaTable(lake).optimize.compact()
    assert run_spec(*call).report["published"] is False


@pytest.mark.prefect
def test_vectors_of_an_iceberg_table_as_a_lance_dataset(run_spec: RunSpec, tmp_path: Path) -> None:
    import lance
    import torch
    from pyiceberg.catalog.sql import SqlCatalog
    from transformers import AutoTokenizer

    model = save_bert(tmp_path / "bert")

    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    articles = pl.DataFrame({"id": range(4), "text": ARTICLES, "author": "x"}).to_arrow()
    with closing(SqlCatalog("default", **properties)) as catalog:
        catalog.create_namespace("news")
        catalog.create_table("news.articles", schema=articles.schema).append(articles)
    catalog_of_test = f"source.catalog={{type: sql, uri: '{properties['uri']}'}}"
    places = f"sink.path={tmp_path}/vectors", f"model.name_or_path={tmp_path}/bert"
    run_spec("deployments/specs/lance-vectors.yaml", catalog_of_test, *places)
    found = lance.dataset(f"{tmp_path}/vectors").to_table().sort_by("id")
    assert found.column_names == ["id", "embedding"]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "bert")
    for vector, text in zip(found["embedding"].to_pylist(), ARTICLES, strict=True):
        with torch.inference_mode():
            hidden = model.bert(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        np.testing.assert_allclose(vector, hidden.mean(0), atol=2e-5)
