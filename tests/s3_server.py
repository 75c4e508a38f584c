"""An S3 server on loopback."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from unittest.mock import patch

from tasks.protocol.storage import open_storage

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass(frozen=True)
class S3:
    """An S3 server on loopback with one bucket."""

    endpoint_url: str
    bucket: str

    @property
    def storage_options(self) -> dict[str, str]:
        """What a source or sink needs to reach it."""
        return {"endpoint_url": self.endpoint_url}

    def url(self, path: str) -> str:
        """An object or folder in the bucket."""
        return f"s3://{self.bucket}/{path}"


@contextmanager
def running_s3() -> Iterator[S3]:
    """Moto's S3 on a free port; its credentials are in the environment meanwhile."""
    from botocore.loaders import JSONFileLoader
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else it tells of each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    # Each client at another address reads anew, for a fifth of a second, what AWS's services take.
    read_once = cache(JSONFileLoader().load_file)
    reading = patch.object(JSONFileLoader, "load_file", lambda _, path: read_once(path))
    with reading, patch.dict(os.environ, CREDENTIALS):
        server.start()
        host, port = server.get_host_and_port()
        started = S3(f"http://{host}:{port}", "batches")
        storage, bucket = open_storage(started.url(""), started.storage_options)
        storage.filesystem.mkdir(bucket)
        yield started
        server.stop()
