"""Steps keep rows, or say which not."""

import ast
import io
import math
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image
from pydantic import ValidationError

from tasks.errors import InvalidSpec, UserCodeBroke
from tasks.kinds import column_types, columns, condition_evaluation, expression
from tasks.kinds.sources.images import SCHEMA
from tasks.kinds.steps import FilterStep, LabelFromPathStep, PythonStep, RenameStep, SelectStep
from tasks.kinds.steps import python as python_step
from tasks.protocol.batch import ROW
from tasks.ray_job.blame import call_with_blame, keeping_rows

ROWS = pa.table(
    {
        ROW: pa.array([10, 11, 12, 13], pa.int64()),
        "x": [0, 1, 2, 3],
        "name": ["a", "b", None, "d"],
        "path": ["/in/cat/0.png", "/in/dog/1.png", "/in/cat/2.png", "/in/emu/3.png"],
    }
)


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    sys.modules.pop("steps_code", None)


def python(function: str, **more: Any) -> PythonStep:
    return PythonStep(function=f"steps_code:{function}", **more)


@pytest.mark.parametrize(("level", "label"), [(0, "bucket"), (-2, "cat"), (-1, "1.png")])
def test_label_from_a_url(level: int, label: str) -> None:
    assert LabelFromPathStep(level=level).part("s3://bucket/in/cat/1.png") == label


@pytest.mark.parametrize(("level", "label"), [(0, "host"), (-2, "cat"), (-1, "1.png")])
def test_label_from_a_signed_url(level: int, label: str) -> None:
    url = "https://host/in/cat/1.png?signature=a/b&next=s3://bucket/c"
    assert LabelFromPathStep(level=level).part(url) == label


def test_select_keeps_ids() -> None:
    assert SelectStep(columns=["x"]).build()(ROWS).column_names == [ROW, "x"]


def test_select_takes_a_column_once() -> None:
    with pytest.raises(ValidationError, match="'x' twice"):
        SelectStep(columns=["x", "name", "x"])


def test_select_drops() -> None:
    for named in (["x", "path"], ["x", "path", "x"]):
        kept = SelectStep(columns=named, drop=True).build()(ROWS)
        assert kept.column_names == [ROW, "name"]
    with pytest.raises(UserCodeBroke, match=r"\['__row'\] are not among"):
        SelectStep(columns=[ROW], drop=True).build()(ROWS)


def test_select_names_what_is_missing() -> None:
    with pytest.raises(UserCodeBroke, match=r"\['y'\] are not among"):
        SelectStep(columns=["y"]).build()(ROWS)


def test_rename() -> None:
    assert "renamed" in RenameStep(columns={"x": "renamed"}).build()(ROWS).column_names


@pytest.mark.parametrize("columns", [{"x": "a", "y": "a"}, {"x": "__a"}, {"x": ""}, {}])
def test_rename_refuses(columns: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        RenameStep(columns=columns)


def test_rename_refuses_a_taken_name() -> None:
    with pytest.raises(UserCodeBroke, match="two columns named"):
        RenameStep(columns={"x": "name"}).build()(ROWS)


@pytest.mark.parametrize(("level", "label"), [(-2, "cat"), (-1, "0.png"), (0, "in")])
def test_label_from_path(level: int, label: str) -> None:
    labelled = LabelFromPathStep(level=level).build()(ROWS)
    assert labelled["label"][0].as_py() == label


def test_label_from_path_calls_a_folder_by_its_name() -> None:
    step = LabelFromPathStep(names={"cat": "tabby", "other": "none"})
    assert step.build()(ROWS)["label"][0].as_py() == "tabby"
    assert LabelFromPathStep(names={"dog": "pug"}).build()(ROWS)["label"][0].as_py() == "cat"


def test_label_from_path_says_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="none at level -9"):
        LabelFromPathStep(level=-9).build()(ROWS)
    with pytest.raises(UserCodeBroke, match="'path'"):
        LabelFromPathStep().build()(ROWS.drop_columns(["path"]))
    with pytest.raises(InvalidSpec, match=r"^steps\.label_from_path: 'path' is int64, not text"):
        LabelFromPathStep().build()(pa.table({ROW: [1], "path": [7]}))


@pytest.mark.parametrize("kind", [pa.string(), pa.null()], ids=str)
def test_a_row_without_a_path_has_no_label_of_one(kind: pa.DataType) -> None:
    given = [None] if pa.types.is_null(kind) else ["/in/cat/a.png", None]
    rows = pa.table({ROW: [*range(len(given))], "path": pa.array(given, kind)})
    outcome = call_with_blame(LabelFromPathStep().build(), rows)
    assert outcome.rows is None or outcome.rows["label"].to_pylist() == ["cat"]
    assert {at: str(error) for at, error in outcome.failed.items()} == {
        len(given) - 1: "column 'path' is empty in this row"
    }


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ("x >= 2", [12, 13]),
        ("x in (0, 3)", [10, 13]),
        ("x not in [0, 3] and name is not None", [11]),
        ("name is None", [12]),
        ("not (x == 1 or name == 'd')", [10]),
        ("0 < x * 2 - 1 < 5", [11, 12]),
        ("-x < -2", [13]),
        ("name == 'zebra'", []),
        ("name not in ('a', 'b')", [13]),
        ("not name in ('a', 'b')", [13]),
        ("not name not in ('a', 'b')", [10, 11]),
        ("not (name in ('a', 'b') or x > 9)", [13]),
        ("not (name not in ('a', 'b') and x < 9)", [10, 11]),
        ("not (0 <= x in (1, 2))", [10, 13]),
        ("not (name in ('a',) and not not (x == 0))", [11, 12, 13]),
        ("x != 0 and 2 / x >= 1", [11, 12]),
        ("x == 0 or 2 / x >= 1", [10, 11, 12]),
        ("not (x == 0 or 2 / x < 1)", [11, 12]),
        ("0 < x <= 2 / x", [11]),
        ("not (0 < x <= 2 / x)", [10, 12, 13]),
        ("(0 < x < 3) == (x != 2)", [11]),
        ("x / 2 == 0.5", [11]),
        ("x / 2 > 1", [13]),
        ("(x + 1) / 2.5 == 1.6", [13]),
        ("3 / 2 < x < 5 / 2", [12]),
    ],
)
def test_filter(expression: str, kept: list[int]) -> None:
    step = FilterStep(expression=expression)
    step.check()
    assert step.build()(ROWS)[ROW].to_pylist() == kept


def test_filter_divides_fractions_as_they_are() -> None:
    prices = pa.array([Decimal("1.50"), Decimal("3.00"), None], pa.decimal128(10, 2))
    rows = pa.table({ROW: [1, 2, 3], "price": prices, "ratio": [0.5, 0.75, 1.5]})
    assert FilterStep(expression="price / 2.0 < 1").build()(rows)[ROW].to_pylist() == [1]
    assert FilterStep(expression="ratio / 2 > 0.3").build()(rows)[ROW].to_pylist() == [2, 3]


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ("price + 1 == 2.5", [1]),
        ("price * count > 4", [2]),
        ("price * rate == 1.05", [1]),
        ("price / count >= 1", [1, 2]),
        ("price / rate > 2", [1, 2]),
        ("rate - price > 0", []),
        ("-price < -2", [2]),
        ("price * 2.0 > 5", [2]),
    ],
)
def test_a_filter_computes_decimals_as_databases_have_them(
    expression: str, kept: list[int]
) -> None:
    prices, rates = [Decimal("1.50"), Decimal("3.00"), None], [Decimal("0.7"), Decimal(1), None]
    rows = pa.table(
        {
            ROW: [1, 2, 3],
            "price": pa.array(prices, pa.decimal128(38, 2)),
            "rate": pa.array(rates, pa.decimal128(38, 10)),
            "count": [1, 2, 3],
        }
    )
    assert FilterStep(expression=expression).build()(rows)[ROW].to_pylist() == kept


IDS = pa.table(
    {
        ROW: pa.array([1, 2, 3], pa.int64()),
        "id": pa.array([1 << 63 | 5, 7, None], pa.uint64()),
        "size": pa.array([20_000_001, (1 << 60) + 1, None], pa.int64()),
        "price": pa.array([Decimal("3.00"), Decimal("-0.50"), None], pa.decimal128(10, 2)),
        "score": pa.array([0.5, 2e9, None], pa.float32()),
    }
)


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ("id > 0", [1, 2]),
        ("id == 7", [2]),
        ("id != -1", [1, 2]),
        ("-1 >= id", []),
        ("id in (9223372036854775813, -1)", [1]),
        ("id not in (9223372036854775813, -1)", [2]),
        ("id == 9223372036854775813", [1]),
        ("id > size", [1]),
        ("id != size", [1, 2]),
        ("size + 1 >= id", [2]),
        ("0 - size < id", [1, 2]),
        ("size < 9223372036854775813", [1, 2]),
        ("size in (9223372036854775813, 20000001)", [1]),
        ("id in (0.5, 7.0)", [2]),
        ("id > 7.5", [1]),
        ("id - 1 == 9223372036854775812", [1]),
        ("id * size > 9223372036854775813", [1]),
        ("id * id == id * 9223372036854775813", [1]),
        ("id * id in (49, -1)", [2]),
        ("id * 3 - id * 2 == id", [1, 2]),
        ("-(id * size) < size * 2", [1, 2]),
        ("id * size > price", [1, 2]),
        ("id * price > 0.5", [1]),
        ("id * size / 2 > 4e18", [1, 2]),
        ("id * 2 * size > score", [1, 2]),
        ("size > 0.5", [1, 2]),
        ("size * 0.5 == 10000000.5", [1]),
        ("size in (0.5, 20000001.0)", [1]),
        ("size / 2 > 10000001", [2]),
        ("size > -9223372036854775808", [1, 2]),
        ("price > 0", [1]),
        ("price in (3, 4)", [1]),
        ("price * 2 == -1", [2]),
        ("price < size", [1, 2]),
        ("score > 20000001", [2]),
        ("score in (20000001, 2000000000)", [2]),
    ],
)
def test_numbers_of_all_types_are_compared(expression: str, kept: list[int]) -> None:
    step = FilterStep(expression=expression)
    step.check()
    assert step.build()(IDS)[ROW].to_pylist() == kept


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ("score == 0.1", [1]),
        ("-0.1 == score", [2]),
        ("score != 0.1", [2, 3]),
        ("score >= 0.1", [1, 3]),
        ("score > 0.1", [3]),
        ("score in (0.1, -0.1, 1)", [1, 2]),
        ("score not in (0.1, 1)", [2, 3]),
        ("score < 1e300", [1, 2, 3]),
        ("exact == 0.1", [1, 2]),
        ("exact > score", [2]),
    ],
)
def test_a_number_is_compared_as_a_column_of_fewer_bits_holds_it(
    expression: str, kept: list[int]
) -> None:
    score = pa.array([0.1, -0.1, 0.5, None], pa.float32())
    rows = pa.table({ROW: [1, 2, 3, 4], "score": score, "exact": [0.1, 0.1, 0.5, 0.5]})
    assert FilterStep(expression=expression).build()(rows)[ROW].to_pylist() == kept


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ("score <= 1e300", [2]),
        ("score == 1e300", []),
        ("score != 1e300", [1, 2]),
        ("score > 1e300", [1]),
        ("-1e300 < score", [1, 2]),
    ],
)
def test_infinity_is_more_than_what_a_column_of_fewer_bits_cannot_hold(
    expression: str, kept: list[int]
) -> None:
    rows = pa.table({ROW: [1, 2], "score": pa.array([math.inf, 0.1], pa.float32())})
    assert FilterStep(expression=expression).build()(rows)[ROW].to_pylist() == kept


NARROW = pa.table(
    {
        ROW: pa.array([1, 2], pa.int64()),
        "red": pa.array([5, 200], pa.uint8()),
        "green": pa.array([7, 100], pa.uint8()),
        "stars": pa.array([5, -128], pa.int8()),
        "width": pa.array([50_000, 2], pa.int32()),
        "id": pa.array([5, 1 << 63], pa.uint64()),
    }
)


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ("red - green > 0", [2]),
        ("green - red - 1 > 0", [1]),
        ("stars * 100 > 200", [1]),
        ("-stars > 100", [2]),
        ("width * width > 2000000000", [1]),
        ("red + green > 255", [2]),
        ("red * 2 in (10, 400)", [1, 2]),
        ("id - red - red < 0", [1]),
        ("-id < 0", [1, 2]),
        ("id * 1 == 5", [1]),
        ("red - green < id", [1, 2]),
        ("stars == id", [1]),
        ("red < id", [2]),
    ],
)
def test_narrow_numbers_may_have_wide_results(expression: str, kept: list[int]) -> None:
    assert FilterStep(expression=expression).build()(NARROW)[ROW].to_pylist() == kept


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ("size / 2 + 1 > 4.4", [1, 2]),
        ("1 - size / 2 == -2.5", [1]),
        ("size / 2 * 2 == 7", [1]),
        ("-(size / 2) < -3.6", [2]),
        ("size / 2 - size / 2 == 0", [1, 2]),
        ("wide > size / 2", [1, 2]),
        ("id / 2 in (3, 4)", [2]),
        ("id > size / 2", [1, 2]),
        ("price + size / 2 > 6", [1]),
        ("size / 2 / 2 in (1, 2)", [2]),
    ],
)
def test_a_quotient_keeps_its_fraction_in_what_is_computed_of_it(
    expression: str, kept: list[int]
) -> None:
    rows = pa.table(
        {
            ROW: pa.array([1, 2], pa.int64()),
            "size": [7, 8],
            "wide": [(1 << 60) + 1, 8],
            "id": pa.array([1 << 63 | 5, 8], pa.uint64()),
            "price": pa.array([Decimal("3.00"), Decimal("-0.50")], pa.decimal128(10, 2)),
        }
    )
    assert FilterStep(expression=expression).build()(rows)[ROW].to_pylist() == kept


def test_a_filter_is_read_once_for_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = FilterStep(expression="x > 1").build()
    monkeypatch.delattr(expression, "tree_of")
    assert [keep(ROWS)[ROW].to_pylist() for _ in range(2)] == [[12, 13]] * 2


REFUSED = ["x is 5", "x in 'abc'", "x in ()", "x == None", "None < x", "x in (y,)", "(1, 2) == x"]
REFUSED += ["-" * 9999 + "x", "x > 1j", "x in (1, 'a')", "x > 10**9", "x > 99999999999999999999"]


@pytest.mark.parametrize(
    "expression",
    ["x >", "__import__('os')", "x.y == 1", "1 == 1", "f(x)", "[i for i in x]", *REFUSED],
)
def test_filter_refuses(expression: str) -> None:
    with pytest.raises(InvalidSpec, match=r"steps\.filter\.expression"):
        FilterStep(expression=expression).check()


@pytest.mark.parametrize(
    "expression",
    ["x > 1 AND y < 2", "x = 1", "x <> 1", "x IS NOT NULL", "x is not null", "NOT x > 1"],
)
def test_a_filter_in_sql_is_told_pythons_way(expression: str) -> None:
    with pytest.raises(InvalidSpec, match=r"; Python's: and, or, not, ==, !=, .*is not None$"):
        FilterStep(expression=expression).check()


@pytest.mark.parametrize(
    ("name", "expression"),
    [
        ("first name", "`first name` > 1"),
        ("class", "1 < `class` < 4 and `class` != 9"),
        ("it's", "`it's` > 1 or `it's` == 0"),
        ("temp_\u00b5", "temp_\u00b5 > 1"),  # that Python reads as the Greek letter
        ("a.b", "`a.b` in (2, 3)"),
        ("x", "`x` > 1 and not `x` is None"),
    ],
)
def test_a_column_of_any_name_stands_in_backticks(name: str, expression: str) -> None:
    step = FilterStep(expression=expression)
    step.check()
    rows = pa.table({ROW: pa.array([0, 1, 2], pa.int64()), name: [1, 2, 3], "y": ["`x`"] * 3})
    assert step.reads == {"expression": [name]}
    assert step.schema_after(rows.schema).equals(rows.schema)
    assert step.build()(rows)[ROW].to_pylist() == [1, 2]
    in_a_text = FilterStep(expression=f"y == '`x`' and {expression}")
    assert in_a_text.build()(rows)[ROW].to_pylist() == [1, 2]


@pytest.mark.parametrize("expression", ["class > 1", "first name == 'x'", "`x > 1", "'x' == 1"])
def test_a_name_that_is_no_word_of_pythons_is_told_its_place(expression: str) -> None:
    with pytest.raises(InvalidSpec, match="in backticks, such as `first name` == 'Ada'"):
        FilterStep(expression=expression).check()


def test_what_is_no_condition_is_said_in_words() -> None:
    schema = pa.schema({"x": pa.int64()})
    for wrong, said in {
        "1 - x": "it is not a condition",
        "x > 'a'": "does not exist for int64",
    }.items():
        with pytest.raises(InvalidSpec, match=f"does not fit x: int64: .*{said}"):
            FilterStep(expression=wrong).schema_after(schema)


@pytest.mark.parametrize("expression", ["x >", "f(x) >= 'a = b AND c'"])
def test_a_filter_that_is_wrong_in_python_is_told_no_more(expression: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        FilterStep(expression=expression).check()
    assert "Python's" not in str(caught.value)


@pytest.mark.parametrize(
    "expression",
    ["x", "not x", "x > 'a'", "x and name", "x + 'a' == 3", "x / 'a' == 3"],
)
def test_filter_says_where_types_do_not_fit(expression: str) -> None:
    with pytest.raises(InvalidSpec, match=r"does not fit .*x: int64"):
        FilterStep(expression=expression).build()(ROWS)


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ("gone is None or gone > timestamp('2026-01-31T12:00Z')", [10, 11, 12, 13]),
        ("x > 1 and gone > 5", []),
        ("not (gone in (1, 2))", []),
        ("gone + 1 > 2 or x == 3", [13]),
    ],
)
def test_a_column_without_a_value_fits_any_condition(expression: str, kept: list[int]) -> None:
    """Sources make text of it, and in another night it holds times or numbers."""
    gone = pa.field("gone", pa.string(), metadata=column_types.NO_VALUE)
    rows = ROWS.append_column(gone, pa.nulls(4, pa.string()))
    step = FilterStep(expression=expression)
    assert step.schema_after(rows.schema.remove(0)) == rows.schema.remove(0)
    assert step.build()(rows)[ROW].to_pylist() == kept
    with pytest.raises(InvalidSpec, match=r"does not fit gone: string"):
        step.schema_after(pa.schema([("x", pa.int64()), ("gone", pa.string())]))
    some = ROWS.append_column(gone, pa.array([None, None, "7", "8"]))
    with pytest.raises(InvalidSpec, match=r"does not fit .*gone: string"):
        step.build()(some)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("at > timestamp('2026-01-31T12:00Z')", "without timezone"),
        ("x < 2 and at > timestamp('2026-01-31T12:00Z')", "without timezone"),
        ("at > date('2026-01-31') and price * price * price > 1", "precision out of range"),
    ],
)
def test_types_that_do_not_fit_are_no_rows_fault(expression: str, reason: str) -> None:
    rows = ROWS.slice(0, 2).append_column("at", pa.array([datetime(2026, 2, 1)] * 2))
    price = pa.array([Decimal("1.50")] * 2, pa.decimal128(38, 2))
    keep = FilterStep(expression=expression).build()
    with pytest.raises(InvalidSpec, match=rf"does not fit .*at: timestamp\[us\].*{reason}"):
        call_with_blame(keep, rows.append_column("price", price))


def test_a_day_is_not_guessed_to_be_one_in_utc() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    by_day = FilterStep(expression="at >= date('2026-01-31')").build()
    rows = ROWS.slice(0, 2)
    for zone, is_told in [("America/New_York", True), ("UTC", False), (None, False)]:
        at = pa.array([noon] * 2, pa.timestamp("us", zone))
        if is_told:
            with pytest.raises(InvalidSpec, match=r"in America/New_York: write timestamp\('2026"):
                call_with_blame(by_day, rows.append_column("at", at))
        else:
            assert len(by_day(rows.append_column("at", at))) == 2


def test_a_condition_is_built_once_however_many_rows_break_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built = []

    def counting(node: ast.expr, schema: pa.Schema) -> Any:
        built.append(schema)
        return build_over(node, schema)

    build_over = expression.build_over
    monkeypatch.setattr(expression, "build_over", counting)
    monkeypatch.setattr(condition_evaluation, "build_over", counting)
    zeros = pa.table({ROW: range(100), "zeros": [0] * 100})
    outcome = call_with_blame(FilterStep(expression="1 / zeros > 3").build(), zeros)
    assert len(outcome.failed) == 100
    assert len(built) <= 3, "to see what it names, whether it fits, and to compute it"


def test_filter_blames_a_row_for_its_values() -> None:
    outcome = call_with_blame(FilterStep(expression="1 / (x - 1) < 1").build(), ROWS)
    assert list(outcome.failed) == [11]


def test_python_function_and_class() -> None:
    rows = ROWS.slice(0, 2)
    assert python("upper").build()(rows)["name"].to_pylist() == ["A", "B"]
    added = keeping_rows(python("Add", init={"amount": 5}).build(), rows)
    assert added["x"].to_pylist() == [5, 6]
    assert added[ROW].to_pylist() == [10, 11]


def test_python_refuses_reordered_rows() -> None:
    with pytest.raises(UserCodeBroke, match="in another order"):
        python("reversed_rows").build()(ROWS)


def test_python_may_turn_values_into_each_other() -> None:
    rows = ROWS.append_column("good", pa.array([True, False, True, False]))
    returned = python("contrary").build()(rows)
    assert returned["good"].to_pylist() == [False, True, False, True]
    with pytest.raises(UserCodeBroke, match="'good' in another order"):
        python("contrary").build()(rows.select([ROW, "good"]))


def test_python_may_turn_values_into_each_other_beside_columns_that_together_tell_rows_apart() -> (
    None
):
    """By chance as many are true as are not, in some batch of a long run."""
    columns = {"a.b": [1, 1, 2, 2], "day": [5, 6, 5, 6], "tags": [["x"]] * 4}
    good = [True, False, False, True]
    rows = pa.table({ROW: pa.array([10, 11, 12, 13], pa.int64()), **columns, "good": good})
    returned = python("contrary").build()(rows)
    assert returned["good"].to_pylist() == [False, True, True, False]


def test_python_refuses_reordered_rows_beside_columns_that_are_the_same_in_all() -> None:
    rows = ROWS.append_column("run", pa.array(["today"] * 4)).append_column("no", pa.nulls(4))
    rows = rows.append_column("half", pa.array([0.5] * 4, pa.float16()))
    rows = rows.append_column("nan", pa.array([float("nan")] * 4))
    with pytest.raises(UserCodeBroke, match="'x' in another order"):
        python("reversed_rows").build()(rows)


def test_a_column_of_other_numbers_is_not_sorted_to_tell_that_rows_keep_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nearly all of the time that a step took which computes a column anew."""
    monkeypatch.setattr(python_step, "in_order", None)
    assert python("Add", init={"amount": 5}).build()(ROWS)["x"].to_pylist() == [5, 6, 7, 8]


def test_python_may_reorder_with_ids() -> None:
    returned = python("reversed_rows", with_row_ids=True).build()(ROWS)
    assert returned[ROW].to_pylist() == [13, 12, 11, 10]


def test_python_filters_only_with_ids() -> None:
    kept = keeping_rows(python("even_only", with_row_ids=True).build(), ROWS)
    assert kept[ROW].to_pylist() == [10, 12]
    with pytest.raises(UserCodeBroke, match="4 rows given and 2 returned"):
        keeping_rows(python("even_only").build(), ROWS)


def test_python_makes_children() -> None:
    children = keeping_rows(python("repeated", with_row_ids=True).build(), ROWS)
    assert children[ROW].to_pylist() == [11, 12, 12, 13, 13, 13]


def test_python_refuses_reserved_names() -> None:
    with pytest.raises(UserCodeBroke, match="__mine"):
        python("reserved").build()(ROWS)


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        ("steps_code", "must be"),
        ("no_such_module:f", "needs the module 'no_such_module'"),
        ("steps_code:missing", "is not there"),
    ],
)
def test_python_code_that_is_not_there(function: str, problem: str) -> None:
    with pytest.raises(InvalidSpec, match=problem):
        PythonStep(function=function).check()


@pytest.mark.parametrize("batch_format", ["numpy", "pandas"])
@pytest.mark.parametrize("sizes", [[4, 4], [4, 5]])
def test_python_sees_images_as_arrays(batch_format: Any, sizes: list[int]) -> None:
    rows = images(sizes)
    returned = python("brightness", batch_format=batch_format).build()(rows)
    assert returned["brightness"].to_pylist() == [float(size) for size in sizes]
    # Left alone, they travel on as they came.
    assert returned["image"].equals(rows["image"])
    assert column_types.is_encoded(returned.schema.field("image"), column_types.IMAGE)


def test_python_may_change_images() -> None:
    returned = python("darker").build()(images([4, 4]))
    assert not column_types.is_encoded(returned.schema.field("image"), column_types.IMAGE)
    assert (columns.column_to_numpy(returned["image"]) == 3).all()


def test_python_may_leave_images_out() -> None:
    returned = python("bright_only", with_row_ids=True).build()(images([4, 5, 6]))
    assert returned[ROW].to_pylist() == [2, 1]
    assert returned["image"].to_pylist() == images([6, 5])["image"].to_pylist()


def images(sizes: list[int]) -> pa.Table:
    """Grey squares as bright as they are wide."""
    data = []
    for size in sizes:
        stream = io.BytesIO()
        Image.new("RGB", (size, size), (size,) * 3).save(stream, "PNG")
        data.append(stream.getvalue())
    rows = pa.table({"path": [str(size) for size in sizes], "image": data}, SCHEMA)
    return rows.add_column(0, ROW, pa.array(range(len(sizes)), pa.int64()))
