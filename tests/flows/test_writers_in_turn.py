"""A Prefect server on SQLite that many speak to at once neither stands still nor fails."""

import asyncio
import gc
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import ArtifactCreate
from prefect.server.database.configurations import AioSqliteConfiguration
from prefect.states import Completed, Pending, Running

from deployments.automations import deploy_automations
from deployments.dead_runs import end_silent_runs, retry_crashed_runs
from deployments.stack.registration import prefect_client
from flows.server_database import with_plugin
from flows.writers_in_turn import Connection
from tests.stack_server import stack_server

PATIENCE_SECONDS = 30.0
MOST = 8.0
"""As long as one run may take, by what all take on average: 1.7, and 25 without the plugin."""
AT_ONCE = 8
RUNS = 12
"""Of each."""


def connected(file: Path, patience: float = 0) -> Connection:
    connection = sqlite3.connect(
        file,
        timeout=patience,
        isolation_level=None,
        check_same_thread=False,
        factory=Connection,
    )
    connection.execute("PRAGMA journal_mode = WAL")
    return connection


def as_another_process_has(file: Path) -> sqlite3.Connection:
    """A connection that takes no turns with ours."""
    return sqlite3.connect(file, isolation_level=None)


@pytest.mark.parametrize("sets", [None, [(1,), (3,)]])
def test_nobody_waits_for_a_connection_where_a_failed_statement_of_its_is_collected(
    tmp_path: Path, sets: list[tuple[int]] | None
) -> None:
    connection = connected(tmp_path / "x.db")
    connection.execute("CREATE TABLE t (x)")
    other = as_another_process_has(tmp_path / "x.db")
    other.execute("BEGIN IMMEDIATE")
    failed = connection.cursor()
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        insert(failed, sets)
    connection.execute(f"PRAGMA busy_timeout = {PATIENCE_SECONDS * 1000:.0f}")
    waiting = threading.Thread(target=connection.execute, args=("INSERT INTO t VALUES (2)",))
    waiting.start()
    time.sleep(0.3)
    began = time.monotonic()
    del failed
    other.execute("COMMIT")
    assert time.monotonic() - began < PATIENCE_SECONDS / 2
    waiting.join()
    assert other.execute("SELECT x FROM t").fetchall() == [(2,)]


def insert(cursor: sqlite3.Cursor, sets: list[tuple[int]] | None) -> None:
    if sets:
        cursor.executemany("INSERT INTO t VALUES (?)", sets)
    else:
        cursor.execute("INSERT INTO t VALUES (1)")


def test_who_reads_first_and_writes_then_waits_for_its_turn(tmp_path: Path) -> None:
    from sqlalchemy import text

    url = f"sqlite+aiosqlite:///{tmp_path}/x.db?timeout=30"
    configuration = AioSqliteConfiguration(connection_url=with_plugin(url))

    async def increment() -> None:
        async with (
            await configuration.session(await configuration.engine()) as session,
            configuration.begin_transaction(session),
        ):
            seen = (await session.execute(text("SELECT x FROM t"))).scalar_one()
            await asyncio.sleep(0.05)
            await session.execute(text("UPDATE t SET x = :x"), {"x": seen + 1})

    async def increment_all() -> None:
        engine = await configuration.engine()
        async with engine.begin() as connection:
            await connection.execute(text("CREATE TABLE t (x)"))
            await connection.execute(text("INSERT INTO t VALUES (0)"))
        await asyncio.gather(*(increment() for _ in range(AT_ONCE)))
        await engine.dispose()

    asyncio.run(increment_all())
    assert connected(tmp_path / "x.db").execute("SELECT x FROM t").fetchone() == (AT_ONCE,)


@pytest.mark.parametrize("in_transactions", [True, False])
def test_writers_come_in_the_order_in_which_they_asked(
    tmp_path: Path, in_transactions: bool
) -> None:
    first = connected(tmp_path / "x.db", PATIENCE_SECONDS)
    first.execute("CREATE TABLE t (x)")
    first.execute("BEGIN DEFERRED")

    def write(number: int) -> None:
        connection = connected(tmp_path / "x.db", PATIENCE_SECONDS)
        if in_transactions:
            connection.execute("BEGIN DEFERRED")
        connection.execute("INSERT INTO t VALUES (?)", (number,))
        connection.commit()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        written = []
        for number in range(AT_ONCE):
            written.append(pool.submit(write, number))
            while len(first.turns.queue) < number + 2 and not written[-1].done():
                time.sleep(0.001)
        first.rollback()
    for each in written:
        each.result()
    assert first.execute("SELECT x FROM t").fetchall() == [(each,) for each in range(AT_ONCE)]
    assert first.turns.queue == []


@pytest.mark.parametrize("end", ["ROLLBACK", "close", "forget", "fail"])
def test_the_next_one_has_its_turn_however_the_one_before_ends(tmp_path: Path, end: str) -> None:
    one, next_one = connected(tmp_path / "x.db"), connected(tmp_path / "x.db", PATIENCE_SECONDS)
    if end == "fail":  # another process writes, and this one has no patience
        other = as_another_process_has(tmp_path / "x.db")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            one.execute("BEGIN DEFERRED")
        other.execute("ROLLBACK")
    else:
        one.execute("BEGIN DEFERRED")
    if end == "ROLLBACK":
        one.execute(end)
    elif end == "close":
        one.close()
    elif end == "forget":
        del one
        gc.collect()
    began = time.monotonic()
    next_one.execute("BEGIN DEFERRED")
    assert time.monotonic() - began < PATIENCE_SECONDS / 2
    next_one.commit()


@flow(name="batch-inference")
def batch_inference() -> None:
    """What the automations look after."""


def run_some(client: SyncPrefectClient, name: str) -> list[float]:
    """What a run says to the server, again and again: how many seconds each took."""
    seconds = list[float]()
    for run in range(RUNS):
        began = time.monotonic()
        flow_run = client.create_flow_run(batch_inference, state=Pending())
        client.set_flow_run_state(flow_run.id, Running())
        artifact = ArtifactCreate(key=f"{name}-{run}", type="progress", data=1.0)
        client.create_artifact(artifact)
        client.set_flow_run_state(flow_run.id, Completed())
        seconds.append(time.monotonic() - began)
    return seconds


@pytest.mark.prefect
def test_a_server_that_many_speak_to_answers_all_of_them_soon(
    tmp_path: Path, prefect_database: Path
) -> None:
    with stack_server(tmp_path, prefect_database) as (state, log):
        deploy_automations([end_silent_runs(), retry_crashed_runs()])

        def speak(name: str) -> list[float]:
            with prefect_client(state) as client:
                return run_some(client, name)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            all_told = pool.map(speak, [f"speaker-{n}" for n in range(AT_ONCE)])
            seconds = [each for told in all_told for each in told]
        assert "database is locked" not in log.read_text()
        print(f"{max(seconds):.1f} s at most, {fmean(seconds):.1f} on average")
        assert max(seconds) < MOST * fmean(seconds)
