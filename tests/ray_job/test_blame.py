"""Rules 9 and 10: user code keeps rows, and only guilty rows are set aside."""

import http.client
import ssl
import time
import urllib.error
import weakref
from email.message import Message
from pathlib import Path
from typing import Any, cast

import aiohttp
import botocore.exceptions
import httpx
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import requests
import urllib3
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import UserCodeBroke
from tasks.kinds.columns import column_to_numpy, stack
from tasks.kinds.user_arrays import array_from_numpy
from tasks.protocol.batch import ROW
from tasks.ray_job.blame import (
    Function,
    call_with_blame,
    concatenated,
    is_data_error,
    keeping_rows,
)
from tasks.ray_job.stage_error import place_of


class BadRow(ValueError):
    """The data's fault."""


def rows_of(ids: list[int]) -> pa.Table:
    return pa.table({ROW: pa.array(ids, pa.int64()), "x": [float(each) for each in ids]})


def double(rows: pa.Table) -> pa.Table:
    return pa.table({"y": [2 * value for value in rows["x"].to_pylist()]})


def as_they_are(rows: pa.Table) -> pa.Table:
    return rows


def failing_on(bad: set[int], calls: list[int], other: Function = double) -> Function:
    def function(rows: pa.Table) -> pa.Table:
        calls.append(len(rows))
        if bad & set(rows[ROW].to_pylist()):
            raise BadRow("bad row")
        return other(rows)

    return function


@given(count=st.integers(1, 60), bad=st.sets(st.integers(0, 59)))
def test_exactly_the_guilty_rows_are_set_aside(count: int, bad: set[int]) -> None:
    outcome = call_with_blame(failing_on(bad, []), rows_of(list(range(count))))
    guilty = {each for each in bad if each < count}
    assert set(outcome.failed) == guilty
    kept = outcome.rows[ROW].to_pylist() if outcome.rows is not None else []
    assert kept == [each for each in range(count) if each not in guilty]


def test_a_part_without_rows_need_not_know_the_others_types() -> None:
    empty, full = pa.table({"x": pa.array([], pa.string())}), pa.table({"x": [1.5]})
    assert concatenated([empty, full]) == full
    assert concatenated([empty, empty]) == empty


def test_arrays_of_one_shape_and_of_others_go_together() -> None:
    shapes = {0: (2, 2), 1: (2, 2), 2: (4, 3), 3: (2, 2), 4: (1, 5)}

    def cropped(rows: pa.Table) -> pa.Table:
        ids = rows[ROW].to_pylist()
        if 3 in ids:
            raise BadRow("broken")
        arrays = stack([np.full(shapes[each], each, np.uint8) for each in ids])
        return rows.append_column("pixels", array_from_numpy(arrays))

    outcome = call_with_blame(cropped, rows_of([*shapes]))
    assert set(outcome.failed) == {3}
    assert outcome.rows
    assert outcome.rows[ROW].to_pylist() == [0, 1, 2, 4]
    for row, pixels in zip([0, 1, 2, 4], column_to_numpy(outcome.rows["pixels"]), strict=True):
        np.testing.assert_array_equal(pixels, np.full(shapes[row], row, np.uint8))
        assert pixels.dtype == np.uint8


def test_parts_of_a_thousand_columns_go_together_without_a_look_at_all_for_each() -> None:
    wide = pa.table({f"c{at}": np.arange(8) for at in range(1000)})
    begun = time.thread_time()
    together = concatenated([wide] * 8)
    assert time.thread_time() - begun < 1.0  # it took 3.3 s
    assert len(together) == 64


def test_a_guilty_row_costs_few_calls() -> None:
    calls: list[int] = []
    call_with_blame(failing_on({17}, calls), rows_of(list(range(64))))
    assert len(calls) <= 2 * 6 + 2


@pytest.mark.parametrize(("one_in", "calls_each"), [(500, 16), (100, 12), (10, 8), (2, 4), (1, 2)])
def test_of_many_guilty_rows_each_costs_few_calls_and_the_others_are_handed_on_a_few_times(
    one_in: int, calls_each: float
) -> None:
    """Halving the whole, level by level, took half as many again, and handed all on 13 times."""
    count = 16_384
    bad = {*np.flatnonzero(np.random.default_rng(0).random(count) < 1 / one_in).tolist()}
    calls: list[int] = []
    outcome = call_with_blame(failing_on(bad, calls, as_they_are), rows_of([*range(count)]))
    assert {*outcome.failed} == bad
    kept = outcome.rows[ROW].to_pylist() if outcome.rows is not None else []
    assert kept == [at for at in range(count) if at not in bad]
    assert len(calls) <= calls_each * len(bad) + 30
    assert sum(calls) < 7 * count


@pytest.mark.parametrize("most", [1, 8, 100])
def test_rows_that_fail_only_together_are_handed_on_in_parts_that_do_not(most: int) -> None:
    calls: list[int] = []

    def function(rows: pa.Table) -> pa.Table:
        calls.append(len(rows))
        if len(rows) > most:
            raise BadRow("too many")
        return double(rows)

    outcome = call_with_blame(function, rows_of([*range(4096)]))
    assert outcome.failed == {}
    assert outcome.rows is not None
    assert outcome.rows[ROW].to_pylist() == [*range(4096)]
    assert len(calls) < 2 * 4096 / most * 1.4
    assert sum(calls) < 6 * 4096


@pytest.mark.parametrize("missing", [None, np.nan, -np.inf])
def test_rows_that_lack_a_value_cost_few_calls_each(missing: float | None) -> None:
    """They lie apart, each among others that are whole: two are not guilty, and rows stay."""
    count, bad = 4096, {*range(5, 4096, 64)}
    guilty = bad - {69, 133}
    values = [missing if at in bad else float(at) for at in range(count)]
    x = pa.array(values, pa.float64(), from_pandas=False)
    rows = pa.table({ROW: np.arange(count), "x": x, "never": pa.nulls(count, pa.string())})
    calls: list[int] = []
    outcome = call_with_blame(failing_on(guilty, calls, as_they_are), rows)
    assert {*outcome.failed} == guilty
    assert outcome.rows is not None
    assert outcome.rows[ROW].to_pylist() == [at for at in range(count) if at not in guilty]
    assert len(calls) < 4 * len(guilty)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(list("abcdefgh"), pa.string_view()),
        pa.array([[each] for each in "abcdefgh"], pa.list_(pa.string_view())),
        pc.run_end_encode(pa.array([1, 1, 1, 2, 2, 3, 3, 4])),
        pa.array(list("aabbccdd")).dictionary_encode(),
        pa.nulls(8),
        pa.array([1, None, 2, 3, 4, 5, 6, 7], pa.decimal128(9, 2)),
    ],
    ids=lambda each: str(each.type),
)
def test_rows_that_lack_a_value_are_found_beside_columns_of_any_type(column: pa.Array) -> None:
    x = [0.0, None, 2.0, None, 4.0, np.nan, 6.0, 7.0]
    rows = pa.table({ROW: np.arange(8), "x": pa.array(x, from_pandas=False), "other": column})
    calls: list[int] = []
    outcome = call_with_blame(failing_on({3}, calls, as_they_are), rows)
    assert {*outcome.failed} == {3}
    assert outcome.rows is not None
    assert outcome.rows[ROW].to_pylist() == [0, 1, 2, 4, 5, 6, 7]
    expected = [each for at, each in enumerate(column.to_pylist()) if at != 3]
    assert outcome.rows["other"].to_pylist() == expected


def test_what_is_made_of_missing_values_alone_need_not_go_with_the_rest() -> None:
    """As of pandas: floats where nothing is there, beside texts."""
    x = [None if at % 4 == 2 else float(at) for at in range(64)]

    def said(rows: pa.Table) -> pa.Table:
        if 7.0 in rows["x"].to_pylist():
            raise BadRow("seven")
        frame = rows.to_pandas()
        frame["said"] = frame["x"].map(lambda each: np.nan if each != each else f"c{each:.0f}")
        return pa.Table.from_pandas(frame[[ROW, "said"]], preserve_index=False)

    rows = pa.table({ROW: np.arange(64), "x": pa.array(x, pa.float64())})
    outcome = call_with_blame(said, rows)
    assert {*outcome.failed} == {7}
    assert outcome.rows is not None
    expected = [None if at % 4 == 2 else f"c{at}" for at in range(64) if at != 7]
    assert outcome.rows["said"].to_pylist() == expected


def test_children_beside_a_missing_value_share_the_fate_of_their_row_and_stay_together() -> None:
    ids = [row for row in range(64) for _ in range(1 + row % 3)]
    x = [None if at % 10 == 3 else float(at) for at in range(len(ids))]
    rows = pa.table({ROW: pa.array(ids, pa.int64()), "x": pa.array(x, pa.float64())})
    seen: list[list[int]] = []

    def function(given: pa.Table) -> pa.Table:
        seen.append(given[ROW].to_pylist())
        if 33 in seen[-1]:
            raise BadRow("bad row")
        return double(given.set_column(1, "x", given["x"].fill_null(0.0)))

    outcome = call_with_blame(function, rows)
    assert {*outcome.failed} == {33}
    assert outcome.rows is not None
    assert outcome.rows[ROW].to_pylist() == [row for row in ids if row != 33]
    assert all(each.count(row) == 1 + row % 3 for each in seen for row in each)


def test_what_a_failed_call_held_is_let_go_before_the_next() -> None:
    held: list[weakref.ref[np.ndarray]] = []

    def function(rows: pa.Table) -> pa.Table:
        assert [each for each in held if each() is not None] == []
        activations = np.zeros(10)
        held.append(weakref.ref(activations))
        if 1 in rows[ROW].to_pylist():
            raise BadRow("bad row")
        return double(rows)

    outcome = call_with_blame(function, rows_of([0, 1, 2, 3]))
    (error,) = outcome.failed.values()
    assert place_of(error).startswith(" (test_blame.py:"), "where it was raised is still known"
    assert len(held) == 6


def test_a_row_that_fails_alone_once_gets_another_chance() -> None:
    calls: list[int] = []

    def flaky(rows: pa.Table) -> pa.Table:
        calls.append(len(rows))
        if len(rows) == 1 and calls.count(1) == 1:
            raise BadRow("a hiccup")
        return double(rows)

    assert call_with_blame(flaky, rows_of([5])).failed == {}


def test_children_share_their_parents_fate() -> None:
    rows = rows_of([1, 1, 1, 2, 2])

    def fails_on_one_child(rows: pa.Table) -> pa.Table:
        if len(rows) > 2:
            raise BadRow("too many")
        return double(rows)

    outcome = call_with_blame(fails_on_one_child, rows)
    assert set(outcome.failed) == {1}
    assert outcome.rows is not None
    assert outcome.rows[ROW].to_pylist() == [2, 2]


ASKED = httpx.Request("POST", "http://a")


def answered(status: int) -> Exception:
    """What requests raises of a server's answer."""
    answer = requests.Response()
    answer.status_code = status
    try:
        answer.raise_for_status()
    except requests.HTTPError as error:
        return error
    raise AssertionError(f"{status} is no error")


NOT_THE_DATAS_FAULT: list[Exception] = [
    OSError(28, "No space left on device"),
    ConnectionResetError("reset"),
    TimeoutError("slow"),
    MemoryError(),
    ImportError("no module"),
    UserCodeBroke("broke"),
    type("AcceleratorError", (RuntimeError,), {})("the device is lost"),
    urllib.error.URLError("no route to host"),
    urllib.error.HTTPError("http://a", 503, "unavailable", Message(), None),
    *(answered(status) for status in (401, 408, 429, 500, 503)),
    httpx.HTTPStatusError("503", request=ASKED, response=httpx.Response(503, request=ASKED)),
    http.client.IncompleteRead(b""),
    ssl.SSLError("handshake failed"),
    requests.exceptions.ConnectionError("refused"),
    requests.exceptions.SSLError("handshake failed"),
    requests.exceptions.ReadTimeout("slow"),
    urllib3.exceptions.ProtocolError("cut off"),
    botocore.exceptions.ClientError({"Error": {"Code": "SlowDown"}}, "GetObject"),
    botocore.exceptions.EndpointConnectionError(endpoint_url="http://a"),
    botocore.exceptions.NoCredentialsError(),
    aiohttp.ClientPayloadError("cut off"),
    aiohttp.ClientResponseError(cast("Any", None), (), status=503),
    aiohttp.ClientResponseError(cast("Any", None), ()),  # no word of a status
    aiohttp.ServerDisconnectedError(),
    httpx.ConnectError("refused"),
    httpx.ReadTimeout("slow"),
    RuntimeError("CUDA error: an illegal memory access was encountered"),
    RuntimeError("CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to"),
    *(
        type(name, (base,), {})(said)
        for name, base, said in (
            ("Fail", Exception, "[ONNXRuntimeError] : 1 : FAIL : Failed to allocate memory"),
            ("RuntimeException", Exception, "CUDA failure 719: unspecified launch failure"),
            ("RuntimeException", Exception, "CUDNN failure 4: execution failed"),
            ("XGBoostError", ValueError, "bad_malloc: out of memory"),
            ("XGBoostError", ValueError, "for_each: cudaErrorIllegalAddress: illegal access"),
            ("XlaRuntimeError", RuntimeError, "RESOURCE_EXHAUSTED: Out of memory"),
            ("JaxRuntimeError", RuntimeError, "INTERNAL: CUDA_ERROR_ILLEGAL_ADDRESS"),
        )
    ),
]


@pytest.mark.parametrize("error", NOT_THE_DATAS_FAULT, ids=lambda error: type(error).__name__)
def test_what_is_not_the_datas_fault_is_raised(error: Exception) -> None:
    def function(rows: pa.Table) -> pa.Table:
        raise error

    assert not is_data_error(error)
    with pytest.raises(type(error)):
        call_with_blame(function, rows_of([1, 2]))


def test_a_lost_connection_amid_the_search_is_raised() -> None:
    def function(rows: pa.Table) -> pa.Table:
        raise BadRow("too many") if len(rows) > 1 else ConnectionResetError("reset")

    with pytest.raises(ConnectionResetError):
        call_with_blame(function, rows_of([1, 2, 3]))


def test_a_lost_connection_at_the_last_chance_is_raised() -> None:
    errors = iter([BadRow("alone"), ConnectionResetError("reset")])

    def function(rows: pa.Table) -> pa.Table:
        raise next(errors)

    with pytest.raises(ConnectionResetError):
        call_with_blame(function, rows_of([1]))


def test_a_decoders_oserror_is_the_datas_fault() -> None:
    assert is_data_error(OSError("image file is truncated"))


def reading(rows: pa.Table) -> pa.Table:
    return pa.table({"text": [Path(name).read_text() for name in rows["name"].to_pylist()]})


def test_a_file_that_a_row_names_and_that_is_not_there_sets_that_row_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an object does that a store has not."""
    (tmp_path / "a.txt").write_text("a")
    monkeypatch.chdir(tmp_path)
    names = [f"{tmp_path}/a.txt", "b.txt", "a.txt", f"{tmp_path}/gone.txt"]
    outcome = call_with_blame(reading, rows_of([1, 2, 3, 4]).append_column("name", [names]))
    assert {row: type(error) for row, error in outcome.failed.items()} == {
        2: FileNotFoundError,
        4: FileNotFoundError,
    }
    assert outcome.rows is not None
    assert outcome.rows[ROW].to_pylist() == [1, 3]

    noise = pa.Array.from_buffers(
        pa.string(), 2, pa.array([b"\xff", b"\xfe"], pa.binary()).buffers()
    )  # that is no UTF-8
    rows = rows_of([1, 2]).append_column("noise", [noise])
    outcome = call_with_blame(reading, rows.append_column("name", [["a.txt", "b.txt"]]))
    assert [*outcome.failed] == [2]

    (tmp_path / "mount").mkdir()
    for away in ("mount/a.txt", "mount/folder/a.txt"):  # as a disk has them that is not there
        with pytest.raises(FileNotFoundError):
            call_with_blame(reading, rows_of([1, 2]).append_column("name", [["a.txt", away]]))

    def reading_its_own(rows: pa.Table) -> pa.Table:
        return reading(rows.set_column(2, "name", [["weights.txt"] * len(rows)]))

    rows = rows_of([1, 2]).append_column("name", [["", None]])
    with pytest.raises(FileNotFoundError):
        call_with_blame(reading_its_own, rows)


def chained(lines: str) -> Exception:
    """What a few lines raise that handle a lost connection."""
    lost = requests.exceptions.ConnectionError("refused")
    try:
        exec(lines, {"lost": lost})
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


HANDLED = "try: raise lost\nexcept OSError as error:\n  "


LED_TO_BY_THE_NETWORK = (
    "raise ValueError('no image') from lost",
    HANDLED + "raise ValueError('no image')",
    HANDLED + "try: int('x')\n  except ValueError as e: raise KeyError('x') from e",
    "lost.__cause__ = lost; raise lost",
    "try: int('x')\nexcept ValueError: raise lost",
)


@pytest.mark.parametrize("lines", LED_TO_BY_THE_NETWORK)
def test_data_is_not_blamed_for_what_led_to_an_error(lines: str) -> None:
    assert not is_data_error(chained(lines))


def test_an_error_may_deny_what_led_to_it() -> None:
    assert is_data_error(chained(HANDLED + "raise ValueError('no image') from None"))


def test_an_error_may_lead_to_itself() -> None:
    error = ValueError("no image")
    error.__cause__ = error
    assert is_data_error(error)


@pytest.mark.parametrize(
    "error",
    [
        *(answered(status) for status in (400, 404, 422)),
        httpx.HTTPStatusError("404", request=ASKED, response=httpx.Response(404, request=ASKED)),
        aiohttp.ClientResponseError(cast("Any", None), (), status=404),
        urllib.error.HTTPError("http://a", 404, "not found", Message(), None),
        requests.exceptions.InvalidURL("no host"),
        requests.exceptions.JSONDecodeError("no JSON", "{", 0),
        RuntimeError("shape '[3, 2]' is invalid for input of size 5"),
        ValueError("the text says: out of memory, CUDA failure"),
        type("Fail", (Exception,), {})("Got invalid dimensions for input: pixels"),
        chained("try: import no_such_module\nexcept ImportError: raise ValueError('no image')"),
        chained("try: open('/no/cache')\nexcept OSError: raise ValueError('no image')"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_these_may_be_the_datas_fault(error: Exception) -> None:
    assert is_data_error(error)


class PanicException(BaseException):
    """Named as what pyo3 raises where Rust code gives up."""


def test_a_row_that_makes_rust_panic_is_set_aside() -> None:
    def function(rows: pa.Table) -> pa.Table:
        if 2 in rows[ROW].to_pylist():
            raise PanicException("index out of bounds")
        return double(rows)

    outcome = call_with_blame(function, rows_of([1, 2, 3]))
    assert outcome.rows is not None
    assert outcome.rows[ROW].to_pylist() == [1, 3]
    assert {row: str(error) for row, error in outcome.failed.items()} == {
        2: "code in Rust panicked: index out of bounds"
    }


def test_what_else_is_no_exception_is_raised() -> None:
    def function(rows: pa.Table) -> pa.Table:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call_with_blame(function, rows_of([1, 2]))


def test_fewer_rows_without_ids_are_refused() -> None:
    with pytest.raises(UserCodeBroke, match="3 rows given and 1 returned"):
        keeping_rows(lambda rows: pa.table({"y": [1]}), rows_of([1, 2, 3]))


def test_more_rows_without_ids_are_refused() -> None:
    with pytest.raises(UserCodeBroke, match="1 row given and 2 returned"):
        keeping_rows(lambda rows: pa.table({"y": [1, 2]}), rows_of([1]))


def test_rows_that_come_back_with_ids_may_come_in_any_order() -> None:
    returned = keeping_rows(lambda rows: rows_of([3, 1, 2]), rows_of([1, 2, 3]))
    assert returned.to_pylist() == rows_of([3, 1, 2]).to_pylist()


def test_ids_that_were_not_given_are_refused() -> None:
    with pytest.raises(UserCodeBroke, match=r"\[9\]"):
        keeping_rows(lambda rows: rows_of([1, 9]), rows_of([1, 2]))


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        (["a", "b"], "not ids"),
        ([1.0, float("nan")], "not ids"),
        ([[1], [2]], "not ids"),
        ([1, None], "missing values"),
        ([None, 9], "missing values"),
    ],
    ids=str,
)
def test_what_is_no_id_is_refused(ids: list[object], problem: str) -> None:
    with pytest.raises(UserCodeBroke, match=f"it returned __row with .*{problem}.*return its ids"):
        call_with_blame(lambda rows: pa.table({ROW: ids}), rows_of([1, 2]))


def test_two_columns_of_ids_are_refused() -> None:
    twice = pa.table([rows_of([1])[ROW]] * 2, [ROW, ROW])
    with pytest.raises(UserCodeBroke, match="more than one column is named '__row'"):
        call_with_blame(lambda rows: twice, rows_of([1]))


def test_children_come_out_side_by_side() -> None:
    returned = keeping_rows(lambda rows: rows_of([2, 1, 2, 1]), rows_of([1, 2]))
    assert returned[ROW].to_pylist() == [2, 2, 1, 1]
