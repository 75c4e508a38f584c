"""A database's rows are predicted once, and again where they are new or have changed."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flows.testing import FinishedRun, RunSpec
from tasks.errors import InvalidSpec
from tests.postgres import PASSWORD, READER_VARIABLE, NoPostgresError, find_programs

SPEC = "deployments/specs/sql.yaml"
FEATURES = ["months", "monthly_fee", "calls"]
FILE = "not-to-be-told.db"
SECRETS = (FILE.encode(), PASSWORD.encode())


@dataclass(frozen=True)
class Shop:
    """A database of customers."""

    path: str
    """As the spec names it."""
    url: str
    """For whom all is allowed."""
    write: Callable[..., None]
    """Runs statements, for good."""

    @property
    def here(self) -> tuple[str, str]:
        """What the spec is to read."""
        return f"source.path={self.path}", "source.range_size=10"

    def add(self, ids: range) -> None:
        """New customers."""
        random = np.random.default_rng(ids.start)
        for n in ids:
            months, fee = int(random.integers(1, 60)), float(random.integers(500, 9000)) / 100
            self.write(f"INSERT INTO customers VALUES ({n}, {months}, {fee}, NULL, '2026-01-01')")
        self.write("UPDATE customers SET calls = months % 7 WHERE id % 5 <> 0")

    def filled(self) -> "Shop":
        """With its first 35 customers."""
        self.write(
            "CREATE TABLE customers (id INTEGER PRIMARY KEY, months INTEGER, "
            "monthly_fee NUMERIC(8, 2), calls INTEGER, updated_at TIMESTAMP)"
        )
        self.add(range(35))
        return self


@pytest.fixture
def sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """One in a file; only the environment says where."""
    file = tmp_path / FILE
    monkeypatch.setenv("SHOP_FILE", str(file))

    def write(*statements: str) -> None:
        with closing(sqlite3.connect(file)) as connection:
            for each in statements:
                connection.execute(each)
            connection.commit()

    return Shop("sqlite:///${SHOP_FILE}", f"sqlite:///{file}", write).filled()


@pytest.fixture
def shop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """One on Postgres, as in the spec, where there is one; the role may only read."""
    try:
        find_programs()
    except NoPostgresError:
        return request.getfixturevalue("sqlite")
    server = request.getfixturevalue("postgres")
    monkeypatch.setenv(READER_VARIABLE, PASSWORD)
    path, url = server.for_reader("shop"), server.url("shop", "postgresql+psycopg")
    return Shop(path, url, partial(server.execute, "shop")).filled()


@pytest.fixture
def trees(tmp_path: Path) -> str:
    import xgboost

    random = np.random.default_rng(0)
    seen = pd.DataFrame(random.uniform(0, 60, (300, 3)), columns=FEATURES)
    data = xgboost.DMatrix(seen, seen["months"] * seen["calls"] > 200)
    booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, data, 10)
    booster.save_model(tmp_path / "churn.ubj")
    return f"model.path={tmp_path / 'churn.ubj'}"


def check(done: FinishedRun, shop: Shop, trees: str) -> None:
    """Compare what is published with the model over what pandas reads."""
    import xgboost
    from sqlalchemy import create_engine

    engine = create_engine(shop.url)
    frame = pd.read_sql("SELECT * FROM customers ORDER BY id", engine)
    engine.dispose()
    booster = xgboost.Booster(model_file=trees.partition("=")[2])
    expected = booster.predict(xgboost.DMatrix(frame[FEATURES].astype("float32")))
    made = sorted((row["id"], row["prediction"]) for row in done.rows)
    assert [row[0] for row in made] == frame["id"].tolist()
    np.testing.assert_allclose([row[1] for row in made], expected, atol=1e-6)


@pytest.mark.prefect
def test_new_and_changed_ranges_are_predicted(run_spec: RunSpec, shop: Shop, trees: str) -> None:
    first = run_spec(SPEC, *shop.here, trees)
    assert first.report["rows"]["read"] == 35
    check(first, shop, trees)

    shop.add(range(60, 65))
    shop.write(
        "UPDATE customers SET months = 59, updated_at = '2026-01-02' WHERE id = 12",
        "DELETE FROM customers WHERE id = 13",
    )
    second = run_spec(SPEC, *shop.here, trees)
    assert second.report["rows"]["read"] == 9 + 5  # of two ranges, and three are skipped
    assert second.report["inputs_skipped"] == 3
    check(second, shop, trees)

    assert run_spec(SPEC, *shop.here, trees).report["published"] is False
    with pytest.raises(InvalidSpec, match=r"source.range_size was 10 in version 2 .* now 20"):
        run_spec(SPEC, *shop.here, "source.range_size=20", trees)
    for file in (run_spec.folder / "_published").rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        assert not any(secret in content for secret in SECRETS), file


@pytest.mark.prefect
def test_a_range_that_changes_meanwhile_is_read_anew(
    run_spec: RunSpec, sqlite: Shop, tmp_path: Path
) -> None:
    code = f"environment.working_dir={Path(__file__).parent / 'user_code'}"
    init = f"{{database: {tmp_path / FILE}}}"
    model = f"model={{kind: python, class: meddling:DeletesMeanwhile, init: {init}}}"
    slowly = ("stages.read.rows_per_batch=10", "retries.max_attempts=2")
    done = run_spec(SPEC, *sqlite.here, model, code, *slowly)
    assert done.report["attempts"] == 2
    in_hand = 20  # a batch in the model and one on its way out, as the reader finds out
    assert done.report["redone_rows"] <= in_hand
    assert sorted(row["id"] for row in done.rows) == [n for n in range(35) if n != 25]
    assert [row["double"] for row in done.rows] == [2 * row["id"] for row in done.rows]
