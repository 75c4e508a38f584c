"""Rows of which many are bad come out as if each had been alone, and few calls find them."""

import json
import random
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.json as pj
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasks.kinds.sources import jsonl
from tasks.kinds.sources.csv_reading.dialect import Dialect
from tasks.kinds.sources.csv_reading.records import Records
from tasks.kinds.sources.csv_reading.rows import Parser
from tasks.kinds.sources.csv_reading.unusual import refusal, unusual
from tasks.kinds.sources.json_fits import check_of
from tasks.kinds.sources.source import BadRow, Read
from tasks.kinds.sources.text import BOM, shortened

JSON_TYPES = [
    *(pa.string(), pa.int64(), pa.uint64(), pa.float64(), pa.bool_()),
    *(pa.timestamp("us"), pa.timestamp("us", "UTC")),
    *(pa.list_(pa.int64()), pa.list_(pa.list_(pa.string()))),
    pa.struct({"x": pa.int64(), "y": pa.list_(pa.struct({"z": pa.float64()}))}),
]
JSON_SCHEMA = pa.schema([(chr(97 + at), kind) for at, kind in enumerate(JSON_TYPES)])
TIMES = ["2026-01-02", "2026-01-02T03:04:05Z", " 2026-01-02 03:04", "2026-13-01", "2026-02-29"]
PLAIN = (
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.text()
    | st.sampled_from([*TIMES, "x", 10**400, "\ud800"])
)  # fmt: skip
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyzw"), inner),
    max_leaves=4,
)
FITTING = {
    "a": "zä", "b": 1, "c": 2**63, "d": 0.5, "e": True, "f": "2026-01-02", "g": None, "h": [1, 2],
    "i": [["x"]], "j": {"x": 1, "y": [{"z": 1}]},
}  # fmt: skip
ODD_LINES = [
    b"null", b"[1]", b"1", b"{", b'{"a":', b'{"b":1}{"b":2}', b'{"b":1,"b":2}', b'{"k":1,"k":2}',
    b'{"j":{"x":1,"x":2}}', b'{"d":Inf}', b'{"d":Infinity}', b'{"d":inf}', b'{"d":1e999}',
    b'{"k":Inf}', b'{"a":"\xff"}', b'{"a":"\\ud800"}', b'{"a":"x\x00"}', b'{"b":1}\x00}',
    b'{"c":-0}', b'{"b":01}', b'{"k":' + b"[" * 3_000 + b"]" * 3_000 + b"}", b"{}", b" ", b"\r",
    b'\xef\xbb\xbf{"b":1}', b'{"b":' + b"9" * 5_000 + b"}", b'{"b": 1}  ', b'{"b":1.0}',
    b'{"d":-NaN}', b'{"k":[-NaN]}',
]  # fmt: skip


def shown(reads: Iterator[Read]) -> list[str]:
    """Rows, and what is wrong with bad ones; NaN is NaN."""
    found = []
    for each in reads:
        if isinstance(each, BadRow):
            found.append(f"{each.error_type} {each.error} {each.raw}")
        else:
            assert len(each) > 0
            found += map(repr, each.to_pylist())
    return found


@st.composite
def json_line(draw: st.DrawFn) -> bytes:
    """A line that is good but for what may be odd in it."""
    value = {**FITTING, draw(st.sampled_from("abcdefghijk")): draw(VALUES)}
    line = json.dumps(value, ensure_ascii=True).encode()
    at = draw(st.integers(0, len(line)))
    return draw(st.sampled_from([line, line, line[:at], line[:at] + b"\x00\xff," + line[at:]]))


@example([b'{"d":-NaN}', b"{"], False)
@given(
    st.lists(
        st.just(json.dumps(FITTING).encode()) | st.sampled_from(ODD_LINES) | json_line(),
        max_size=30,
    ),
    st.booleans(),
)
def test_json_lines_are_judged_as_if_each_were_alone(lines: list[bytes], ignores: bool) -> None:
    parser = jsonl.Parser(JSON_SCHEMA, ignores_others=ignores)
    expected = list[str]()
    for line in (each.strip(jsonl.BLANK).removeprefix(BOM) for each in lines):
        if not line:
            continue
        try:
            expected += map(repr, parser.table([line]).to_pylist())
        except (ValueError, pa.ArrowException) as error:
            expected.append(f"BadLine {parser.explain(line, error)} {shortened(line)}")
    block = b"".join(line + b"\n" for line in lines)
    assert shown(parser.rows(block)) == expected


@given(VALUES, st.sampled_from(JSON_TYPES), st.booleans())
@example("\ud800", pa.string(), False)
@example("\0", pa.string(), False)
def test_what_python_tells_of_a_json_value_is_what_arrow_says(
    value: Any, wanted: pa.DataType, ignores: bool
) -> None:
    fits = check_of(wanted, ignores_others=ignores)(value)
    if fits is None:
        return
    line = json.dumps({"x": value}).encode()
    parser = jsonl.Parser(pa.schema([("x", wanted)]), ignores_others=ignores)
    try:
        parser.table([line])
    except (ValueError, pa.ArrowException):
        assert not fits
    else:
        assert fits


CSV_TYPES = [
    *(pa.int64(), pa.uint64(), pa.float64(), pa.bool_(), pa.date32(), pa.time32("s")),
    *(pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC")),
]
CSV_SCHEMA = pa.schema([(chr(97 + at), kind) for at, kind in enumerate(CSV_TYPES)])
HEADER = b"a,b,c,d,e,f,g,h,i,j,k"
CSV_FITTING = [
    "1", "2", "0.5", "true", "2026-01-02", "12:00:00", "2026-01-02", "2026-01-02 03:04:05.123456",
    "2026-01-02T03:04:05", "2026-01-02 03:04:05Z", "text",
]  # fmt: skip
ODD_VALUES = [
    "", "NA", " NA", "nan", "nan(1)", "x", " x\t", "1.5", "+5", "-", ".5", "5.", "0x1F", "-0X1",
    "0xFFFFFFFFFFFFFFFF", "00501", "1_0", "٣", "9" * 18, "9" * 19, "9" * 20, "9" * 400, "1e5",
    "1E-99", "1e400", "inf", "-Infinity", "1d", "TRUE", "tRue", "yes", " true", "0000-00-00",
    "2026-1-2", "2026-02-30", "2024-02-29", "1800-01-01", "2300-01-01 00:00:00", "31.12.2026",
    "12/31/2026", "20260102", "202-01-02", "12026-01-02", "-2026-01-02", "2026-01-02 00:00",
    "2026-01-02T00:00:00Z", "2026-01-02T00:00:00+0100", "2026-01-02 24:00:00",
    "2026-01-02T00:00:00.1234567", "2026-01-02T00:00:00-23:59", "25:00:00", "12:00", "é", "a b",
    '"q"', '"q,r"', '"q\nr"', '"q""r"', '"q\\"r"', 'q"r', '"q\r\nr"', "q\rr", "1,2", "\x00",
]  # fmt: skip


@st.composite
def csv_line(draw: st.DrawFn) -> bytes:
    """A line that is good but for what may be odd in it."""
    values = [*CSV_FITTING]
    for _ in range(draw(st.integers(1, 2))):
        values[draw(st.integers(0, len(values) - 1))] = draw(st.sampled_from(ODD_VALUES))
    line = ",".join(values).encode()
    at = draw(st.integers(0, len(line)))
    return draw(st.sampled_from([line, line, line, line[:at], line[:at] + b"\xff" + line[at:]]))


@given(
    st.lists(st.sampled_from([",".join(CSV_FITTING).encode(), HEADER]) | csv_line(), max_size=30),
    st.sampled_from([None, ["", "NA"], ["x"]]),
    st.permutations([*CSV_SCHEMA, pa.field("k", pa.string())]),
)
@settings(max_examples=60)
def test_csv_records_are_judged_as_if_each_were_alone(
    lines: list[bytes], nulls: list[str] | None, columns: list[pa.Field]
) -> None:
    dialect = Dialect(",", '"', nulls)
    parser = Parser(dialect, [*CSV_SCHEMA.names, "k"], pa.schema(columns), HEADER)
    expected, found = list[str](), list[str]()
    for block in Records(",", '"').split(iter([b"".join(line + b"\n" for line in lines)])):
        found += shown(parser.rows(block))
        if isinstance(block, BadRow):
            expected += shown(iter([block]))
            continue
        for record in block.records():
            try:
                expected += map(repr, parser.of_records([record]).to_pylist())
            except (ValueError, pa.ArrowException) as error:
                said = parser.explain(record, error)
                expected.append(f"BadLine {said} {shortened(record)}")
    assert found == expected


@pytest.mark.parametrize("kind", CSV_TYPES, ids=str)
def test_what_is_told_of_a_value_of_csv_is_what_arrow_says(kind: pa.DataType) -> None:
    values = [*ODD_VALUES, *CSV_FITTING, *(f" {each} " for each in [*ODD_VALUES, *CSV_FITTING])]
    values = [each for each in values if not {*each} & {*',"\r\n\x00'}]
    dialect = Dialect(",", '"', None)
    parser = Parser(dialect, ["a"], pa.schema([("a", kind)]))
    odd = {*unusual(pa.chunked_array([values]), kind, parser.conversion).tolist()}
    told = 0
    for at, value in enumerate(values):
        says = arrows_error(parser, value)
        said = refusal(value, kind) if at in odd else None
        assert says or said is None, value
        assert at in odd or not says, value
        assert not said or says.endswith(said)
        told += bool(said)
    assert told > 5


def arrows_error(parser: Parser, value: str) -> str:
    """What Arrow says to a value; nothing where it takes it."""
    try:
        parser.converted(f"{value}\n".encode(), parser.conversion)
    except pa.ArrowException as error:
        return str(error)
    return ""


BAD_JSON = {
    "cut off": b'{"a": "x", "b": 1',
    "of another type": b'{"a": 1, "b": 1}',
    "of another type within": b'{"a": "x", "j": {"y": [{"z": "q"}]}}',
    "of a new key": b'{"a": "x", "new": 1}',
    "of a key twice": b'{"a": "x", "a": "y"}',
    "of no UTF-8": b'{"a": "\xff"}',
}
BAD_CSV = {
    "ragged": b'1,"a, b",0.5,2026-01-02,x',
    "cut off": b"1,a",
    "no number": b"x1,a,0.5,2026-01-02",
    "no double": b"1,a,n.v.,2026-01-02",
    "no day": b"1,a,0.5,unknown",
    "a day of another country": b"1,a,0.5,31.12.2026",
    "of no UTF-8": b"1,\xff,0.5,2026-01-02",
}


@pytest.mark.parametrize("bad", BAD_JSON.values(), ids=BAD_JSON)
def test_many_bad_json_lines_take_few_calls_of_arrow(bad: bytes) -> None:
    lines = [json.dumps(FITTING).encode()] * 1_800 + [bad] * 200
    random.Random(0).shuffle(lines)
    with patch.object(pj, "read_json", side_effect=pj.read_json) as arrow:
        found = [*jsonl.Parser(JSON_SCHEMA, ignores_others=False).rows(b"\n".join(lines) + b"\n")]
    assert sum(isinstance(each, BadRow) for each in found) == 200
    assert arrow.call_count <= 3


@pytest.mark.parametrize("bad", BAD_CSV.values(), ids=BAD_CSV)
def test_many_bad_csv_records_take_few_calls_of_arrow(bad: bytes) -> None:
    lines = [b'1,"a ""b""", 0.5,2026-01-02'] * 1_800 + [bad] * 200
    random.Random(0).shuffle(lines)
    types = [pa.int64(), pa.string(), pa.float64(), pa.date32()]
    schema = pa.schema([*zip("abcd", types, strict=True)])
    [block] = Records(",", '"').split(iter([b"\n".join(lines) + b"\n"]))
    parser = Parser(Dialect(",", '"', None), schema.names, schema)
    with patch.object(pc, "read_csv", side_effect=pc.read_csv) as arrow:
        found = [*parser.rows(block)]
    assert sum(isinstance(each, BadRow) for each in found) == 200
    assert arrow.call_count <= 3
