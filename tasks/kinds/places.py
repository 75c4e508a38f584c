"""Whether the places that a spec names can be reached, found out with a request or two."""

import re
from collections.abc import Callable
from functools import partial

from tasks.errors import BatchInferenceError, InputNotFound, InvalidSpec, Unreachable
from tasks.kinds.sinks.sink import Sink
from tasks.kinds.sources.listing import GLOB, nothing_there
from tasks.kinds.sources.source import Source
from tasks.protocol.storage import FsspecStorage, open_storage

Opener = Callable[[str], tuple[FsspecStorage, str]]
LAST_PART = re.compile(r"/[^/]*$")


def check_source(source: Source) -> None:
    """See that something lies at each path, without listing a folder, and can be read here.

    Raises:
        InvalidSpec: a package is missing.
        InputNotFound: nothing does, and `on_empty` is `fail`.
        Unreachable: the storage does not answer.
    """
    source.check()
    for url in source.paths:
        there = any(is_there("source", source.opened, each) for each in (url, folder_of(url)))
        if not there and source.on_empty == "fail":
            raise InputNotFound.at("source.path", url, nothing_there(source, 0))


def check_sink(sink: Sink, kept: str | None = None) -> None:
    """See that the storage answers and takes rows; nothing needs to lie there yet.

    Args:
        sink: where rows go.
        kept: where they are kept between two jobs, where that is a place of its own.

    Raises:
        InvalidSpec: what lies there is not for this sink, or a package is missing.
        Unreachable: it does not.
    """
    opener = partial(open_storage, storage_options=sink.storage_options)
    is_there("sink", opener, sink.path)
    try:
        sink.check()
    except BatchInferenceError:
        raise
    except Exception as error:
        raise Unreachable(f"sink: {sink.path!r} cannot be reached: {error}") from error
    if kept is not None:
        is_there("sink", opener, kept, "stages.preprocess")


def folder_of(url: str) -> str:
    """The part of a path before its first glob; of one without a glob, all of it."""
    special = GLOB.search(url)
    return LAST_PART.sub("", url[: special.start()]) if special else url


def is_there(section: str, opener: Opener, url: str, of: str | None = None) -> bool:
    """Whether something lies at a path.

    Args:
        section: part of the spec that has the storage's options.
        opener: opens the storage.
        url: the path.
        of: part of the spec that has the path, where that is another one.

    Raises:
        InvalidSpec: no storage is known for the path, or it says itself what is wrong.
        Unreachable: the storage does not answer; names the spec's section.
    """
    field = f"{of or section}.path"
    try:
        storage, path = opener(url)
    except (ValueError, ImportError) as error:
        raise InvalidSpec.at(field, url, f"cannot be opened: {error}") from error
    try:
        storage.filesystem.info(path)
    except FileNotFoundError:
        return False
    except InvalidSpec:
        raise
    except Exception as error:
        raise Unreachable(
            f"{field}: {url!r} cannot be reached: {error}; see {section}.storage_options, "
            "the credentials in the environment, and the network"
        ) from error
    return True
