"""Objects of S3, read and copied whole with a small part of the work that s3fs has for each.

What goes wrong here s3fs does again, whose retries and errors are those of every other call: this
only spares work.
"""

import errno
import json
import logging
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tasks.errors import InvalidSpec
from tasks.protocol.delta_options import delta_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from obstore.store import S3Credential, S3Store

logger = logging.getLogger(__name__)
T = TypeVar("T")
MOST_FAILURES, REST_SECONDS = 3, 60.0
"""After so many in a row s3fs does all for a while, as where only that finds the region."""
KNOWN = {"endpoint_url", "key", "secret", "token", "profile", "anon", "requester_pays"}
KNOWN |= {"client_kwargs", "use_listings_cache"}
KNOWN_OF_CLIENT = {"endpoint_url", "region_name", "verify"}
"""Options that mean the same here; with any other one s3fs does all."""
ASK_AGAIN = timedelta(minutes=5)
"""For keys that may change, as those of a role do."""
PATIENCE = {"connect_timeout": "5s", "timeout": "60s"}
RETRIES = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}


class Whole(NamedTuple):
    """An object."""

    data: bytes
    identity: str
    """As `Stat` has it."""


@dataclass
class Trust:
    """Whether something works, by how often it has failed."""

    failures: int = 0
    """In a row."""
    rests_until: float = 0.0

    @property
    def rests(self) -> bool:
        """Whether it is not to be tried now."""
        return time.monotonic() < self.rests_until

    def worked(self) -> None:
        """It did."""
        self.failures = 0

    def failed(self) -> bool:
        """It did not; whether that was once too often, for the first time."""
        self.failures += 1
        if self.failures >= MOST_FAILURES:
            self.rests_until = time.monotonic() + REST_SECONDS
        return self.failures == MOST_FAILURES


class QuickObjects:
    """The objects of one store, as long as that works."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.buckets: dict[str, S3Store] = {}
        self.lock = threading.Lock()
        self.trust = {"read": Trust(), "copied": Trust()}
        """By what is done with an object."""

    def read(self, path: str) -> Whole | None:
        """An object; None where it could not be had in this way.

        Raises:
            FileNotFoundError: there is none.
        """
        return self.attempt("read", path, whole)

    def copy(self, source: str, target: str) -> bool:
        """Copy an object within its bucket; False where it could not be done in this way.

        Raises:
            FileNotFoundError: there is none.
        """
        bucket, key = parts(target)
        if bucket != parts(source)[0]:
            return False
        return bool(self.attempt("copied", source, lambda store, old: copied(store, old, key)))

    def attempt(self, done: str, path: str, do: "Callable[[S3Store, str], T]") -> T | None:
        """What comes of doing something with an object; None where it failed.

        Args:
            done: what it is, as a participle.
            path: of the object.
            do: gets its bucket and its key.

        Raises:
            FileNotFoundError: there is no such object.
        """
        trust = self.trust[done]
        if trust.rests:
            return None
        bucket, key = parts(path)
        try:
            found = do(self.bucket(bucket), key)
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, "no such object", path) from error
        except Exception as error:  # of any kind: s3fs says it in its own way
            with self.lock:
                is_news = trust.failed()
            if is_news:
                said = str(error).partition("\n")[0]
                logger.warning("objects are %s in a slower way for a while: %s", done, said)
            return None
        trust.worked()
        return found

    def bucket(self, name: str) -> "S3Store":
        """A bucket; opened once, its connections stay open."""
        with self.lock:
            if name not in self.buckets:
                self.buckets[name] = open_bucket(name, self.options)
            return self.buckets[name]


def parts(path: str) -> tuple[str, str]:
    """Bucket and key, of a path with or without its scheme."""
    bucket, _, key = path.removeprefix("s3://").removeprefix("s3a://").partition("/")
    return bucket, key


def whole(store: "S3Store", key: str) -> Whole:
    """An object of a bucket."""
    import obstore

    found = obstore.get(store, key)
    return Whole(found.bytes().to_bytes(), (found.meta["e_tag"] or "").strip('"'))


def copied(store: "S3Store", source: str, target: str) -> bool:
    """Copy an object within a bucket, on the server."""
    import obstore

    obstore.copy(store, source, target)
    return True


def quick_objects(filesystem: Any) -> QuickObjects | None:
    """The objects of one of s3fs's filesystems; None where only that knows what is asked of it."""
    options = filesystem.storage_options
    if set(options) - KNOWN:
        return None
    if set(options.get("client_kwargs") or {}) - KNOWN_OF_CLIENT:
        return None
    return kept(json.dumps(options, sort_keys=True))


@lru_cache
def kept(options: str) -> QuickObjects | None:
    """The same for all reads of a process: connections stay open."""
    given = json.loads(options)
    try:
        store_options(given)
    except InvalidSpec:
        return None
    return QuickObjects(given)


def store_options(options: dict[str, Any]) -> dict[str, str]:
    """S3's options in the words of the library that reads quickly.

    Raises:
        InvalidSpec: there is no word for one.
    """
    rest = {name: value for name, value in options.items() if name != "profile"}
    return {name.lower(): value for name, value in delta_options(rest).items()}


def open_bucket(bucket: str, options: dict[str, Any]) -> "S3Store":
    """A bucket, with the keys and in the region that s3fs would take."""
    import botocore.session
    from obstore.store import S3Store

    session = botocore.session.Session(profile=options.get("profile"))
    config: Any = store_options(options)
    region = config.get("aws_region") or session.get_config_variable("region") or "us-east-1"
    client: Any = {**PATIENCE, "allow_http": config.get("aws_allow_http") == "true"}
    retries: Any = RETRIES
    has_own = options.get("anon") or options.get("key")
    return S3Store(
        bucket,
        config=config | {"aws_region": region},
        client_options=client,
        retry_config=retries,
        credential_provider=None if has_own else lambda: keys_of(session),
    )


def keys_of(session: Any) -> "S3Credential":
    """The keys that botocore finds, wherever they come from.

    Raises:
        PermissionError: it finds none.
    """
    found = session.get_credentials()
    if found is None:
        raise PermissionError("no credentials are found")
    keys = found.get_frozen_credentials()
    return {
        "access_key_id": keys.access_key,
        "secret_access_key": keys.secret_key,
        "token": keys.token,
        "expires_at": datetime.now(UTC) + ASK_AGAIN,
    }
