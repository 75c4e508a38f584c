"""Azure's object store on loopback: Microsoft's own stand-in for it, and a proxy before it.

The stand-in knows no `startFrom`, by which deltalake lists a log from an entry on.
"""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import ClassVar
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

from adlfs import AzureBlobFileSystem

from deployments.stack.ports import any_free_port
from tasks.protocol.storage import open_storage
from tests.object_stores import Answers, serving

PROGRAM = "azurite-blob"
FOLDER = Path(__file__).parents[1] / ".azurite"
"""Where `npm install --prefix .azurite azurite` puts it."""
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The stand-in's own, which its documentation gives."""
READY_SECONDS = 60.0
NAMED = re.compile(rb"<Blob><Name>([^<]*)</Name>.*?</Blob>", re.DOTALL)


class NoAzuriteError(RuntimeError):
    """It is not installed."""


@dataclass
class Azure:
    """The store, with one container."""

    target: int
    """The port of the stand-in."""
    port: int = 0
    bucket: str = "batches"
    seen: list[str] = field(default_factory=list)
    """Methods and paths of requests."""
    said_of_copies: list[str] = field(default_factory=list)
    """What is said in place of how a copy stands, one after the other."""

    @property
    def connection_string(self) -> str:
        """As a user has it in the environment."""
        endpoint = f"http://127.0.0.1:{self.port}/{ACCOUNT}"
        account = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY}"
        return f"{account};BlobEndpoint={endpoint};"

    def url(self, path: str) -> str:
        """An object or folder in the container."""
        return f"abfs://{self.bucket}/{path}"

    @property
    def storage_options(self) -> dict[str, str]:
        """What a source or sink needs to reach it, beside the environment."""
        return {}


@contextmanager
def running_azure() -> Iterator[Azure]:
    """The store on a free port; its keys are in the environment meanwhile.

    Raises:
        NoAzuriteError: it is not installed.
    """
    program = shutil.which(PROGRAM) or shutil.which(PROGRAM, path=FOLDER / "node_modules" / ".bin")
    if program is None:
        raise NoAzuriteError("npm install --prefix .azurite azurite")
    with tempfile.TemporaryDirectory() as folder:
        azure = Azure(any_free_port())
        command = [program, "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        command += ["--location", folder, "--blobHost", "127.0.0.1"]
        process = subprocess.Popen([*command, "--blobPort", str(azure.target)])
        try:
            await_port(azure.target)
            with serving(type("Proxied", (Proxy,), {"azure": azure})) as azure.port:
                given = {"AZURE_STORAGE_CONNECTION_STRING": azure.connection_string}
                with patch.dict(os.environ, given):
                    AzureBlobFileSystem.clear_instance_cache()  # of those with others' keys
                    storage, container = open_storage(azure.url(""))
                    storage.filesystem.mkdir(container)
                    yield azure
        finally:
            process.terminate()
            process.wait()


def await_port(port: int) -> None:
    """Wait until somebody listens."""
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.05)
    raise TimeoutError(f"nobody listens at {port}")


class Proxy(Answers):
    """Passes requests on."""

    azure: ClassVar[Azure]

    def pass_on(self) -> None:
        """Send it to the stand-in, and its answer back."""
        self.azure.seen.append(f"{self.command} {self.path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        connection = HTTPConnection("127.0.0.1", self.azure.target)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        content = answer.read()
        start = parse_qs(urlsplit(self.path).query).get("startFrom")
        if start:
            content = NAMED.sub(
                lambda found: b"" if found[1].decode() < start[0] else found[0], content
            )
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, self.told(name, value))
        is_head = self.command == "HEAD"
        length = answer.getheader("Content-Length") or "0" if is_head else str(len(content))
        self.send_header("Content-Length", length)
        self.end_headers()
        if not is_head:
            self.wfile.write(content)
        connection.close()

    def told(self, name: str, value: str) -> str:
        """A header, or what takes its place."""
        said = self.azure.said_of_copies
        is_asked = name.lower() == "x-ms-copy-status" and self.command == "HEAD"
        return said.pop(0) if is_asked and said else value

    do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = pass_on
