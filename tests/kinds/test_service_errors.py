"""Databases and other servers that user code asks: whether they are away, or a row is at fault."""

import errno
import importlib
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tasks.kinds.models.machine_errors import is_of_the_machine


def looked_up() -> None:
    """As clients of databases and queues do it, in their own words."""
    try:
        socket.getaddrinfo("nowhere.invalid", 9)
    except OSError as error:
        raise LookupError("no server") from error


def without_a_route() -> None:
    raise LookupError("no server") from OSError(errno.EHOSTUNREACH, "No route to host")


@pytest.mark.parametrize("ask", [looked_up, without_a_route])
def test_a_client_may_say_in_its_own_words_that_there_is_no_network(
    ask: Callable[[], None],
) -> None:
    with pytest.raises(LookupError) as raised:
        ask()
    assert is_of_the_machine(raised.value)


def test_a_database_that_is_away_is_no_rows_fault() -> None:
    """By the name that PEP 249 has for it, whatever the driver."""
    with pytest.raises(psycopg.OperationalError, match="Connection refused") as raised:
        psycopg.connect("host=127.0.0.1 port=1 user=a", connect_timeout=5)
    assert is_of_the_machine(raised.value)
    sqlalchemy = importlib.import_module("sqlalchemy")
    with pytest.raises(sqlalchemy.exc.OperationalError) as handed_on:
        sqlalchemy.create_engine("postgresql+psycopg://a@127.0.0.1:1/b").connect()
    assert is_of_the_machine(handed_on.value)


def test_wrong_sql_is_no_database_that_is_away() -> None:
    """SQLite has one name for both."""
    sqlalchemy = importlib.import_module("sqlalchemy")
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(sqlalchemy.exc.OperationalError) as raised:
        connection.execute(sqlalchemy.text("select * from nowhere"))
    engine.dispose()
    assert not is_of_the_machine(raised.value)


@pytest.fixture(scope="module")
def channel() -> Iterator[Any]:
    """To a server of gRPC's that ends each call with the status that it is sent, if it is one."""
    grpc = importlib.import_module("grpc")

    def answer(asked: bytes, context: Any) -> bytes:
        if asked.isupper():
            context.abort(grpc.StatusCode[asked.decode()], "so it is")
        return asked

    method = grpc.unary_unary_rpc_method_handler(answer)
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("rows", {"ask": method}),)
        )
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel.unary_unary("/rows/ask")
        server.stop(None).wait()


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (b"UNAVAILABLE", True),
        (b"RESOURCE_EXHAUSTED", True),
        (b"UNAUTHENTICATED", True),
        (b"INTERNAL", True),
        (b"INVALID_ARGUMENT", False),
        (b"NOT_FOUND", False),
        (bytes(5 << 20), False),  # larger than servers take
    ],
    ids=lambda each: str(each[:20]) if isinstance(each, bytes) else str(each),
)
def test_a_call_that_no_row_is_to_blame_for_is_told_by_its_status(
    channel: Callable[..., bytes], asked: bytes, expected: bool
) -> None:
    with pytest.raises(Exception, match="StatusCode") as raised:
        channel(asked, timeout=30)
    assert is_of_the_machine(raised.value) is expected


def test_a_server_of_calls_that_is_away_is_no_rows_fault() -> None:
    grpc = importlib.import_module("grpc")
    with grpc.insecure_channel("127.0.0.1:1") as channel, pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary("/rows/ask")(b"a", timeout=30)
    assert is_of_the_machine(raised.value)


@pytest.mark.parametrize(("name", "expected"), [("ServiceUnavailable", True), ("NotFound", False)])
def test_googles_clients_have_the_status_as_their_own(name: str, expected: bool) -> None:
    exceptions = importlib.import_module("google.api_core.exceptions")
    assert is_of_the_machine(getattr(exceptions, name)("so it is")) is expected


class ApiError(Exception):
    """As those of Cohere's, Qdrant's and other providers' clients, which hold no whole answer."""

    def __init__(self, status_code: int) -> None:
        super().__init__(f"status code {status_code}")
        self.status_code = status_code


@pytest.mark.parametrize(("status", "expected"), [(503, True), (429, True), (422, False)])
def test_an_error_may_have_the_status_of_the_answer_alone(status: int, expected: bool) -> None:
    assert is_of_the_machine(ApiError(status)) is expected
