"""URLs of what a run reads and writes: one that names a place, one that a browser opens."""

import os
from urllib.parse import quote, urlencode

from tasks.kinds.places import folder_of
from tasks.kinds.sinks.sink import Sink
from tasks.kinds.sources.source import Source
from tasks.protocol.storage import FsspecStorage, open_storage
from tasks.reporting.redaction import hide_credentials

S3_CONSOLE = "https://console.aws.amazon.com/s3/buckets"
ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")


def source_urls(source: Source) -> list[str]:
    """Where the rows come from, each place once; of a glob, the folder that it looks below."""
    opened = (source.opened(folder_of(path)) for path in source.paths)
    return list(dict.fromkeys(url_on(storage, place) for storage, place in opened))


def sink_url(sink: Sink) -> str:
    """Where the rows go."""
    return url_on(*open_storage(sink.path, sink.storage_options))


def url_on(storage: FsspecStorage, place: str) -> str:
    """A place as a URL without a user's name or password; the same however its path is written."""
    return str(hide_credentials(storage.filesystem.unstrip_protocol(place)))


def named_on(storage: FsspecStorage, place: str) -> str:
    """A place as a spec would name it: a path on this machine, or a URL."""
    return place if storage.is_local else url_on(storage, place)


def sink_page(sink: Sink) -> str:
    """What a browser opens: AWS's console for a folder on its S3, else the sink's own URL.

    No browser opens s3:// or, from a server's page, file://; but they can be copied.
    """
    storage, _ = open_storage(sink.path, sink.storage_options)
    url = sink_url(sink)
    if not url.startswith("s3://") or has_endpoint(storage):
        return quote(url, safe=":/")
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    return f"{S3_CONSOLE}/{quote(bucket)}?{urlencode({'prefix': f'{prefix}/'})}"


def has_endpoint(storage: FsspecStorage) -> bool:
    """Whether an S3 storage is somebody else's than AWS's."""
    return any([storage.store, *map(os.environ.get, ENDPOINT_VARIABLES)])
