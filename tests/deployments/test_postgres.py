"""Prefect's server on Postgres, as deployments/README.md and `make up` have it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from deployments.stack.database import DATABASE_VARIABLES, shown
from deployments.stack.processes import ServiceFailedError
from deployments.stack.services import environment_of, prefect_server
from deployments.stack.stack import known_or_new
from deployments.stack.state import ROOT, State, load_state, save_state
from tests.postgres import Postgres
from tests.stack_server import stack_server

DOCUMENTED = re.compile(r'export (\w+_DATABASE_\w+)="([\w+]+)://user:password@host:5432/prefect"')
PASSWORD = "th@ir: own/100%"
URL = "postgresql+asyncpg://prefect:{password}@127.0.0.1:1/prefect"
CODE = """
class Double:
    def __call__(self, batch):
        return {"doubled": batch["x"] * 2}
"""
SPEC = """
name: doubles
source: {kind: csv, path: numbers.csv}
model: {kind: python, class: "doubling:Double"}
sink: {kind: parquet, path: doubles}
cluster: {kind: inline}
"""


@dataclass(frozen=True)
class Served:
    """A stack's folder, whose Prefect server keeps its own in a database."""

    folder: Path
    state: State
    database: str
    """For a look into it."""


@pytest.fixture
def served(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """The server that `make up` starts, where the environment is as documented."""
    found = DOCUMENTED.search((ROOT / "deployments/README.md").read_text())
    assert found, "the documentation names the variable and the form of the URL"
    postgres.execute(
        "postgres",
        f"CREATE ROLE prefect LOGIN PASSWORD '{PASSWORD}'",
        "CREATE DATABASE prefect OWNER prefect",
    )
    variable, dialect = found.groups()
    place = f"127.0.0.1:{postgres.port}/prefect"
    monkeypatch.setenv(variable, f"{dialect}://prefect:{quote(PASSWORD, safe='')}@{place}")
    with stack_server(tmp_path) as (state, _):
        yield Served(tmp_path, state, postgres.url("prefect"))


@pytest.mark.prefect
def test_a_run_against_a_server_on_postgres_completes(served: Served) -> None:
    (served.folder / "doubling.py").write_text(CODE)
    (served.folder / "numbers.csv").write_text("x\n1\n2\n3\n")
    (served.folder / "spec.yaml").write_text(SPEC)
    environment = environment_of(served.folder, served.state) | {"PYTHONPATH": str(ROOT)}
    assert not any(quote(PASSWORD, safe="") in value for value in environment.values())
    ran = subprocess.run(
        [Path(sys.executable).with_name("batch-inference"), "run", served.folder / "spec.yaml"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    with psycopg.connect(served.database) as connection:
        runs = connection.execute(
            "SELECT flow.name, state_type FROM flow_run JOIN flow ON flow.id = flow_id"
        ).fetchall()
    assert runs == [("batch-inference", "COMPLETED")]
    assert not [*served.folder.rglob("*.db")], "no SQLite beside it"


@pytest.mark.parametrize("variable", DATABASE_VARIABLES)
def test_a_stack_stays_on_its_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, URL.format(password="hunter22"))
    state = known_or_new(tmp_path)
    assert state.database == URL.format(password="***")
    save_state(tmp_path, state)
    assert load_state(tmp_path) == known_or_new(tmp_path)
    monkeypatch.delenv(variable)
    with pytest.raises(ServiceFailedError, match="asks for its own file: make down"):
        known_or_new(tmp_path)


@pytest.mark.parametrize("url", ["postgresql://u:hunter22@host/name", "u:hunter22@host:x/name"])
def test_a_database_that_prefect_does_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv(DATABASE_VARIABLES[0], url)
    with pytest.raises(
        ServiceFailedError, match=r"is not a database URL .*: write postgresql\+asyncpg"
    ) as said:
        known_or_new(tmp_path)
    assert "hunter22" not in str(said.value)


def test_only_the_server_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(prefect_port=1, ray_port=2)
    own = prefect_server(tmp_path, state).environment[DATABASE_VARIABLES[0]]
    assert own == f"sqlite+aiosqlite:///{tmp_path}/prefect.db?plugin=writers_in_turn"
    url = URL.format(password="hunter22")
    monkeypatch.setenv(DATABASE_VARIABLES[1], url)
    assert prefect_server(tmp_path, state).environment[DATABASE_VARIABLES[0]] == url
    assert url not in environment_of(tmp_path, state).values()


@pytest.mark.parametrize("option", ["password", "passfile", "sslpassword"])
def test_a_password_among_a_urls_options_is_shown_to_nobody(option: str) -> None:
    said = shown(f"postgresql+asyncpg://u@host/name?{option}=hunter22&ssl=require")
    assert said == "postgresql+asyncpg://u@host/name?ssl=require"
