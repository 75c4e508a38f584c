"""Objects of S3, read and copied whole with a small part of the work that s3fs has for each.

What goes wrong here s3fs does again, whose retries and errors are those of every other call: this
only spares work.
"""

import logging
import os
import re
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from tasks.protocol.object_stat import Whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from obstore.store import S3Credential, S3Store

logger = logging.getLogger(__name__)
T = TypeVar("T")
MOST_FAILURES, REST_SECONDS = 3, 60.0
"""After so many in a row s3fs does all for a while, as where only that finds the region."""
LARGEST_BYTES = 32 << 20
"""Of an object to read: s3fs fetches larger ones in several parts at once."""
KNOWN = {"endpoint_url", "key", "secret", "token", "profile", "anon", "requester_pays"}
KNOWN |= {"client_kwargs", "use_listings_cache"}
KNOWN_OF_CLIENT = {"endpoint_url", "region_name", "verify"}
"""Options that mean the same here; with any other one s3fs does all."""
OF_ITS_OWN = re.compile(
    "AWS_(ENDPOINT|VIRTUAL_HOSTED_STYLE_REQUEST|S3_EXPRESS|SKIP_SIGNATURE|REQUEST_PAYER|"
    "SERVER_SIDE_ENCRYPTION|SSE_.*|UNSIGNED_PAYLOAD)",
    re.IGNORECASE,
)
"""Variables that say something to `obstore`, and nothing to s3fs."""
OTHER_BUCKETS = re.compile(r"arn:|.*--x-s3$")
"""Names that stand for other addresses than a bucket's."""
ASK_AGAIN = timedelta(minutes=5)
"""For keys that may change, as those of a role do."""
PATIENCE = {"connect_timeout": "5s", "read_timeout": "15s", "timeout": "10m"}
RETRIES = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}


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
    """The objects that one of s3fs's filesystems leads to, as long as that works.

    For none of them its word is the last: that one is not there is for s3fs to say, too.
    """

    def __init__(self, filesystem: Any) -> None:
        self.filesystem = filesystem
        self.buckets: dict[str, S3Store] = {}
        self.lock = threading.Lock()
        self.process = os.getpid()
        self.trust = {"read": Trust(), "copied": Trust()}
        """By what is done with an object."""

    def read(self, path: str) -> Whole | None:
        """An object; None where it could not be had in this way."""
        return self.attempt("read", path, whole)

    def copy(self, source: str, target: str) -> bool:
        """Copy an object within its bucket; False where it could not be done in this way."""
        place = parts(target)
        if place is None or place[0] != (parts(source) or ("",))[0]:
            return False
        key = place[1]
        return bool(self.attempt("copied", source, lambda store, old: copied(store, old, key)))

    def attempt(self, done: str, path: str, do: "Callable[[S3Store, str], T]") -> T | None:
        """What comes of doing something with an object; None where it failed.

        Args:
            done: what it is, as a participle.
            path: of the object.
            do: gets its bucket and its key.
        """
        trust, place = self.trust[done], parts(path)
        # The threads below are not there in the child of a fork.
        if trust.rests or place is None or self.process != os.getpid():
            return None
        bucket, key = place
        try:
            found = do(self.bucket(bucket), key)
        except FileNotFoundError:
            return None
        except Exception as error:  # of any kind: s3fs says it in its own way
            with self.lock:
                is_news = trust.failed()
            if is_news:
                said = str(error).partition("\n")[0]
                logger.warning("objects are %s more slowly for a while: %s", done, said)
            return None
        trust.worked()
        return found

    def bucket(self, name: str) -> "S3Store":
        """A bucket; opened once, its connections stay open."""
        with self.lock:
            if name not in self.buckets:
                self.buckets[name] = open_bucket(name, self.filesystem)
            return self.buckets[name]


def parts(path: str) -> tuple[str, str] | None:
    """Bucket and key, of a path with or without its scheme; None where they mean more than that.

    A slash at a key's beginning or end is left out by what reads it.
    """
    bucket, _, key = path.removeprefix("s3://").removeprefix("s3a://").partition("/")
    is_plain = key and key == key.strip("/") and not OTHER_BUCKETS.match(bucket)
    return (bucket, key) if is_plain else None


def whole(store: "S3Store", key: str) -> Whole | None:
    """An object of a bucket; None where it is too large."""
    import obstore

    found = obstore.get(store, key)
    if found.meta["size"] > LARGEST_BYTES:
        return None
    return Whole(found.bytes().to_bytes(), (found.meta["e_tag"] or "").strip('"'))


def copied(store: "S3Store", source: str, target: str) -> bool:
    """Copy an object within a bucket, on the server."""
    import obstore

    obstore.copy(store, source, target)
    return True


MADE: WeakKeyDictionary[Any, QuickObjects | None] = WeakKeyDictionary()
"""By filesystem, of which fsspec keeps one for the same options: connections stay open."""


def quick_objects(filesystem: Any) -> QuickObjects | None:
    """The objects of one of s3fs's filesystems; None where only that knows what is asked of it."""
    if filesystem not in MADE:
        MADE[filesystem] = QuickObjects(filesystem) if is_understood(filesystem) else None
    return MADE[filesystem]


def is_understood(filesystem: Any) -> bool:
    """Whether all that is said of the store means the same here."""
    options = filesystem.storage_options
    client = options.get("client_kwargs") or {}
    return (
        not set(options) - KNOWN
        and not set(client) - KNOWN_OF_CLIENT
        and not isinstance(client.get("verify"), str)
        and not any(map(OF_ITS_OWN.fullmatch, os.environ))
    )


def open_bucket(bucket: str, filesystem: Any) -> "S3Store":
    """A bucket where s3fs's client would look for it, with the keys that it would take."""
    from obstore.store import S3Store

    options, client = filesystem.storage_options, filesystem.s3.meta
    verify = (options.get("client_kwargs") or {}).get("verify")
    config: Any = {
        "endpoint": client.endpoint_url.rstrip("/"),
        "region": client.region_name,
        "virtual_hosted_style_request": False,
        "skip_signature": bool(options.get("anon")),
        "request_payer": bool(options.get("requester_pays")),
    }
    http: Any = {
        **PATIENCE,
        "allow_http": client.endpoint_url.startswith("http://"),
        "allow_invalid_certificates": verify is False,
    }
    retries: Any = RETRIES
    return S3Store(
        bucket,
        config=config,
        client_options=http,
        retry_config=retries,
        credential_provider=None if options.get("anon") else keys_for(options),
    )


def keys_for(options: dict[str, Any]) -> "Callable[[], S3Credential]":
    """What gives the keys that s3fs takes, wherever they come from."""
    import botocore.session

    session = botocore.session.Session(profile=options.get("profile"))
    if options.get("key"):
        session.set_credentials(options["key"], options.get("secret"), options.get("token"))
    return lambda: keys_of(session)


def keys_of(session: Any) -> "S3Credential":
    """The keys that botocore finds, wherever they come from.

    Raises:
        PermissionError: it finds none.
    """
    found = session.get_credentials()
    if found is None:
        raise PermissionError("no credentials found")
    keys = found.get_frozen_credentials()
    return {
        "access_key_id": keys.access_key,
        "secret_access_key": keys.secret_key,
        "token": keys.token,
        "expires_at": datetime.now(UTC) + ASK_AGAIN,
    }
