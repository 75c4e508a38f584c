"""An output follows a database's table, without Ray or Prefect; and nothing but a table."""

import logging
import time
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.steps import FilterStep
from tasks.output_status import look_at
from tasks.periods import Portion
from tasks.plan import make_plan
from tasks.planning.preflight import check_spec
from tasks.publish import publish_planned
from tasks.run import left_to_do, next_attempt
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import spec_of
from tests.flows.test_object_stores import predict
from tests.flows.test_table_sources import ids, run
from tests.kinds.sources.shop import Shop, sqlite_shop
from tests.kinds.sources.test_sql import shop  # noqa: F401


@pytest.fixture
def numbers(shop: Shop) -> Shop:  # noqa: F811
    """With a table of thirty numbers."""
    return filled(shop)


@pytest.fixture
def spec(tmp_path: Path, numbers: Shop) -> BatchInferenceSpec:
    """Doubles x."""
    return spec_over(tmp_path, numbers)


def filled(empty: Shop) -> Shop:
    """A database with thirty numbers, and a view of them."""
    empty.execute(
        "CREATE TABLE numbers (id INTEGER, x FLOAT)",
        *(f"INSERT INTO numbers VALUES ({n}, {n})" for n in range(30)),
        "CREATE VIEW seen AS SELECT * FROM numbers",
    )
    return empty


def spec_over(tmp_path: Path, numbers: Shop, **fields: Any) -> BatchInferenceSpec:
    """Doubles x, ten numbers an input."""
    source = numbers.source(**{"table": "numbers", **fields})
    return spec_of(tmp_path / "in", source=source.model_dump(mode="json"))


def is_done(spec: BatchInferenceSpec) -> bool:
    """Whether a backfill finds nothing to do."""
    found = look_at(Portion(spec, ()), check_spec(spec))
    assert found.is_done == make_plan(spec, save=False).nothing_to_do
    return found.is_done


def test_deleted_rows_leave_the_output_whatever_is_left_beside_them(
    spec: BatchInferenceSpec, numbers: Shop
) -> None:
    assert (run(spec), ids(spec)) == (30, list(range(30)))
    numbers.execute("DELETE FROM numbers WHERE id = 3")
    assert (run(spec), ids(spec)) == (9, [n for n in range(30) if n != 3])
    numbers.execute("DELETE FROM numbers WHERE id BETWEEN 10 AND 19")
    assert not is_done(spec)
    left = [n for n in range(30) if n != 3 and n // 10 != 1]
    assert (run(spec), ids(spec)) == (0, left)
    assert is_done(spec)
    numbers.execute(
        "INSERT INTO numbers VALUES (12, 12)", "DELETE FROM numbers WHERE id < 10 OR id > 20"
    )
    assert (run(spec), ids(spec)) == (2, [12, 20])
    assert is_done(spec)


def test_where_no_row_is_left_to_be_read_no_step_minds_what_columns_are(
    spec: BatchInferenceSpec, numbers: Shop
) -> None:
    """SQLite's values tell their types, and of none there is none."""
    steps = [FilterStep(expression="x >= 5")]
    spec = spec.model_copy(update={"steps": steps})
    assert (run(spec), is_done(spec)) == (25, True)
    numbers.execute("DELETE FROM numbers WHERE id >= 10")
    assert (run(spec), ids(spec)) == (0, [5, 6, 7, 8, 9])
    assert is_done(spec)
    numbers.execute("INSERT INTO numbers (id) VALUES (40)")
    assert (run(spec), ids(spec)) == (0, [5, 6, 7, 8, 9])


def test_what_comes_back_while_its_leaving_is_planned_stays(
    spec: BatchInferenceSpec, numbers: Shop
) -> None:
    run(spec)
    numbers.execute("DELETE FROM numbers WHERE id < 10")
    assert len(make_plan(spec).plan.shards) == 1
    numbers.execute("INSERT INTO numbers VALUES (4, 4)")
    assert (run(spec), ids(spec)) == (1, [4, *range(10, 30)])


@pytest.mark.parametrize("asked", [{}, {"table": None, "query": "SELECT * FROM numbers"}])
def test_a_table_may_grow_while_it_is_read(
    asked: dict[str, Any], tmp_path: Path, numbers: Shop
) -> None:
    numbers.execute("DELETE FROM numbers WHERE id > 25")
    spec = spec_over(tmp_path, numbers, **asked)
    planned = make_plan(spec)
    numbers.execute("INSERT INTO numbers VALUES (26, 26), (27, 27), (30, 30)")
    predict(planned)
    publish_planned(planned)
    assert ids(spec) == list(range(26))
    assert (run(spec), ids(spec)) == (8 + 1, [*range(28), 30])


def test_rows_that_are_updated_while_they_are_read_are_read_again(
    tmp_path: Path, numbers: Shop
) -> None:
    numbers.execute("CREATE TABLE at_work AS SELECT id, x, 0 AS version FROM numbers")
    spec = spec_over(tmp_path, numbers, table="at_work", version_column="version")
    planned = make_plan(spec)
    numbers.execute("UPDATE at_work SET version = 1 WHERE id = 13")
    predict(planned)
    publish_planned(planned)
    assert (run(spec), ids(spec)) == (10, list(range(30)))
    assert is_done(spec)


def test_rows_that_come_between_others_are_planned_anew(tmp_path: Path, numbers: Shop) -> None:
    numbers.execute("DELETE FROM numbers WHERE id = 25")
    spec = spec_over(tmp_path, numbers)
    planned = make_plan(spec)
    numbers.execute("INSERT INTO numbers VALUES (25, 25)")
    attempt = next_attempt(planned, left_to_do(planned, tried=False))
    attempt.ensure_started()
    while (result := attempt.look().result) is None:
        time.sleep(0.02)
    assert result["error"]["class"] == "InputChanged"
    assert "rows were inserted into the range" in result["error"]["message"]
    assert "source.exclude" in result["error"]["message"]
    assert (run(spec), ids(spec)) == (30, list(range(30)))


def test_an_emptied_table_empties_the_output_where_the_spec_allows_it(
    tmp_path: Path, numbers: Shop
) -> None:
    run(spec_over(tmp_path, numbers))
    numbers.execute("DELETE FROM numbers")
    with pytest.raises(InvalidSpec, match="has no row"):
        run(spec_over(tmp_path, numbers))
    allowed = spec_over(tmp_path, numbers, on_empty="succeed")
    assert (run(allowed), ids(allowed)) == (0, [])
    assert is_done(allowed)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"table": "seen"}, "but seen is not a table"),
        ({"table": None, "query": "SELECT * FROM numbers"}, "but they come from a query"),
        ({"exclude": ["10..19"]}, None),
    ],
)
def test_what_need_not_be_deleted_stays(
    fields: dict[str, Any],
    why: str | None,
    tmp_path: Path,
    numbers: Shop,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "tasks")
    if "exclude" in fields:
        run(spec_over(tmp_path, numbers))
    spec = spec_over(tmp_path, numbers, **fields)
    run(spec)
    numbers.execute("DELETE FROM numbers WHERE id BETWEEN 10 AND 20")
    assert (run(spec), ids(spec)) == (9, [n for n in range(30) if n != 20])
    assert is_done(spec)
    assert why in caplog.text if why else not caplog.text


@pytest.mark.parametrize("options", [{}, {"echo": False}])
def test_what_was_read_elsewhere_stays(
    options: dict[str, Any], tmp_path: Path, numbers: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """As from another schema of the same database: names of ranges do not tell which it was."""
    caplog.set_level(logging.INFO, "tasks")
    run(spec_over(tmp_path, numbers))
    numbers.execute("DELETE FROM numbers WHERE id BETWEEN 10 AND 20")
    if not options:
        argument = "timeout=9" if "sqlite" in numbers.path else "application_name=x"
        numbers = Shop(f"{numbers.path}?{argument}", numbers.execute)
    spec = spec_over(tmp_path, numbers, storage_options=options)
    assert (run(spec), ids(spec)) == (9, [n for n in range(30) if n != 20])
    assert is_done(spec)
    assert "10..19: they have no rows now, but were read with another source.path" in caplog.text
    numbers.execute("DELETE FROM numbers WHERE id > 20")
    with pytest.raises(InvalidSpec, match=r"source\.range_size was 10 in version 2 .* now 5"):
        run(spec_over(tmp_path, numbers, storage_options=options, range_size=5))


def test_rows_of_another_day_s_database_stay(tmp_path: Path) -> None:
    for day in ("monday", "tuesday"):
        folder = tmp_path / day
        folder.mkdir()
        numbers = filled(sqlite_shop(folder))
        add = 100 * (day == "tuesday")
        numbers.execute(f"UPDATE numbers SET id = id + {add}, x = x + {add}")
        spec = spec_over(tmp_path, numbers)
        assert run(spec) == 30
    assert ids(spec) == [*range(30), *range(100, 130)]
    assert is_done(spec)
