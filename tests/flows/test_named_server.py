"""A Prefect server that cannot be used is one message, at the start of a run and at its end."""

import ssl
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from prefect.client.orchestration import get_client
from prefect.settings import (
    PREFECT_API_SSL_CERT_FILE,
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    temporary_settings,
)

from flows import cli
from flows.named_server import trouble_told, trouble_with_server
from tasks.errors import InvalidSpec, Unreachable
from tests.flows.conftest import spec_of
from tests.flows.jobs_front import jobs_front

SERVER = "http://me:hush-hush@prefect/api"
ASKED = httpx.Request("POST", f"{SERVER}/flow_runs/")


def answer(status: int, words: str = "") -> Exception:
    """What Prefect's client raises where the server has answered so."""
    return httpx.HTTPStatusError(words, request=ASKED, response=httpx.Response(status))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (httpx.ConnectError("All connection attempts failed", request=ASKED), Unreachable),
        (httpx.ReadTimeout("", request=ASKED), Unreachable),
        (answer(401), Unreachable),
        (answer(503), Unreachable),
        (answer(422, "Flow run parameters must be less than 524,288 bytes"), InvalidSpec),
        (answer(404), None),
        (httpx.ConnectError("another's", request=httpx.Request("GET", "http://hub/x")), None),
        (httpx.ConnectError("nobody knows whose"), None),
        (ValueError("a mistake of ours"), None),
    ],
)
def test_what_is_told_of_an_error(error: Exception, told: type[Exception] | None) -> None:
    with temporary_settings({PREFECT_API_URL: SERVER}):
        found = trouble_with_server(error)
    assert type(found) is (told or type(None))
    assert "hush" not in str(found)


@pytest.mark.parametrize(
    ("server", "asked"),
    [
        ("https://Prefect.Example.com/api", "https://prefect.example.com/api/flows/"),
        ("https://prefect.example.com:443/api", "https://prefect.example.com/api/flows/"),
        ("http://127.0.0.1:80/api/", "http://127.0.0.1/api/flows/"),
    ],
)
def test_a_url_is_known_however_it_is_written(server: str, asked: str) -> None:
    """The client leaves out a port that goes without saying, and writes hosts in small letters."""
    request = httpx.Client(base_url=server).build_request("GET", "flows/")
    assert str(request.url) == asked
    with temporary_settings({PREFECT_API_URL: server}):
        found = trouble_with_server(httpx.ConnectError("refused", request=request))
    assert isinstance(found, Unreachable)
    assert f"Prefect's server at {server} does not answer" in str(found)


def test_a_url_without_its_beginning_is_named() -> None:
    request = httpx.Request("GET", "localhost:4200/api/flows/")
    with temporary_settings({PREFECT_API_URL: "localhost:4200/api"}):
        found = trouble_with_server(httpx.UnsupportedProtocol("no protocol", request=request))
    assert isinstance(found, InvalidSpec)
    assert str(found) == (
        "PREFECT_API_URL: 'localhost:4200/api' must begin with https:// or http://"
    )


def test_a_command_ends_with_one_message(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = numbers.parent / "spec.json"
    file.write_text(spec_of(numbers).model_dump_json(by_alias=True))
    monkeypatch.setattr(sys, "argv", ["batch-inference", "run", str(file)])
    away: dict[Any, Any] = {
        PREFECT_API_URL: "http://127.0.0.1:9/api",
        PREFECT_CLIENT_MAX_RETRIES: 0,
    }
    with temporary_settings(away), pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert "Unreachable: Prefect's server at http://127.0.0.1:9/api does not answer" in said


def say_hello() -> None:
    with trouble_told(), get_client(sync_client=True) as client:
        client.hello()


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_a_certificate_that_nobody_trusts_is_told_as_that(tmp_path: Path) -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with jobs_front(str(PREFECT_API_URL.value()), tls=context) as front:
        here: dict[Any, Any] = {PREFECT_API_URL: f"{front.url}/api", PREFECT_CLIENT_MAX_RETRIES: 0}
        told = r"is not trusted \(.*issuer.*\): .* PREFECT_API_SSL_CERT_FILE"
        with temporary_settings(here), pytest.raises(Unreachable, match=told):
            say_hello()
        with temporary_settings({**here, PREFECT_API_SSL_CERT_FILE: str(tmp_path / "ca.pem")}):
            say_hello()


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("path", ["", "/", "/ap", "/api/v2"])
def test_a_url_that_does_not_lead_to_its_api(
    numbers: Path, path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = str(PREFECT_API_URL.value()).removesuffix("/api")
    file = numbers.parent / "spec.json"
    file.write_text(spec_of(numbers).model_dump_json(by_alias=True))
    monkeypatch.setattr(sys, "argv", ["batch-inference", "run", str(file)])
    with temporary_settings({PREFECT_API_URL: f"{server}{path}"}), pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    said = capsys.readouterr().err
    wanted = "must end in /api" if "/api" in path else f"must end in /api, such as {server}/api;"
    assert f"PREFECT_API_URL: '{server}{path}' is not where Prefect's API is: it {wanted}" in said
