"""CSV: names and types are pinned once, and each record is judged by itself."""

import csv
import gzip
import io
import json
import re
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import LATER_VALUE, NO_VALUE, Word
from tasks.kinds.sources import CsvSource, text
from tasks.kinds.sources.csv_reading import records
from tasks.kinds.sources.csv_reading.records import Block, Records
from tasks.kinds.sources.listing import list_inputs, listing_of
from tasks.kinds.sources.source import BadRow, schema_of
from tasks.kinds.sources.text import BOM
from tasks.kinds.steps import FilterStep
from tests.kinds.sources.reading import COMPRESS, read_all, write

HEADER = b"a,b\n"
TYPES = pa.schema({"a": pa.int64(), "b": pa.string()})
PINS = {"schema": TYPES.serialize().to_pybytes().hex()}
BAD = [b"1", b"1,x,y", b"x,y", b"1.5,x", b"1,\xff", b"1,x\x00", b'1,"x\n",y', b"1,x\ry,z"]


def parsed(
    folder: Path, content: bytes, name: str = "a.csv", pins: Any = None, **fields: Any
) -> list[Any]:
    write(folder, name, content)
    return read_all(CsvSource(path=str(folder), **fields), pins)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_reads_compressed_files(tmp_path: Path, suffix: str) -> None:
    content = COMPRESS[suffix](b"a\n1\n2\n")
    assert parsed(tmp_path, content, f"a.csv{suffix}") == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n\r\n", []),
        (HEADER, []),
        (BOM + b"a,b", []),
        (BOM + b"a,b\r\n1,x\r\n\r\n2,y", [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
        (b"a,b\r1,x\r2,y\r", [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
        (b'a,b\r\n"1","x\r\n,y\n""z"""\r\n', [{"a": 1, "b": 'x\r\n,y\n"z"'}]),
        (b'a,b\n,\n2,5" "pipe"\n', [{"a": None, "b": ""}, {"a": 2, "b": '5" "pipe"'}]),
        (b"a,b\n1,\n2,NA\n", [{"a": 1, "b": None}, {"a": 2, "b": None}]),
        (b'"a,\nb"\n1\n', [{"a,\nb": 1}]),
        (
            b'a,b\n"C:\\x\\","{""k"": ""\\"" ,""}"\n5\\"x,"\\"" \\"\n',  # all of them doubled
            [{"a": "C:\\x\\", "b": '{"k": "\\" ,"}'}, {"a": '5\\"x', "b": '\\" \\'}],
        ),
    ],
)
def test_records(tmp_path: Path, content: bytes, expected: list[Any]) -> None:
    assert parsed(tmp_path, content) == expected


def written(row: tuple[int | None, str]) -> bytes:
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\r\n").writerow(row)
    return line.getvalue().removesuffix("\r\n").encode()


GOOD = st.tuples(
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.text(
        st.sampled_from(',"\n\r xé') | st.characters(exclude_categories=["Cs"], min_codepoint=1)
    ),
)


@given(
    st.lists(GOOD | st.sampled_from(BAD), max_size=40),
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
)
def test_good_and_bad_are_all_rows_in_order(
    rows: list[tuple[int | None, str] | bytes], end: bytes, is_swapped: bool
) -> None:
    lines = [each if isinstance(each, bytes) else written(each) for each in rows]
    pins = PINS
    if is_swapped:
        pins = {"schema": pa.schema(list(TYPES)[::-1]).serialize().to_pybytes().hex()}
    with TemporaryDirectory() as folder:
        found = parsed(Path(folder), end.join([b"a,b", *lines]), pins=pins)
    expected = [None if isinstance(each, bytes) else {"a": each[0], "b": each[1]} for each in rows]
    assert [None if isinstance(each, BadRow) else each for each in found] == expected


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"1", "the row has 1 value for 2 columns"),
        (b"1,x,y", "the row has 3 values for 2 columns"),
        (b"x,y", "column 'a': conversion error to int64: invalid value 'x'"),
        (
            b"-1.5,x",
            "column 'a': conversion error to int64: invalid value '-1.5'; set source.types: {a: "
            "float64}",
        ),
        (
            b"1,\xff",
            "the row is not UTF-8: byte 0xff at 2; set the files' encoding in source.encoding, "
            "such as windows-1252",
        ),
        (b"1,x\x00", "the row has a NUL byte"),
        (b'1,"x', "a quote is opened in this line and not closed"),
        (
            b'1,"a \\"b\\" c"',
            'a quote within quotes is written \\", but must be doubled: write the file that way, '
            "in Spark with its option escape",
        ),
    ],
)
def test_a_bad_row_says_what_is_wrong(tmp_path: Path, record: bytes, reason: str) -> None:
    first, bad, last = parsed(tmp_path, HEADER + b"1,x\n" + record + b"\n2,y\n", pins=PINS)
    assert (first, last) == ({"a": 1, "b": "x"}, {"a": 2, "b": "y"})
    assert str(bad.error) == reason
    assert bad.raw


@pytest.mark.parametrize(
    ("first", "later", "wider"),
    [
        ("1", "1.5", "float64"),
        ("2026-01-31", "2026-01-31 10:00:00", "timestamp"),
        ("2026-01-31 10:00:00", "2026-01-31T10:00:00.123", "timestamp"),
    ],
)
def test_what_the_first_rows_are_too_narrow_for_is_told_with_the_type_that_takes_it(
    tmp_path: Path, first: str, later: str, wider: Any
) -> None:
    write(tmp_path, "a.csv", f"a\n{first}\n".encode())
    write(tmp_path, "b.csv", f"a\n{later}\n".encode())
    source = CsvSource(path=str(tmp_path))
    _, bad = read_all(source)
    assert str(bad.error).endswith(f"; set source.types: {{a: {wider}}}")
    rows = read_all(source.model_copy(update={"types": {"a": wider}}))
    assert [isinstance(row, BadRow) for row in rows] == [False, False]


def test_escaped_quotes_in_a_column_that_nobody_reads_set_no_row_aside(tmp_path: Path) -> None:
    content = b'a,note,b\n1,"say \\"hi\\"",x\n2,"so, \\"oh, no\\"",y\n3,,\\z\n'
    first, cut, last = parsed(tmp_path, content, columns=["a", "b"])
    assert (first, last) == ({"a": 1, "b": "x"}, {"a": 3, "b": "\\z"})
    assert str(cut.error) == "the row has 4 values for 3 columns"


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 5_000, "1e400", "-17.98e307"])
@pytest.mark.parametrize("beside", ["9007199254740993", "0.5", "1.7976931348623157e308"])
def test_a_number_beyond_all_doubles_is_set_aside_and_no_other(
    tmp_path: Path, number: str, beside: str
) -> None:
    first, bad, third = parsed(tmp_path, f"a\n{beside}\n{number}\n{beside}\n".encode())
    assert re.match("column 'a': (a number is too large for a|conversion error to)", str(bad.error))
    assert len(str(bad.error)) < 1_000
    # Digits say nothing of the type; who writes an exponent means doubles.
    whole = beside.isdigit() and not set(number) & set("e.")
    assert first == third == {"a": int(beside) if whole else float(beside)}


def test_infinity_that_is_written_and_digits_that_are_text_are_kept(tmp_path: Path) -> None:
    digits, infinity = "9" * 400, float("inf")
    rows = parsed(tmp_path, f"a,b\n1.5,x\ninf,{digits}\n-Infinity,\n".encode())
    assert [row["a"] for row in rows] == [1.5, infinity, -infinity]
    assert rows[1]["b"] == digits
    (tmp_path / "a.csv").unlink()
    assert parsed(tmp_path, f"a\n{digits}\n".encode()) == [{"a": digits}]


@pytest.mark.parametrize(
    ("beside", "is_text"), [("1", True), ("NA", True), ("0.5", False), ("1e3", False)]
)
def test_whole_numbers_that_doubles_would_round_stay_text(
    tmp_path: Path, beside: str, is_text: bool
) -> None:
    digits = "18446744073709551617"
    rows = parsed(tmp_path, f"id,b\n{digits},x\n{beside},y\n".encode())
    assert rows[0]["id"] == (digits if is_text else 2.0**64)
    assert isinstance(rows[1]["id"], str) is is_text


def test_hexadecimal_digits_become_no_negative_number(tmp_path: Path) -> None:
    digits = "0xdeadbeefcafebabe"
    rows = parsed(tmp_path, f"h,n\n{digits},1\n0x10,2\n".encode())
    assert [row["h"] for row in rows] == [digits, "0x10"]
    first, bad = parsed(tmp_path, f"h,n\n0x10,1\n{digits},-2\n".encode(), types={"h": "int64"})
    assert first == {"h": 16, "n": 1}
    assert "column 'h': a number needs more than 63 bits; set its type in source.types" in str(
        bad.error
    )
    rows = parsed(tmp_path, f"h\n0x10\n{digits}\n".encode(), types={"h": "uint64"})
    assert [row["h"] for row in rows] == [16, int(digits, 16)]


@pytest.mark.parametrize(("null", "named"), [(".", ["."]), ("inf", ["inf"]), ("1.#QNAN", None)])
def test_what_means_null_is_no_double(tmp_path: Path, null: str, named: list[str] | None) -> None:
    ids = ["18446744073709551617", "18446744073709551619"]
    content = f"id,x\n{ids[0]},1\n{null},2\n{ids[1]},3\n".encode()
    rows = parsed(tmp_path, content, null_values=named)
    assert [row["id"] for row in rows] == [ids[0], None if named else null, ids[1]]


def test_an_unclosed_quote_or_long_line_ends_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "LONGEST_LINE", 30)
    monkeypatch.setattr(text, "LONGEST_LINE", 30)
    monkeypatch.setattr(text, "BYTES_PER_BLOCK", 16)
    rows = [b'1,"x', *[b"2,y"] * 20, b'3,"z', b"4," + b"w" * 40, b"5,v"]
    found = parsed(tmp_path, HEADER + b"\n".join(rows), pins=PINS)
    assert [0 if isinstance(row, BadRow) else row["a"] for row in found] == [0, *[2] * 20, 0, 0, 5]


@pytest.mark.parametrize("quote", ['"', "'", "|"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_stray_quote_swallows_no_rows_up_to_the_next_quoted_value(
    tmp_path: Path, quote: str, end: bytes
) -> None:
    rows = [b'1,"x', b"2,y", b'3,"z"', b"4,w", b'5,"over', b'two ""lines"""', b'6,"in"', b"7,v"]
    content = HEADER + end.join(rows).replace(b'"', quote.encode()) + end
    found = parsed(tmp_path, content, pins=PINS, quote_char=quote)
    assert "is opened in this line and not closed" in str(found[0].error)
    assert [row["a"] for row in found[1:]] == [2, 3, 4, 5, 6, 7]
    assert found[4]["b"] == f"over{end.decode()}two {quote}lines{quote}"


@pytest.mark.parametrize("before", range(3))
def test_a_mark_that_a_value_begins_with_stays(tmp_path: Path, before: int) -> None:
    """Whichever row of a batch it is in: files that were joined have some."""
    rows = ["x,1\n"] * before + ["\ufeffx,1\n", '"\ufeff",1\n', "\ufeffa,n\n"]
    found = parsed(tmp_path, "".join(["a,n\n", *rows]).encode(), types={"n": "int64"})
    *good, bad = found
    assert [row["a"] for row in good] == ["x"] * before + ["\ufeffx", "\ufeff"]
    assert "it is the header again" in str(bad.error)


def test_a_delimiter_is_no_quote() -> None:
    for options in ({"delimiter": '"'}, {"delimiter": ";", "quote_char": ";"}):
        with pytest.raises(ValidationError, match="delimiter and quote_char are both"):
            CsvSource(path="/in", **options)


def test_types_are_those_of_the_first_file_with_rows(tmp_path: Path) -> None:
    write(tmp_path, "0.csv", b"")
    write(tmp_path, "1.csv", b"n,x,y,t\n")
    write(tmp_path, "2.csv", b"n,x,y,t\n,0.5,1\n,1,01,\xff\n,1,01,true\n")
    write(tmp_path, "3.csv", b"t,y,x,n\nfalse,2,3,4\n")
    rows = [row for row in read_all(CsvSource(path=str(tmp_path))) if isinstance(row, dict)]
    assert rows == [
        {"n": None, "x": 1.0, "y": 1, "t": True},
        {"n": "4", "x": 3.0, "y": 2, "t": False},
    ]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"a,c", "the header lacks 'b' and also has 'c', unlike the first file with rows"),
        (b"a,b,a", "the header has columns twice: 'a'"),
        (
            b"a,\xff",
            "the header cannot be read: the line is not UTF-8: byte 0xff at 2; set the files' "
            "encoding in source.encoding, such as windows-1252",
        ),
        (b'a,"b', "a quote is opened in this line and not closed"),
    ],
)
def test_rows_under_another_header_are_bad_each_of_them(
    tmp_path: Path, header: bytes, reason: str
) -> None:
    """Were they to count as one, a large file would be within any error budget."""
    rows = parsed(tmp_path, header + b"\n1,2\n3,4\n", pins=PINS)
    assert [str(bad.error) for bad in rows] == [reason] * 2
    assert [bad.raw for bad in rows] == ["1,2", "3,4"]
    [alone] = parsed(tmp_path, header + b"\n", pins=PINS)
    assert str(alone.error) == reason


def test_a_column_without_any_value_becomes_text_where_one_comes(tmp_path: Path) -> None:
    write(tmp_path, "a.csv", b"a,n\n1,\n2,\n")
    write(tmp_path, "b.csv", b"n,a\n007,3\n,4\n")
    rows = read_all(CsvSource(path=str(tmp_path)))
    assert [row["n"] for row in rows] == [None, None, "007", None]
    typed = CsvSource(path=str(tmp_path), types={"n": "string"})
    assert [row["n"] for row in read_all(typed)] == ["", "", "007", ""]


def test_a_column_with_values_in_later_files_alone_is_known_to_be_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the plan, so that no filter takes it for one that fits all; what is read is the same."""
    write(tmp_path, "a.csv", b"a,n,t,none\n1,,,\n")
    write(tmp_path, "b.csv", b"a,n,t,none\n2,3.5,,\n")
    write(tmp_path, "c.csv", b"a,n,t,none\n3,,x,\n4,5,,\n")
    source = CsvSource(path=str(tmp_path))
    assert [row["n"] for row in read_all(source)] == [None, "3.5", None, "5"]
    told = "is read as text, but .*b.csv has values in it: to read them with their type .n: double."
    assert re.search(told, caplog.text)
    assert len(caplog.records) == 1
    schema = known(source)
    FilterStep(expression="none > 5 and a > 1").schema_after(schema)
    for name in ("n", "t"):
        with pytest.raises(InvalidSpec, match=f"does not fit {name}: string"):
            FilterStep(expression=f"{name} > 5").schema_after(schema)
    typed = CsvSource(path=str(tmp_path), types={"n": "float64"})
    FilterStep(expression="n > 5").schema_after(known(typed))


@pytest.mark.parametrize(
    ("values", "word"),
    [
        (b"unknown,-1.5,2e3,NA", ("unknown", 2)),
        (b"1,2.,tbd,.5,n.k.", ("tbd", 4)),
        (b"12a,12,b", None),
        (b"00501,K1A,00502,00503", None),
        (b"1.5,true,2", ("true", 3)),
        (b"9223372036854775808,1", None),
    ],
)
def test_a_word_that_makes_a_column_of_numbers_text_is_known(
    tmp_path: Path, values: bytes, word: tuple[str, int] | None
) -> None:
    """By its row: those that are set aside count too."""
    lines = [b"a,%b" % each for each in values.split(b",")]
    write(tmp_path, "a.csv", b"\n".join([b"a,n", b"a", b'a,"', *lines, b""]))
    schema = known(CsvSource(path=str(tmp_path)))
    assert schema.field("n").type == pa.string()
    expected = word and Word("n", word[0], f"{tmp_path}/a.csv, row {word[1]}")
    assert [Word.of(each) for each in schema] == [None, expected]
    typed = known(CsvSource(path=str(tmp_path), types={"n": "float64"}))
    assert Word.of(typed.field("n")) is None


def test_values_of_a_file_whose_rows_are_set_aside_tell_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "a.csv", b"a,n\n1,\n")
    write(tmp_path, "b.csv", b"a,n,new\n2,3.5,x\n")
    source = CsvSource(path=str(tmp_path))
    assert known(source).field("n").metadata == NO_VALUE
    assert not caplog.records
    named = CsvSource(path=str(tmp_path), columns=["n"])
    assert known(named).field("n").metadata == LATER_VALUE, "others are not read"


def known(source: CsvSource) -> pa.Schema:
    listing = listing_of(source)
    schema = source.schema_of_rows(source.pin(listing.storage, [*listing.inputs]))
    assert schema is not None
    return schema


def test_options(tmp_path: Path) -> None:
    content = b"a;b;c\n1;'x;y';-\n-;-;3\n"
    fields: dict[str, Any] = {"delimiter": ";", "quote_char": "'", "null_values": ["-"]}
    assert parsed(tmp_path, content, columns=["b", "a"], **fields) == [
        {"b": "x;y", "a": 1},
        {"b": None, "a": None},
    ]
    with pytest.raises(InvalidSpec, match=r"source.columns: \['z'\] is not among .* a, b, c"):
        parsed(tmp_path, content, columns=["z"], **fields)
    with pytest.raises(InvalidSpec, match=r"columns a, b, c; did you mean b\?$"):
        parsed(tmp_path, content, columns=["bb"], **fields)
    with pytest.raises(ValidationError):
        CsvSource(path="x", delimiter="::")


def test_a_type_that_is_given_goes_before_what_the_first_rows_suggest(tmp_path: Path) -> None:
    content = b"zip,n,at,on,z\n00501,1,2026-01-31 10:00,2026-01-31,2026-01-31T12:00+02:00\n"
    content += b",2.5,,,\nx,y,,,\n"
    types = {"zip": "string", "n": "float64", "at": "timestamp", "on": "date"}
    types["z"] = "timestamp_utc"
    first, second, bad = parsed(tmp_path, content, types=types)
    at = datetime(2026, 1, 31, 10)
    in_utc = at.replace(tzinfo=UTC)
    assert first == {"zip": "00501", "n": 1.0, "at": at, "on": at.date(), "z": in_utc}
    assert second == {"zip": "", "n": 2.5, "at": None, "on": None, "z": None}
    assert str(bad.error) == "column 'n': conversion error to double: invalid value 'y'"
    digits = parsed(tmp_path, b"zip,id\n00501,%d\n" % 2**64, types={"id": "string"})
    assert digits == [{"zip": 501, "id": str(2**64)}]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, ["zip", "store"]),
        ({"types": {"zip": "string"}}, ["store"]),
        ({"columns": ["zip", "hour"]}, ["zip"]),
        ({"null_values": ["007"]}, ["zip"]),
    ],
    ids=str,
)
def test_codes_that_would_lose_their_zeros_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, settings: dict[str, Any], told: list[str]
) -> None:
    for name in ("a.csv", "b.csv"):
        write(tmp_path, name, b"zip,store,hour,text\n10115,7,0,x\n00501,007,-0.5,01\n")
    source = CsvSource(path=str(tmp_path), **settings)
    known(source)
    assert [record.getMessage().split()[2] for record in caplog.records] == told
    if "zip" in told:
        assert "such as 00501 in" in caplog.text
        assert "a.csv, row 1" in caplog.text
        assert "set source.types: {zip: string}" in caplog.text


def test_files_without_a_header_have_names_from_the_spec(tmp_path: Path) -> None:
    rows = parsed(tmp_path, b"1,x\n2,y\n3\n", column_names=["a", "b"])
    assert rows[:2] == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert str(rows[2].error) == "the row has 1 value for 2 columns"
    assert parsed(tmp_path, b"1,x\n", column_names=["a", "b"], columns=["b"]) == [{"b": "x"}]
    assert parsed(tmp_path, b"", column_names=["a", "b"]) == []
    with pytest.raises(InvalidSpec, match=r"^source\.column_names: .* is the header of .*a\.csv:"):
        parsed(tmp_path, b'"a",b\n1,2\n', column_names=["a", "b"])
    with pytest.raises(ValidationError, match="name each column once"):
        CsvSource(path="x", column_names=["a", "a"])


@pytest.mark.parametrize(("columns", "known"), [(None, "a, b"), (["a"], "a")])
def test_a_type_of_a_column_that_is_not_read_is_refused(
    tmp_path: Path, columns: list[str] | None, known: str
) -> None:
    unread = "b" if columns else "c"
    message = rf"^source\.types: '{unread}' is not among the columns {known}: "
    with pytest.raises(InvalidSpec, match=message):
        parsed(tmp_path, b"a,b\n1,2\n", columns=columns, types={unread: "int64"})
    with pytest.raises(ValidationError, match=r"types\.a\n.* 'string', 'int64'"):
        CsvSource.model_validate({"path": "x", "types": {"a": "integer"}})


def test_a_damaged_file_keeps_its_rows(tmp_path: Path) -> None:
    content = gzip.compress(HEADER + b"1,x\n" * 100_000)
    *rows, bad = parsed(tmp_path, content[:-9], "a.csv.gz")
    assert len(rows) > 1_000
    assert isinstance(bad, BadRow)


@pytest.mark.parametrize(
    ("header", "delimiter", "meant"),
    [("a;b", ",", ";"), ("a\tb", ",", r"\\t"), ("a|b", ",", r"\|"), ("a,b", ";", ",")],
)
def test_a_header_of_one_column_may_have_another_delimiter(
    tmp_path: Path, header: str, delimiter: str, meant: str
) -> None:
    content, given = f"{header}\n1{header[1]}2\n".encode(), {"delimiter": delimiter}
    told = rf"^source\.delimiter: '{delimiter}' makes one column .* did you mean '{meant}'\?"
    with pytest.raises(InvalidSpec, match=told):
        parsed(tmp_path, content, **given)
    # Who names it means it.
    assert len(parsed(tmp_path, content, columns=[header], **given)) == 1
    assert len(parsed(tmp_path, content, column_names=["x;y,z"], **given)) == 2
    assert parsed(tmp_path, content, delimiter=header[1]) == [{"a": 1, "b": 2}]


@pytest.mark.parametrize("line", [b"sep=;\r\n", BOM + b'"sep=;"\r\n', b"SEP=;\n", b"sep=;\r"])
def test_a_line_that_tells_excel_the_delimiter_is_no_row(tmp_path: Path, line: bytes) -> None:
    end = line[line.index(b";") + 1 :].removeprefix(b'"')
    content = line + b"a;b" + end + b"1;sep=;" + end
    with pytest.raises(
        InvalidSpec,
        match=r"^source\.delimiter: ',' is not .* \('.*=;.*'\) in .*/a\.csv: set that one$",
    ):
        parsed(tmp_path, content)
    content = content.replace(b"1;sep=;", b"1;x")
    assert parsed(tmp_path, content, delimiter=";") == [{"a": 1, "b": "x"}]
    names = ["p", "q"]
    named = parsed(tmp_path, content, delimiter=";", column_names=names)
    assert named == [{"p": "a", "q": "b"}, {"p": "1", "q": "x"}]
    with pytest.raises(InvalidSpec, match=r"^source\.delimiter: ',' is not "):
        parsed(tmp_path, content, column_names=["all"])
    assert parsed(tmp_path, line, delimiter=";") == []


@pytest.mark.parametrize(
    ("fields", "lines"), [({}, ["1;2"]), ({"column_names": ["p"]}, ["a;b", "1;2"])]
)
def test_a_later_file_of_another_delimiter_is_set_aside(
    tmp_path: Path, fields: dict[str, Any], lines: list[str]
) -> None:
    write(tmp_path, "b.csv", b"sep=;\na;b\n1;2\n")
    found = parsed(tmp_path, b"sep=,\na\nx\n", **fields)
    bad = [each for each in found if isinstance(each, BadRow)]
    assert [each.raw for each in bad] == lines
    problem = "source.delimiter: ',' is not the one in the first line ('sep=;')"
    assert {str(each.error) for each in bad} == {problem}
    assert [*found[-len(bad) - 1].values()] == ["x"]


def test_columns_that_come_twice_in_every_file_are_refused_by_the_plan(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"^source\.path: .*a\.csv' .* twice: 'a'; rename one"):
        parsed(tmp_path, b"a,b,a\n1,2,3\n")
    write(tmp_path, "b.csv", b"a,b\n1,2\n")
    bad, row = read_all(CsvSource(path=str(tmp_path)))
    assert "columns twice: 'a'" in str(bad.error)
    assert row == {"a": 1, "b": 2}


ABOVE = b'# exported, by "tool\nof 2026\n'


@pytest.mark.parametrize(
    ("content", "fields"),
    [
        ("a\ncafé\n".encode("latin-1"), {"encoding": "latin-1"}),
        ("a\rcafé\r".encode("utf-16"), {"encoding": "utf-16"}),
        (BOM + "a\ncafé\n".encode(), {"encoding": "windows-1252"}),  # it says what it is
        (ABOVE + "a\ncafé\n".encode(), {"skip_lines": 2}),
        ((ABOVE + "a\ncafé\n".encode()).replace(b"\n", b"\r\n"), {"skip_lines": 2}),
    ],
)
def test_files_of_other_encodings_and_with_lines_above_the_header(
    tmp_path: Path, content: bytes, fields: dict[str, Any]
) -> None:
    assert parsed(tmp_path, content, **fields) == [{"a": "café"}]
    assert parsed(tmp_path, b"", **fields) == []


@pytest.mark.parametrize("first", [b"# by tool", b"#,x,y"])
def test_a_line_above_the_header_is_told_with_the_way_out(tmp_path: Path, first: bytes) -> None:
    bad = parsed(tmp_path, first + b"\na,b,c,d\n1,2,3,4\n")
    assert all("; if '#" in str(each.error) for each in bad)
    assert all("skip it with source.skip_lines" in str(each.error) for each in bad)


def test_a_line_above_the_header_as_wide_as_the_table(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"twice: ''.* above the header with source\.skip_lines$"):
        parsed(tmp_path, b"Export,,\na,b,c\n1,2,3\n")


def test_a_header_in_a_later_file_is_no_row_where_files_have_none(tmp_path: Path) -> None:
    write(tmp_path, "a.csv", b"x,y\n")
    write(tmp_path, "b.csv", BOM + b'"a",b\nx,y\n')
    first, bad, last = read_all(CsvSource(path=str(tmp_path), column_names=["a", "b"]))
    assert first == last == {"a": "x", "b": "y"}
    assert str(bad.error) == "a header, but source.column_names is for files without one"
    assert bad.raw == '"a",b'


@pytest.mark.parametrize("names", [["text"], ["0", "1"]])
def test_a_first_row_of_a_later_file_may_have_the_names_of_columns_for_values(
    tmp_path: Path, names: list[str]
) -> None:
    row = ",".join(names).encode()
    write(tmp_path, "a.csv", b",".join([b"7"] * len(names)) + b"\n")
    write(tmp_path, "b.csv", row + b"\n")
    _, row_of_names = read_all(
        CsvSource(path=str(tmp_path), column_names=names, types=dict.fromkeys(names, "string"))
    )
    assert row_of_names == dict(zip(names, names, strict=True))


@pytest.mark.parametrize("mark", [b"", BOM])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize(("value", "typed"), [(b"x", "x"), (b"7", 7)])
def test_a_header_that_comes_again_is_no_row_and_no_word_among_numbers(
    tmp_path: Path, mark: bytes, end: bytes, value: bytes, typed: Any
) -> None:
    """As where files were joined by cat: of text it was a row, and predicted."""
    lines = [mark + b"a,b", value + b",y", mark + b"a,b", value + b',"a,b', b'a,b"', value + b",z"]
    first, bad, quoted, last = parsed(tmp_path, end.join(lines))
    assert (first, last) == ({"a": typed, "b": "y"}, {"a": typed, "b": "z"})
    assert str(bad.error) == "it is the header again, as in joined files"
    assert quoted["b"].split() == ["a,b", "a,b"]
    one = parsed(tmp_path, end.join([b"a", value, b"a"]))
    assert [row["a"] for row in one] == [value.decode(), "a"]  # which may be a value


@pytest.mark.parametrize("last", [b"7,8", b"7,x"])
def test_numbers_that_are_a_header_too_are_a_row(tmp_path: Path, last: bytes) -> None:
    """As of an edge, in a file that pandas wrote of columns without names."""
    _, edge, _ = rows = parsed(tmp_path, b"\n".join([b"0,1", b"1,2", b"0,1", last]))
    values = (0, 1) if last == b"7,8" else (0, "1")
    assert edge == dict(zip(["0", "1"], values, strict=True)), rows


def grown(source: CsvSource, *needed: str) -> dict[str, Any]:
    return dict(json.loads(json.dumps(source.pin_for_growth(*list_inputs(source), needed))))


def test_a_table_that_grows_has_the_columns_of_all_files(tmp_path: Path) -> None:
    write(tmp_path, "1.csv", b"a,b,note\n1,x,\n")
    write(tmp_path, "2.csv", b"label,a\ncat,2\n")
    write(tmp_path, "3.csv", b"other\n3\n")  # a table of something else
    write(tmp_path, "4.csv", b"b,a,note,n\ny,4,007,1152921504606846977\nz,5,,\n")
    source = CsvSource(path=str(tmp_path))
    rows = read_all(source, pins := grown(source))
    nothing = {"b": None, "note": None, "label": None, "n": None}
    assert rows[:2] == [{"a": 1, **nothing, "b": "x"}, {"a": 2, **nothing, "label": "cat"}]
    assert "the header lacks 'a'" in str(rows[2].error)
    # A code stays one where the first file has none.
    assert rows[3] == {"a": 4, "b": "y", "note": "007", "label": None, "n": 2**60 + 1}
    assert rows[4] == {"a": 5, **nothing, "b": "z"}
    assert source.retyped(pins) == pins


@pytest.mark.parametrize("header", ["a,__x", "a,", "a, A", "a,lab", "a,a"])
def test_a_slip_in_a_header_becomes_no_column(tmp_path: Path, header: str) -> None:
    write(tmp_path, "1.csv", b"a\n1\n")
    write(tmp_path, "2.csv", header.encode() + b"\n2,2\n" * (header != "a,lab"))
    source = CsvSource(path=str(tmp_path))
    first, bad = read_all(source, pins := grown(source))
    assert first == {"a": 1}
    assert re.search("also has .* unlike the files inspected|twice", str(bad.error))
    assert schema_of(pins["schema"]).names == ["a"]


def test_what_the_model_reads_is_lacked_by_no_file(tmp_path: Path) -> None:
    write(tmp_path, "1.csv", b"id,a\n1,1\n")
    write(tmp_path, "2.csv", b"id,b\n2,2\n")
    source = CsvSource(path=str(tmp_path))
    first, bad = read_all(source, grown(source, "a", "made_by_a_step"))
    assert first == {"id": 1, "a": 1, "b": None}
    assert "the header lacks 'a'" in str(bad.error)


def test_a_type_for_a_column_that_comes_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "1.csv", b"a\n1\n")
    source = CsvSource(path=str(tmp_path), types={"late": "string"})
    pins = grown(source)
    assert "source.types: the files do not have the column late, so it is null there" in caplog.text
    write(tmp_path, "2.csv", b"late,a\n007,2\n")
    assert read_all(source, pins) == [{"a": 1, "late": None}, {"a": 2, "late": "007"}]
    typed = CsvSource(path=str(tmp_path), types={"late": "string", "later": "bool"})
    retyped = typed.retyped(pins)
    assert read_all(typed, retyped)[1] == {"a": 2, "late": "007", "later": None}
    with pytest.raises(InvalidSpec, match="did you mean 'a'"):
        grown(CsvSource(path=str(tmp_path), types={"A": "string"}))


def test_columns_that_are_named_must_be_in_all_files_of_a_table_that_grows(tmp_path: Path) -> None:
    write(tmp_path, "1.csv", b"a,b\n1,x\n")
    write(tmp_path, "2.csv", b"a,c\n2,y\n")
    source = CsvSource(path=str(tmp_path), columns=["a", "b"])
    first, bad = read_all(source, grown(source))
    assert first == {"a": 1, "b": "x"}
    assert "the header lacks 'b'" in str(bad.error)


class LineByLine(Records):
    """Cuts records as those of files that are written otherwise than as a rule."""

    def plain(self, block: bytes) -> tuple[Block, bytes] | None:
        return None


def cut(cutter: Records, blocks: list[bytes]) -> list[Any]:
    found: list[Any] = []
    for each in cutter.split(iter(blocks)):
        found += [(str(each.error), each.raw)] if isinstance(each, BadRow) else each.records()
    return found


PIECES = st.sampled_from(["a", ",", "\n", '""', "\r\n"])
QUOTED = st.lists(PIECES, max_size=4).map(lambda pieces: f'"{"".join(pieces)}"')
VALUE = QUOTED | st.text(st.sampled_from("ab1"), max_size=3)
WELL_WRITTEN = st.tuples(
    st.sampled_from(["\n", "\r\n"]), st.lists(st.lists(VALUE, min_size=1, max_size=3), max_size=6)
).map(lambda rows: "".join(",".join(row) + rows[0] for row in rows[1]))


STRAY = st.lists(
    st.sampled_from(["a", ",", '"', "\n", 'a"', "\r\n", "\r"]), min_size=4, max_size=20
)


@settings(max_examples=300)
@given(st.lists(WELL_WRITTEN | STRAY.map("".join), max_size=3), st.lists(st.integers(0, 40)))
def test_many_records_at_once_are_those_of_one_line_after_another(
    parts: list[str], cuts: list[int]
) -> None:
    content = "".join(parts).encode()
    blocks = [content[a:b] for a, b in pairwise([0, *sorted(cuts), len(content)])]
    assert cut(Records(",", '"'), blocks) == cut(LineByLine(",", '"'), blocks)


@pytest.mark.parametrize(
    "content",
    [b"a,b\n1,x\n2,y", b"a,b\r\n1,x\r\n2,y\r\n", b'a,b\n1,"x"\n2,"y"\n', b'a,b\n1,"x\n"""\n2,y\n'],
)
def test_files_as_they_are_as_a_rule_are_not_cut_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(Records, "with_line", None)
    assert [row["a"] for row in parsed(tmp_path, content)] == [1, 2]
