"""What the machine does to a model while it loads is no fault of its file: a retry can help."""

import asyncio
import urllib.request
from collections.abc import Callable
from inspect import currentframe
from pathlib import Path
from typing import Any, NoReturn

import botocore.exceptions
import botocore.session
import httpx
import httpx2
import pytest
import requests
from aiohttp import ClientSession, TooManyRedirects, web
from botocore.config import Config

from tasks.errors import InvalidSpec
from tasks.kinds.models import TorchvisionModel
from tasks.kinds.models.machine_errors import chain, is_of_the_machine, is_out_of_memory
from tasks.kinds.models.model import Placement
from tasks.kinds.models.tensors import onnx_session, torch_program
from tasks.kinds.models.vision.zoo import Architecture

MEMORY = RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
DEVICE = type("AcceleratorError", (RuntimeError,), {})("CUDA error: the device is lost")
BROKEN = RuntimeError("PytorchStreamReader failed reading zip archive: not a ZIP archive")


class Failing:
    """Raises, whatever is asked of it."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise self.error


def load_script(patch: pytest.MonkeyPatch, error: Exception, path: Path) -> None:
    patch.setattr("torch.jit.load", Failing(error))
    torch_program.torchscript(path, "cuda")


def load_program(patch: pytest.MonkeyPatch, error: Exception, path: Path) -> None:
    patch.setattr("torch.export.load", Failing(error))
    torch_program.exported(path, "cuda")


def load_session(patch: pytest.MonkeyPatch, error: Exception, path: Path) -> None:
    patch.setattr("onnxruntime.InferenceSession", Failing(error))
    path.write_bytes(b"")
    onnx_session.opened(path, True, Placement())


def load_torchvision(patch: pytest.MonkeyPatch, error: Exception, path: Path) -> None:
    patch.setattr(TorchvisionModel, "state_dict", Failing(error))
    TorchvisionModel(name="resnet18", path=str(path)).built(Architecture("resnet18", None), [])


LOADS = [load_script, load_program, load_session, load_torchvision]


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("error", [MEMORY, DEVICE], ids=["memory", "device"])
def test_what_is_the_machines_fault_stays_so(
    load: Any, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(type(error)) as raised:
        load(monkeypatch, error, tmp_path / "model")
    assert raised.value is error


@pytest.mark.parametrize("load", LOADS)
def test_what_is_the_files_fault_is_the_specs(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidSpec, match=r"model\.path"):
        load(monkeypatch, BROKEN, tmp_path / "model")


def test_torchs_compiler_hides_nothing() -> None:
    """It says `from None`, and keeps what it has met."""
    from torch._inductor.exc import InductorError

    with pytest.raises(InductorError) as raised:
        raise InductorError(MEMORY, currentframe()) from None
    assert not is_out_of_memory(raised.value)
    assert is_of_the_machine(raised.value)
    assert any(map(is_out_of_memory, chain(raised.value)))


def test_memory_counts_as_the_machines() -> None:
    assert is_out_of_memory(MEMORY)
    assert is_of_the_machine(MEMORY)
    assert not is_of_the_machine(BROKEN)


def by_aiohttp(url: str) -> None:
    async def ask() -> None:
        async with ClientSession() as session, session.get(url) as answer:
            await answer.read()

    asyncio.run(ask())


def by_botocore(key: str) -> None:
    client = botocore.session.get_session().create_client(
        "s3", endpoint_url="http://127.0.0.1:1", region_name="a", config=Config(retries=NO_RETRIES)
    )
    client.get_object(Bucket="a", Key=key)


NO_RETRIES = {"max_attempts": 0}
CLIENTS: list[Callable[[str], Any]] = [
    *(by_aiohttp, httpx.get, httpx2.get, requests.get, urllib.request.urlopen),
]
NO_URLS = ["", "  ", "a.jpg", "s3://a/b.jpg", "http://", "http://a..b/c.jpg", "C:\\a.jpg"]
REFUSED = "http://127.0.0.1:1/a.jpg"


@pytest.mark.parametrize("ask", CLIENTS)
@pytest.mark.parametrize("url", NO_URLS)
def test_what_is_no_url_is_no_fault_of_the_network(ask: Callable[[str], Any], url: str) -> None:
    """Clients ask nobody for it, and trying again would end no better."""
    with pytest.raises(Exception) as raised:
        ask(url)
    assert not is_of_the_machine(raised.value)


@pytest.mark.parametrize("ask", [*CLIENTS, by_botocore])
def test_a_server_that_is_away_is_no_wrong_url(ask: Callable[[str], Any]) -> None:
    with pytest.raises(Exception) as raised:
        ask(REFUSED)
    assert is_of_the_machine(raised.value)


def test_what_sends_round_in_a_circle_is_no_fault_of_the_network() -> None:
    async def ask() -> None:
        async def here(request: web.Request) -> web.StreamResponse:
            raise web.HTTPFound(request.path)

        app = web.Application()
        app.router.add_get("/", here)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            async with ClientSession() as session:
                await session.get("http://{}:{}/".format(*runner.addresses[0]))
        finally:
            await runner.cleanup()

    with pytest.raises(TooManyRedirects) as raised:
        asyncio.run(ask())
    assert not is_of_the_machine(raised.value)


def test_a_key_that_is_none_is_no_fault_of_the_store() -> None:
    with pytest.raises(botocore.exceptions.ParamValidationError) as raised:
        by_botocore("")
    assert not is_of_the_machine(raised.value)


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("NoSuchKey", 404, False),
        ("404", 404, False),  # of a HEAD, which has no words
        ("NoSuchBucket", 404, True),
        ("ExpiredToken", 400, True),
        ("SlowDown", 503, True),
    ],
)
def test_what_a_store_has_not_is_no_fault_of_its_own(
    code: str, status: int, expected: bool
) -> None:
    answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error = botocore.exceptions.ClientError(answer, "GetObject")
    assert is_of_the_machine(error) is expected
