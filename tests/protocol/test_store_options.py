"""What deltalake is told of a store is what fsspec's client for it goes by."""

import errno
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from adlfs import AzureBlobFileSystem

from tasks.errors import InvalidSpec
from tasks.protocol.azure_options import azure_options
from tasks.protocol.delta_options import delta_options
from tasks.protocol.storage import open_storage
from tests.azure_server import ACCOUNT, KEY, Azure
from tests.google_server import Google

AZURE = "abfs://batches/out"
IN_THE_ENVIRONMENT = ("CONNECTION_STRING", "ACCOUNT_NAME", "ACCOUNT_KEY", "SAS_TOKEN", "CLIENT_ID")


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """An environment without keys of Azure's."""
    for name in IN_THE_ENVIRONMENT:
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)
    AzureBlobFileSystem.clear_instance_cache()
    yield monkeypatch
    AzureBlobFileSystem.clear_instance_cache()


def test_keys_of_an_account_are_translated(nobody: pytest.MonkeyPatch) -> None:
    by_key = {"account_name": "own", "account_key": KEY}
    assert delta_options(AZURE, by_key) == {
        "azure_storage_account_name": "own",
        "azure_storage_account_key": KEY,
    }
    by_signature = {"account_name": "own", "sas_token": "sv=1&sig=x"}
    assert delta_options(AZURE, by_signature)["azure_storage_sas_key"] == "sv=1&sig=x"
    anonymous = {"account_name": "own", "anon": True}
    assert delta_options(AZURE, anonymous)["azure_skip_signature"] == "true"
    nobody.setenv("AZURE_STORAGE_ACCOUNT_NAME", "own")
    nobody.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    assert delta_options(AZURE, {}) == delta_options(AZURE, by_key)


STRING = f"AccountName=own;AccountKey={KEY}"


@pytest.mark.parametrize(
    ("line", "endpoint"),
    [
        (STRING, None),
        (f"{STRING};EndpointSuffix=b.example", "https://own.blob.b.example"),
        (f"{STRING.lower()}; BlobEndpoint=https://b.example/own", "https://b.example/own"),
    ],
)
def test_a_connection_string_says_all(
    nobody: pytest.MonkeyPatch, line: str, endpoint: str | None
) -> None:
    nobody.setenv("AZURE_STORAGE_CONNECTION_STRING", line.replace(KEY.lower(), KEY))
    nobody.setenv("AZURE_STORAGE_ACCOUNT_NAME", "another")  # which adlfs passes over then
    found = delta_options(AZURE, {})
    assert found.pop("azure_storage_endpoint", None) == endpoint
    assert found == {"azure_storage_account_name": "own", "azure_storage_account_key": KEY}


def test_a_connection_string_may_bear_a_signature(nobody: pytest.MonkeyPatch) -> None:
    """As the portal makes it, without the account's name."""
    signed = "SharedAccessSignature=sv=1&sig=x"
    line = f"BlobEndpoint=https://own.blob.core.windows.net/;{signed}"
    nobody.setenv("AZURE_STORAGE_CONNECTION_STRING", line)
    assert delta_options(AZURE, {}) == {
        "azure_storage_account_name": "own",
        "azure_storage_sas_key": "sv=1&sig=x",
        "azure_storage_endpoint": "https://own.blob.core.windows.net/",
    }


def test_where_two_could_take_another_account_or_key_none_is_taken(
    nobody: pytest.MonkeyPatch,
) -> None:
    nobody.setenv("AZURE_STORAGE_CONNECTION_STRING", STRING)
    with pytest.raises(ValueError, match=r"account_name is 'other', but AZURE_.* has 'own': lea"):
        open_storage(AZURE, {"account_name": "other"})
    open_storage(AZURE, {"account_name": "own"})
    nobody.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=x")
    with pytest.raises(InvalidSpec, match=r"CONNECTION_STRING and AZURE_STORAGE_SAS_TOKEN are "):
        delta_options(AZURE, {})


@pytest.mark.parametrize("scheme", ["abfs", "abfss", "az"])
def test_an_account_stands_in_no_url(scheme: str) -> None:
    """The ledger's client would take it from there, and has the rest of the URL alone."""
    plain = rf"write {scheme}://batches/a/b, storage_options: \{{account_name: own\}}"
    with pytest.raises(ValueError, match=plain):
        open_storage(f"{scheme}://batches@own.dfs.core.windows.net/a/b")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("gs://bucket/out#1", "ends in a number that gcsfs reads as a version: re"),
        ("gs://bucket/a?generation=7", "ends in a number that gcsfs reads as a version"),
        ("abfs://batches/a?versionid=x", "names a version of an object"),
    ],
)
def test_a_version_stands_in_no_url(url: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        open_storage(url)


def test_a_store_on_loopback_is_asked_without_tls(azure: Azure) -> None:
    storage, _ = open_storage(azure.url("out"))
    found = azure_options(storage.filesystem)
    assert found["azure_storage_endpoint"] == f"http://127.0.0.1:{azure.port}/{ACCOUNT}"
    assert found["azure_allow_http"] == "true"


@pytest.mark.parametrize("status", ["pending", "failed"])
def test_what_is_copied_goes_once_the_copy_is_whole(azure: Azure, status: str) -> None:
    folder = uuid.uuid4().hex
    storage, path = open_storage(azure.url(f"{folder}/a"))
    storage.write(path, b"whole")
    azure.said_of_copies.extend([status] * 3)
    azure.seen.clear()
    if status == "failed":
        with pytest.raises(OSError, match="copy ended as failed") as raised:
            storage.move(path, f"{path}-moved")
        assert raised.value.errno == errno.EIO
        assert storage.read(path) == b"whole"
        azure.said_of_copies.clear()
        return
    storage.move(path, f"{path}-moved")
    assert azure.said_of_copies == []
    asked = [line.partition(" ")[0] for line in azure.seen]
    assert asked == ["PUT", *["HEAD"] * 4, "DELETE"]
    assert storage.read(f"{path}-moved") == b"whole"


def as_file(key: dict[str, str], folder: Path) -> str:
    file = folder / "key.json"
    file.write_text(json.dumps(key))
    return str(file)


TOKENS: list[tuple[Callable[[dict[str, str], Path], Any], str]] = [
    (lambda key, folder: key, "google_service_account_key"),
    (as_file, "google_application_credentials"),
    (lambda key, folder: "anon", "google_skip_signature"),
    (lambda key, folder: None, ""),
    (lambda key, folder: "google_default", ""),
]


@pytest.mark.parametrize(("token", "option"), TOKENS)
def test_whose_account_asks_google_is_translated(
    google: Google, tmp_path: Path, token: Callable[[dict[str, str], Path], Any], option: str
) -> None:
    given = token(google.account, tmp_path)
    options = {**google.storage_options, "token": given}
    found = delta_options(google.url("out"), options)
    assert found.pop("google_base_url") == google.endpoint_url
    assert found.pop("google_allow_http") == "true"
    assert [*found] == [option][: len(option)]
    if isinstance(given, str) and option == "google_application_credentials":
        assert found[option] == given


def test_an_account_that_deltalake_alone_would_take_is_refused(
    google: Google, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", "/own/key.json")
    with pytest.raises(InvalidSpec, match=r"^GOOGLE_SERVICE_ACCOUNT: .*APPLICATION_CREDENTIALS$"):
        delta_options(google.url("out"), google.storage_options)


def test_what_google_forbids_is_refused_and_not_damaged(google: Google) -> None:
    storage, path = open_storage(google.url(f"{uuid.uuid4().hex}/secret"), google.storage_options)
    storage.write(path, b"data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(google, "forbidden", "secret")
        with pytest.raises(PermissionError, match=path):
            storage.read(path)
        with pytest.raises(PermissionError), storage.open(path) as file:
            file.read()
    assert storage.read(path) == b"data"


def test_notes_on_an_object_of_googles_make_it_no_other(google: Google) -> None:
    storage, path = open_storage(google.url(f"{uuid.uuid4().hex}/a"), google.storage_options)
    storage.write(path, b"data")
    found = storage.stat(path)
    assert found
    assert found.identity == str(google.written)
    assert storage.list(path) == [found]


def test_googles_own_endpoint_goes_without_saying() -> None:
    assert delta_options("gs://bucket/out", {"token": "anon"}) == {"google_skip_signature": "true"}


def test_a_token_that_cannot_keep_a_ledger_is_refused(google: Google) -> None:
    storage, _ = open_storage(google.url("out"), google.storage_options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage.filesystem.credentials, "token", "cache")
        with pytest.raises(InvalidSpec, match=r"storage_options\.token: .*APPLICATION_CREDENTIALS"):
            delta_options(google.url("out"), google.storage_options)
