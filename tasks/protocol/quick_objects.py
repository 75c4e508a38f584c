"""Small objects of S3, read whole with a small part of the work that s3fs has for each.

What goes wrong here s3fs does again, whose retries and errors are those of every other call: this
only spares work.
"""

import json
import threading
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tasks.errors import InvalidSpec
from tasks.protocol.delta_options import delta_options
from tasks.protocol.object_stat import Stat
from tasks.protocol.storage import FsspecStorage

if TYPE_CHECKING:
    from obstore.store import S3Credential, S3Store

LARGEST_BYTES = 32 << 20
"""Of an object: s3fs fetches larger ones in several parts at once."""
MOST_FAILURES = 3
"""In a row: then all is left to s3fs, as where only that finds the bucket's region."""
KNOWN = {"endpoint_url", "key", "secret", "token", "profile", "anon", "requester_pays"}
KNOWN |= {"client_kwargs", "use_listings_cache"}
KNOWN_OF_CLIENT = {"endpoint_url", "region_name", "verify"}
"""Options that mean the same here; with any other one s3fs reads all."""
ASK_AGAIN = timedelta(minutes=5)
"""For keys that may change, as those of a role do."""
PATIENCE = {"connect_timeout": "5s", "timeout": "60s"}
RETRIES = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}


class FetchedObject(FsspecStorage):
    """A storage of which one object is here already."""

    def __init__(self, storage: FsspecStorage, stat: Stat, data: bytes) -> None:
        super().__init__(storage.filesystem)
        self.fetched, self.data = stat, data

    def read(self, path: str) -> bytes:
        """Return the object's bytes."""
        return self.data if path == self.fetched.path else super().read(path)

    def stat(self, path: str) -> Stat | None:
        """What was at `path` when it was fetched."""
        return self.fetched if path == self.fetched.path else super().stat(path)


class QuickObjects:
    """Reads objects of one store, as long as that works."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.stores: dict[str, S3Store] = {}
        self.lock = threading.Lock()
        self.failures = 0

    def fetched(self, storage: FsspecStorage, stat: Stat) -> FsspecStorage:
        """The storage, with the object where it could be had and is the one that is wanted.

        Args:
            storage: where it lies.
            stat: path, size and identity of the object, as it was listed.
        """
        if self.failures >= MOST_FAILURES or stat.size > LARGEST_BYTES:
            return storage
        try:
            data = self.read(stat)
        except FileNotFoundError:
            return storage
        except Exception as error:  # of any kind: s3fs says it in its own way
            self.fail(error)
            return storage
        self.failures = 0
        return storage if data is None else FetchedObject(storage, stat, data)

    def read(self, stat: Stat) -> bytes | None:
        """An object's bytes; None where it is another one by now."""
        import obstore

        bucket, _, key = stat.path.partition("/")
        with self.lock:
            if bucket not in self.stores:
                self.stores[bucket] = open_bucket(bucket, self.options)
        found = obstore.get(self.stores[bucket], key)
        is_wanted = (found.meta["e_tag"] or "").strip('"') == stat.identity
        return found.bytes().to_bytes() if is_wanted else None

    def fail(self, error: Exception) -> None:
        """Count a failure; say so where it was the last one."""
        with self.lock:
            self.failures += 1
            is_last = self.failures == MOST_FAILURES
        if is_last:
            said = str(error).partition("\n")[0]
            print(f"objects are read one by one in a slower way, for: {said}", flush=True)


def quick_objects(storage: FsspecStorage) -> QuickObjects | None:
    """What reads a storage's small objects; None where only fsspec can."""
    filesystem = storage.filesystem
    options = filesystem.storage_options
    if not storage.has_pages or set(options) - KNOWN:
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
