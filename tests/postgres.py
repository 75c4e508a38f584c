"""A PostgreSQL server of the tests' own: on loopback, in a folder that is gone afterwards."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from deployments.stack.ports import any_free_port

DEBIAN = Path("/usr/lib/postgresql")
"""A folder a version; Debian puts its programs nowhere else."""
ACCOUNT = "postgres"
"""The machine's, since the server refuses to be root's; and the server's own."""
PASSWORD = "no word: of @theirs/"
READER = "reader"
READER_VARIABLE = "READER_PASSWORD"
READY_SECONDS = 60.0
END_SECONDS = 10.0
STARTS = 3
"""Somebody else may take the port meanwhile."""
QUICK = ("fsync=off", "full_page_writes=off", "shared_buffers=32MB", "timezone=Asia/Tokyo")
"""Nothing here has to outlive a power cut; and a server's own zone is not always UTC."""

EMPTY = """
DO $$ DECLARE each name; BEGIN
    FOR each IN SELECT nspname FROM pg_namespace
        WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
    LOOP EXECUTE format('DROP SCHEMA %I CASCADE', each); END LOOP;
END $$
"""
LIKE_NEW = ("CREATE SCHEMA public", "GRANT USAGE ON SCHEMA public TO PUBLIC")


class NoPostgresError(RuntimeError):
    """It is not installed."""


@dataclass(frozen=True)
class Postgres:
    """A server that runs."""

    port: int

    def url(self, database: str = "postgres", dialect: str = "postgresql") -> str:
        """The URL of a database, for who may do everything."""
        return f"{dialect}://{ACCOUNT}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/{database}"

    def for_reader(self, database: str) -> str:
        """The URL of an empty database, for a role that may only read; its password is a variable.

        It is made once, and emptied from then on: to make one takes twelve times as long.
        """
        self.execute(database if self.holds(database) else self.made(database), EMPTY, *LIKE_NEW)
        place = f"127.0.0.1:{self.port}/{database}"
        return f"postgresql+psycopg://{READER}:${{{READER_VARIABLE}}}@{place}"

    def holds(self, database: str) -> bool:
        """Whether a database is there; who was left connected to it is no more."""
        import psycopg

        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        there = "SELECT FROM pg_database WHERE datname = %s"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(others, (database,))
            return connection.execute(there, (database,)).fetchone() is not None

    def made(self, database: str) -> str:
        """The name of a new database, whose tables a role may only read."""
        self.execute(
            "postgres",
            f"CREATE DATABASE {database}",
            f"CREATE ROLE {READER} LOGIN PASSWORD '{PASSWORD}'",
            f"ALTER ROLE {READER} SET default_transaction_read_only = on",
        )
        self.execute(database, f"ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {READER}")
        return database

    def execute(self, database: str, *statements: str) -> None:
        """Run statements, each at once and for good."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for each in statements:
                connection.execute(each.encode())


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """A new server, for as long as the block lasts.

    Raises:
        NoPostgresError: none is installed.
    """
    programs = find_programs()
    # Not among pytest's folders: those are closed to the account that the server runs as.
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        shutil.chown(folder, account() or os.geteuid())
        make_files(programs, folder)
        process, port = start(programs, folder)
        try:
            yield Postgres(port)
        finally:
            end(process)
    finally:
        shutil.rmtree(folder)


def find_programs() -> Path:
    """The folder of the server's programs, the newest where there are several.

    Raises:
        NoPostgresError: nothing is installed.
    """
    if on_path := shutil.which("initdb"):
        return Path(on_path).parent
    found = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if not found:
        raise NoPostgresError("no PostgreSQL here: apt-get install postgresql, on Debian")
    return found[-1].parent


def account() -> str | None:
    """Who is to run the programs, where that is not who runs the tests."""
    return ACCOUNT if os.geteuid() == 0 else None


def make_files(programs: Path, folder: Path) -> None:
    """What the server needs before its first start."""
    (folder / "password").write_text(PASSWORD)
    command = [str(programs / "initdb"), "-D", str(folder / "data"), "--no-sync", "-E", "UTF8"]
    command += ["--locale=C", "-U", ACCOUNT, "-A", "scram-sha-256"]
    command += [f"--pwfile={folder / 'password'}"]
    subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        check=True,
        user=account(),
        group=account(),
    )


def start(programs: Path, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """The server, that takes connections, and its port."""
    log = folder / "log"
    for _ in range(STARTS):
        port = any_free_port()
        # No socket file: its name would meet those of other servers, or be too long.
        own = ("listen_addresses=127.0.0.1", "unix_socket_directories=", f"port={port}")
        command = [str(programs / "postgres"), "-D", str(folder / "data")]
        command += [part for each in (*own, *QUICK) for part in ("-c", each)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdout=output,
                stderr=output,
                user=account(),
                group=account(),
            )
        if takes_connections(process, port):
            return process, port
        end(process)
    raise AssertionError(log.read_text())


def takes_connections(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait for it; not for a server that has ended."""
    import psycopg

    until = time.monotonic() + READY_SECONDS
    while process.poll() is None and time.monotonic() < until:
        try:
            psycopg.connect(Postgres(port).url()).close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return True
    return False


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to break off all connections and end; else make it."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGQUIT)
        process.wait()
