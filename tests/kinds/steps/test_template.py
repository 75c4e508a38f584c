"""A template writes one text a row, and says which braces, formats and values it cannot take."""

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import IMAGE, MEDIA, NO_VALUE
from tasks.kinds.steps import TemplateStep, template
from tasks.protocol.batch import ROW
from tasks.ray_job.blame import call_with_blame

ROWS = pa.table(
    {
        ROW: [10, 11],
        "product": pa.array(["tea", "mugs"]).dictionary_encode(),
        "review": ["Très bon: {ever}", "meh"],
        "price": [1.5, 2.25],
        "exact": pa.array([Decimal("1.10"), Decimal("2.00")], pa.decimal128(5, 2)),
        "stars": pa.array([5, 1], pa.int8()),
        "day": [date(2026, 1, 31), date(1999, 12, 1)],
        "at": [datetime(2026, 1, 31, 12, tzinfo=UTC)] * 2,
        "tags": [["ü", "b"], []],
        "meta": [{"x": 1, "d": date(2026, 1, 1)}, {"x": None, "d": None}],
    }
)


def written(template: str, rows: pa.Table = ROWS, **fields: Any) -> list[str]:
    made = TemplateStep(template=template, **fields).build()(rows)
    texts: list[str] = made[fields.get("column", "prompt")].to_pylist()
    return texts


@pytest.mark.parametrize(
    ("template", "first"),
    [
        ("{product}: {review}", "tea: Très bon: {ever}"),
        ("Is {product} good?\n{review}\nAnswer.", "Is tea good?\nTrès bon: {ever}\nAnswer."),
        ("{product}{product}", "teatea"),
        ("{price} {price:.2f} {exact} {stars:03d}", "1.5 1.50 1.10 005"),
        ("{day} {day:%d %B %Y} {at:%H:%M}", "2026-01-31 31 January 2026 12:00"),
        ("{review:.4}|{product:>5}", "Très|  tea"),
        ('{{"tags": {tags}}}', '{"tags": ["ü", "b"]}'),
        ("{meta}", '{"x": 1, "d": "2026-01-01"}'),
    ],
)
def test_columns_are_written_as_python_formats_them(template: str, first: str) -> None:
    assert written(template)[0] == first


def test_single_floats_are_written_as_a_person_would() -> None:
    kinds = {"x": pa.float32(), "several": pa.list_(pa.float32())}
    rows = pa.table({"x": [0.1], "several": [[0.1, 2.5]]}, pa.schema(kinds))
    assert written("{x} {x:.3f} {several}", rows) == ["0.1 0.100 [0.1, 2.5]"]


def test_the_text_joins_the_row_or_takes_a_columns_place() -> None:
    made = TemplateStep(template="query: {review}", column="review").build()(ROWS)
    assert made.column_names == ROWS.column_names
    assert made["review"].to_pylist() == ["query: Très bon: {ever}", "query: meh"]
    step = TemplateStep(template="{review}")
    made = step.build()(ROWS)
    assert made.column_names == [*ROWS.column_names, "prompt"]
    assert step.reads == {"template": ["review"]}
    assert step.build()(ROWS.slice(0, 0))["prompt"].type == pa.string()


def test_a_row_with_an_empty_value_is_set_aside_alone_unless_empty_says_what_to_write() -> None:
    rows = ROWS.set_column(2, "review", pa.array(["fine", None]))
    outcome = call_with_blame(TemplateStep(template="Say: {review}").build(), rows)
    assert outcome.rows is not None
    assert outcome.rows["prompt"].to_pylist() == ["Say: fine"]
    assert list(outcome.failed) == [11]
    assert "column 'review' is empty in this row" in str(outcome.failed[11])
    assert written("Say: {review}!", rows, empty="nothing") == ["Say: fine!", "Say: nothing!"]
    assert written("{review:.2}", rows, empty="") == ["fi", ""]


@pytest.mark.parametrize("form", ["{day} {day:%d %B %Y}", "{n}/{n:05d}", "{said:.3}", "{yes}"])
def test_values_that_repeat_are_written_as_each_is_alone(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them once, which a million rows of few days took ten times as long without."""
    count, one_by_one = 1_000, list[int]()

    def write(part: template.Part, column: pa.ChunkedArray) -> pa.Array:
        one_by_one.append(len(column))
        return really_written(part, column)

    really_written = template.written
    monkeypatch.setattr(template, "written", write)
    days = pa.array([date(2026, 1, 31), None, date(1999, 12, 1)])
    few = {"day": days, "n": [7, 7, -1], "said": ["müsli", None, ""], "yes": [True, None, False]}
    once = pa.table({ROW: [0, 1, 2], **few})
    places = pa.array([at % 3 for at in range(count)])
    texts = written(form, once.take(places), empty="-")
    assert 0 < max(one_by_one) <= 3
    alone = [written(form, once.slice(at, 1), empty="-")[0] for at in range(3)]
    assert texts == [alone[at % 3] for at in range(count)]


def test_fractions_that_are_equal_are_written_as_each_is() -> None:
    rows = pa.table({ROW: range(4), "x": [0.0, -0.0, 0.0, -0.0]})
    assert written("{x}", rows) == ["0.0", "-0.0", "0.0", "-0.0"]


def test_bytes_that_are_no_text_cost_their_row_alone() -> None:
    places = pa.array([0, 2, 3], pa.int32()).buffers()[1]
    texts = pa.StringArray.from_buffers(2, places, pa.py_buffer(b"ok\xff"))
    step = TemplateStep(template="Say: {said}").build()
    outcome = call_with_blame(step, pa.table({ROW: [10, 11], "said": texts}))
    assert outcome.rows is not None
    assert outcome.rows["prompt"].to_pylist() == ["Say: ok"]
    assert isinstance(outcome.failed[11], UnicodeDecodeError)


def test_more_text_than_one_array_of_it_holds_is_in_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(template, "MOST_BYTES", 64)
    rows = pa.table({ROW: range(20), "n": range(20)})
    made = TemplateStep(template="number {n}").build()(rows)["prompt"]
    assert made.num_chunks > 1
    assert made.type == pa.string()
    assert made.to_pylist() == [f"number {at}" for at in range(20)]


def test_what_is_no_number_is_empty_too_and_null_within_lists() -> None:
    nan, inf = float("nan"), float("inf")
    rows = pa.table({ROW: [10, 11], "x": [1.5, nan], "several": [[1.0], [nan, inf]]})
    rows = rows.append_column("half", rows["x"].cast(pa.float16()))
    rows = rows.append_column("coded", rows["x"].combine_chunks().dictionary_encode())
    for name in ("x", "half", "coded"):
        outcome = call_with_blame(TemplateStep(template=f"{{{name}:.2f}}").build(), rows)
        assert outcome.rows is not None
        assert outcome.rows["prompt"].to_pylist() == ["1.50"]
        assert f"column '{name}' is empty in this row" in str(outcome.failed[11])
        assert written(f"Costs {{{name}}}", rows, empty="much") == ["Costs 1.5", "Costs much"]
    assert written("{several}", rows) == ["[1.0]", "[null, null]"]


def test_a_number_that_its_format_cannot_write_costs_its_row_alone() -> None:
    rows = pa.table({ROW: [10, 11], "n": [9731, 0x110000]})
    outcome = call_with_blame(TemplateStep(template="{n:c}").build(), rows)
    assert outcome.rows is not None
    assert outcome.rows["prompt"].to_pylist() == ["\u2603"]
    assert str(outcome.failed[11]).startswith(
        "column 'n' has 1114112 in this row, which 'c' cannot write: "
    )


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("price", "d"),
        ("price", "%d"),
        ("exact", "d"),
        ("stars", "%Y"),
        ("product", ".2f"),
        ("tags", ".2f"),
    ],
)
def test_a_format_is_refused_by_the_type_alone(name: str, form: str) -> None:
    rows = ROWS if name == "product" else ROWS.slice(0, 0)
    message = rf"^steps\.template\.template: .* '{form}' is not a format for \w+, the type"
    with pytest.raises(InvalidSpec, match=message):
        call_with_blame(TemplateStep(template=f"{{{name}:{form}}}").build(), rows)


@pytest.mark.parametrize("kind", [pa.null(), pa.string()], ids=str)
def test_a_column_whose_type_nobody_knows_yet_may_have_any_format(kind: pa.DataType) -> None:
    """As where the first rows have no value: a source has text for that, and says so."""
    schema = pa.schema([pa.field(ROW, pa.int64()), pa.field("x", kind, metadata=NO_VALUE)])
    rows = pa.table({ROW: [10], "x": pa.nulls(1, kind)}, schema)
    assert written("{x:.2f}", rows, empty="none") == ["none"]
    assert written("{x:.2f}", rows.slice(0, 0)) == []


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("no column", "has no column: write columns in braces, such as {review}"),
        ("{{review}}", "has no column"),
        ("{", "does not parse, Single '{'"),
        ('{"a": {review}', "does not parse"),
        ("{review} }", "does not parse, Single '}'"),
        ("{}", "has braces without a column's name"),
        (
            'Answer {"a": 1}. {review}',
            "has braces without a column's name: write columns in braces",
        ),
        ('Answer {\n  "a": 1\n}. {review}', "such as {review}, and double a literal brace"),
        ("{review:{stars}}", "has braces without a column's name"),
        ("{review!r}", "!r cannot be used for columns"),
    ],
)
def test_braces_that_name_no_column_are_refused(template: str, message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        TemplateStep(template=template)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{0}", r"'0' is not among the columns \['product', 'review'"),
        ("{meta.x}", r"'meta\.x' is not among the columns"),
        ("{review.__class__}", r"'review\.__class__' is not among the columns"),
        ("{__row}", "'__row' is not among the columns"),
        ("{review:.2f}", r"'\.2f' is not a format for str, the type of 'review'"),
        ("{stars:%d}", "'%d' is not a format for int"),
        ("{sound}", "'sound' is binary, not text"),
        ("{pages}", "'pages' is list<item: binary>, not text"),
        ("{image}", "'image' is binary, not text"),
        ("{wave}", "'wave' is list<item: float>, not text"),
    ],
)
def test_what_cannot_be_written_ends_the_run_and_blames_no_row(template: str, message: str) -> None:
    rows = ROWS.append_column("sound", pa.array([b"", b""]))
    rows = rows.append_column("pages", pa.array([[b""], [b""]]))
    rows = rows.append_column(pa.field("image", pa.binary(), metadata={MEDIA: IMAGE}), [[b"", b""]])
    wave = pa.field("wave", pa.list_(pa.float32()), metadata={MEDIA: b"audio"})
    rows = rows.append_column(wave, pa.array([[0.5], [0.5]], wave.type))
    with pytest.raises(InvalidSpec, match=rf"steps\.template\.template: .*{message}"):
        call_with_blame(TemplateStep(template=template).build(), rows)


TEXTS = st.text(st.characters(codec="utf-8"))


@given(before=TEXTS, value=TEXTS, after=TEXTS)
def test_any_text_stands_as_it_is(before: str, value: str, after: str) -> None:
    doubled = [each.replace("{", "{{").replace("}", "}}") for each in (before, after)]
    rows = pa.table({ROW: [0], "x": [value]})
    assert written(f"{doubled[0]}{{x}}{doubled[1]}", rows) == [before + value + after]
    assert json.loads(written("{x}", rows.set_column(1, "x", [[[value]]]))[0]) == [value]


INSIDE = st.one_of(st.none(), TEXTS, st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans())


@given(values=st.lists(st.fixed_dictionaries({"a": st.lists(TEXTS), "b": INSIDE}), min_size=1))
def test_lists_and_structs_are_written_as_python_writes_json(values: list[dict[str, Any]]) -> None:
    for value in values:
        rows = pa.table({ROW: [0], "x": [value]})
        is_none = isinstance(value["b"], float) and not math.isfinite(value["b"])
        known = value | {"b": None} if is_none else value
        assert written("{x}", rows) == [json.dumps(known, ensure_ascii=False)]


def test_lists_are_not_written_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(template, "written")
    rows = pa.table({ROW: range(3), "x": [[1, 2, 3, 4]] * 3})
    assert written("{x}", rows) == ["[1, 2, 3, 4]"] * 3
