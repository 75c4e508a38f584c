"""Whether the places that a spec names can be reached, found out with a request or two."""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from itertools import chain
from pathlib import Path

from tasks.errors import BatchInferenceError, InputNotFound, InvalidSpec, Unreachable
from tasks.kinds.extras import require
from tasks.kinds.first_line import first_line
from tasks.kinds.mistaken_paths import mistake_in
from tasks.kinds.sinks.sink import Sink
from tasks.kinds.sources.input_names import glob_in
from tasks.kinds.sources.listing import MEND, glob_meant, nothing_there
from tasks.kinds.sources.source import Source
from tasks.protocol.asked_at_once import asked_at_once
from tasks.protocol.storage import FsspecStorage, open_storage

Opener = Callable[[str], tuple[FsspecStorage, str]]
LAST_PART = re.compile(r"/[^/]*$")
BUCKET = re.compile(r"(s3a?|gs|abfss?|az)://[^/]+")
NOWHERE = "which does not exist (is a disk not mounted?)"
WHOLE_BUCKET = re.compile(r"(s3a?|gc?s|abfss?|az|oss|oci|tos)://[^/]+/*")
GOOGLES, AZURES = ("gcsfs", "google"), ("adlfs", "azure")
PACKAGES = {"gs": GOOGLES, "abfs": AZURES, "abfss": AZURES, "az": AZURES}
"""What opens URLs of other schemes than S3's, and the extra of this project that brings it."""


def check_source(source: Source) -> None:
    """See that something lies at each path, without listing a folder, and can be read here.

    Raises:
        InvalidSpec: a package is missing, or the bucket, whatever `on_empty` says.
        InputNotFound: nothing does, and `on_empty` is `fail`.
        Unreachable: the storage does not answer.
    """
    source.check()
    opener = cache(source.opened)
    for place in chain(source.paths, map(folder_of, source.paths)):
        with suppress(Exception):  # who looks there says what is wrong
            opener(place)  # in this thread: each of the others would make a client of its own

    def has_something(url: str) -> bool:
        return any(is_there("source", opener, each) for each in (url, folder_of(url)))

    plain = partial(open_storage, storage_options=source.storage_options)
    for url, there in zip(source.paths, asked_at_once(has_something, source.paths), strict=True):
        if not there:
            refuse_no_bucket("source.path", plain, url)
        if not there and source.on_empty == "fail":
            hint = "" if source.holds == "row" else mistake_in(url)
            way_out = f"; it {hint}" if hint else glob_meant(source, url)
            problem = f"{link_to_nothing(url) or nothing_there(source)}{way_out}"
            raise InputNotFound.at("source.path", url, problem)


def check_sink(sink: Sink, kept: str | None = None) -> None:
    """See that the storage answers and takes rows; nothing needs to lie there yet.

    Args:
        sink: where rows go.
        kept: where they are kept between two jobs, where that is a place of its own.

    Raises:
        InvalidSpec: what lies there is not for this sink, it is a whole bucket or in one that is
            not there, or a package is missing.
        Unreachable: it does not.
    """
    refuse_whole_bucket(sink.path)
    opener = partial(open_storage, storage_options=sink.storage_options)
    if not is_there("sink", opener, sink.path):
        refuse_no_bucket("sink.path", opener, sink.path)
    for folder in (sink.path, f"{sink.path}.state"):
        refuse_unwritable("sink.path", opener, folder)
    try:
        sink.check()
    except BatchInferenceError:
        raise
    except Exception as error:
        problem = f"cannot be reached: {first_line(error)}"
        raise Unreachable(f"sink: {sink.path!r} {problem}") from error
    if kept is not None:
        if not is_there("sink", opener, kept, "stages.preprocess"):
            refuse_no_bucket("stages.preprocess.path", opener, kept)
        refuse_unwritable("stages.preprocess.path", opener, kept)


def refuse_whole_bucket(url: str) -> None:
    """See that there is room for the state beside an output.

    Raises:
        InvalidSpec: it would be in a bucket of its own.
    """
    if WHOLE_BUCKET.fullmatch(url):
        problem = (
            "is a whole bucket, and its state would be another bucket: use a folder in it, such as "
        )
        raise InvalidSpec.at("sink.path", url, f"{problem}{url.rstrip('/')}/predictions")


def refuse_no_bucket(field: str, opener: Opener, url: str) -> None:
    """See that a store's bucket is there, which no write makes, as it makes a folder.

    Raises:
        InvalidSpec: it is not.
    """
    bucket = BUCKET.match(url)
    if bucket is None:
        return
    storage, name = opener(bucket[0])
    try:
        storage.filesystem.info(name)
    except FileNotFoundError as error:
        problem = f"is in the bucket {name!r}, which does not exist: create it, or use another"
        raise InvalidSpec.at(field, url, problem) from error
    except Exception:  # who may write to a bucket may still not be told of it
        return


def refuse_unwritable(field: str, opener: Opener, url: str) -> None:
    """See that a folder of this machine can be made, and takes files; leave nothing there.

    Raises:
        InvalidSpec: a file is in the way, a link that leads nowhere, or what is not there.
        Unreachable: this user may not write there, or nobody.
    """
    storage, path = opener(url)
    if not storage.is_local:
        return
    there = next(
        folder for folder in (path, *map(str, Path(path).parents)) if os.path.lexists(folder)
    )
    if ".." in path.removeprefix(there).split("/"):  # a write would make what it leads up from
        problem = "goes up from a folder that does not exist: write the path without .."
        raise InvalidSpec.at(field, url, problem)
    if not os.path.isdir(there):
        what = "a file" if os.path.exists(there) else f"a link to {os.readlink(there)}, {NOWHERE}"
        problem = f"is {what}" if there == path else f"cannot be created, since {there!r} is {what}"
        raise InvalidSpec.at(field, url, f"{problem}; give a folder, which need not exist yet")
    if not os.access(there, os.W_OK | os.X_OK):
        problem = f"this user may not write to {there!r}; allow it"
        if os.statvfs(there).f_flag & os.ST_RDONLY:
            problem = f"the disk of {there!r} is read-only; mount it writable"
        problem = f"cannot be written to: {problem}, or use another folder"
        raise Unreachable(f"{field}: {url!r} {problem}")


def link_to_nothing(url: str) -> str:
    """What to tell of a path of this machine that is a link and leads nowhere; else nothing."""
    path = os.path.expanduser(url).removeprefix("file://").rstrip("/")
    is_one = os.path.islink(path) and not os.path.exists(path)
    return f"is a link to {os.readlink(path)}, {NOWHERE}; {MEND}" if is_one else ""


def folder_of(url: str) -> str:
    """The part of a path before its first glob; of one without a glob, all of it."""
    special = glob_in(url)
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
    field, is_local = f"{of or section}.path", False
    try:
        storage, path = open_at(field, opener, url)
        is_local = storage.is_local
        storage.filesystem.info(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except InvalidSpec:
        raise
    except Exception as error:
        if isinstance(error, TypeError) and "unexpected keyword argument" in str(error):
            problem = f"is not for the storage of {url!r}: {first_line(error)}"
            raise InvalidSpec(f"{section}.storage_options: one {problem}") from error
        way_out = "allow this user to read it"
        if not is_local:
            way_out = f"check {section}.storage_options, the credentials in the environment, and "
            way_out += "the network"
        said = f"cannot be reached: {first_line(error)}; {way_out}"
        raise Unreachable(f"{field}: {url!r} {said}") from error
    return True


def open_at(field: str, opener: Opener, url: str) -> tuple[FsspecStorage, str]:
    """The storage that a field's path leads to, and the path on it.

    Raises:
        InvalidSpec: no storage is known for the path, or its package is missing.
        Exception: some storages are asked as soon as they are opened, and do not answer.
    """
    if package := PACKAGES.get(url.partition("://")[0]):
        require(field, url, *package)
    try:
        return opener(url)
    except (ValueError, ImportError) as error:
        raise InvalidSpec.at(field, url, f"cannot be opened: {error}") from error
