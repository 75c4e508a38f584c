"""A database's rows are predicted once, and again where they are new or have changed."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flows.testing import FinishedRun, RunSpec
from tasks.errors import InvalidSpec

SPEC = "deployments/specs/sql.yaml"
FEATURES = ["months", "monthly_fee", "calls"]
HERE = ("source.path=sqlite:///${SHOP_FILE}", "source.range_size=10")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database of 35 customers; only the environment says where it lies."""
    file = tmp_path / "not-to-be-told.db"
    monkeypatch.setenv("SHOP_FILE", str(file))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(
            "CREATE TABLE customers (id INTEGER PRIMARY KEY, months INTEGER, "
            "monthly_fee NUMERIC(8, 2), calls INTEGER, updated_at DATETIME)"
        )
        connection.commit()
    add(file, range(35))
    return file


def add(shop: Path, ids: range) -> None:
    random = np.random.default_rng(ids.start)
    rows = [
        (
            n,
            int(random.integers(1, 60)),
            float(random.integers(500, 9000)) / 100,
            None,
            "2026-01-01",
        )
        for n in ids
    ]
    write(shop, *(f"INSERT INTO customers VALUES {row}".replace("None", "NULL") for row in rows))
    write(shop, "UPDATE customers SET calls = months % 7 WHERE id % 5")


def write(shop: Path, *statements: str) -> None:
    with closing(sqlite3.connect(shop)) as connection:
        for each in statements:
            connection.execute(each)
        connection.commit()


@pytest.fixture
def trees(tmp_path: Path) -> str:
    import xgboost

    random = np.random.default_rng(0)
    seen = pd.DataFrame(random.uniform(0, 60, (300, 3)), columns=FEATURES)
    data = xgboost.DMatrix(seen, seen["months"] * seen["calls"] > 200)
    booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, data, 10)
    booster.save_model(tmp_path / "churn.ubj")
    return f"model.path={tmp_path / 'churn.ubj'}"


def check(done: FinishedRun, shop: Path, trees: str) -> None:
    """Compare what is published with the model over what pandas reads."""
    import xgboost

    with closing(sqlite3.connect(shop)) as connection:
        frame = pd.read_sql("SELECT * FROM customers ORDER BY id", connection)
    booster = xgboost.Booster(model_file=trees.partition("=")[2])
    expected = booster.predict(xgboost.DMatrix(frame[FEATURES].astype("float32")))
    made = sorted((row["id"], row["prediction"]) for row in done.rows)
    assert [row[0] for row in made] == frame["id"].tolist()
    np.testing.assert_allclose([row[1] for row in made], expected, atol=1e-6)


@pytest.mark.prefect
def test_new_and_changed_ranges_are_predicted(run_spec: RunSpec, shop: Path, trees: str) -> None:
    first = run_spec(SPEC, *HERE, trees)
    assert first.report["rows"]["read"] == 35
    check(first, shop, trees)

    add(shop, range(60, 65))
    write(
        shop,
        "UPDATE customers SET months = 59, updated_at = '2026-01-02' WHERE id = 12",
        "DELETE FROM customers WHERE id = 13",
    )
    second = run_spec(SPEC, *HERE, trees)
    assert second.report["rows"]["read"] == 9 + 5  # of two ranges, and three are skipped
    assert second.report["inputs_skipped"] == 3
    check(second, shop, trees)

    assert run_spec(SPEC, *HERE, trees).report["published"] is False
    with pytest.raises(InvalidSpec, match="how the source is cut into inputs"):
        run_spec(SPEC, *HERE, "source.range_size=20", trees)
    for file in (run_spec.folder / "published").rglob("*"):
        assert not file.is_file() or b"not-to-be-told" not in file.read_bytes(), file


@pytest.mark.prefect
def test_a_range_that_changes_meanwhile_is_read_anew(run_spec: RunSpec, shop: Path) -> None:
    code = f"environment.working_dir={Path(__file__).parent / 'user_code'}"
    model = f"model={{kind: python, class: meddling:DeletesMeanwhile, init: {{database: {shop}}}}}"
    slowly = ("stages.read.rows_per_batch=10", "retries.max_attempts=2")
    done = run_spec(SPEC, *HERE, model, code, *slowly)
    assert done.report["attempts"] == 2
    assert done.report["redone_rows"] == 0
    assert sorted(row["id"] for row in done.rows) == [n for n in range(35) if n != 25]
    assert [row["double"] for row in done.rows] == [2 * row["id"] for row in done.rows]
