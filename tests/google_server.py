"""Google's object store on loopback, as far as gcsfs and deltalake ask for it.

Nobody offers one that both can ask: gcsfs speaks to its JSON interface, deltalake to its XML one.
As there, an object has a new generation whenever it is written, and may be written on condition
that there is none.
"""

import hashlib
import json
import os
import re
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar
from unittest.mock import patch
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.object_stores import Answers, serving

TOKEN = "/token"
PAGE = 4
"""Objects in an answer; a thousand there."""
OBJECT = re.compile(r"/(?:download/)?storage/v1/b/(?P<bucket>[^/]+)/o/(?P<key>[^/]+)")
REWRITE = re.compile(OBJECT.pattern + r"/rewriteTo/b/(?P<bucket_to>[^/]+)/o/(?P<key_to>[^/]+)")
BUCKET = re.compile(r"/storage/v1/b/(?P<bucket>[^/]+)")
LISTING = re.compile(BUCKET.pattern + "/o")
UPLOAD = re.compile(r"/upload/storage/v1/b/(?P<bucket>[^/]+)/o")
XML = re.compile(r"/(?P<bucket>[^/]+)(?:/(?P<key>.*))?")


@dataclass(frozen=True)
class Object:
    """What is stored under a key."""

    key: str
    data: bytes
    generation: int
    written: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def etag(self) -> str:
        """Of the XML interface."""
        return f'"{hashlib.md5(self.data).hexdigest()}"'

    def as_json(self, bucket: str) -> dict[str, Any]:
        """Its resource."""
        when = self.written.isoformat().replace("+00:00", "Z")
        return {
            "kind": "storage#object",
            "name": self.key,
            "bucket": bucket,
            "generation": str(self.generation),
            "size": str(len(self.data)),
            "md5Hash": b64encode(hashlib.md5(self.data).digest()).decode(),
            "etag": f"e{self.generation}",
            "updated": when,
            "timeCreated": when,
        }

    def as_xml(self) -> str:
        """Its line of a listing."""
        return (
            f"<Contents><Key>{escape(self.key)}</Key><Generation>{self.generation}</Generation>"
            f"<LastModified>{self.written.isoformat().replace('+00:00', 'Z')}</LastModified>"
            f"<ETag>{escape(self.etag)}</ETag><Size>{len(self.data)}</Size></Contents>"
        )


@dataclass
class Google:
    """The store, with one bucket."""

    port: int = 0
    bucket: str = "batches"
    objects: dict[str, dict[str, Object]] = field(default_factory=dict)
    """By bucket and key."""
    seen: list[str] = field(default_factory=list)
    """Methods and paths of requests."""
    forbidden: str = "nothing"
    """Keys in which that stands may be listed and not read."""
    account: dict[str, str] = field(default_factory=dict)
    """A key of whoever may ask."""
    written: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def storage_options(self) -> dict[str, str]:
        """What a source or sink needs to reach it."""
        return {"endpoint_url": self.endpoint_url}

    @property
    def endpoint_url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        """An object or folder in the bucket."""
        return f"gs://{self.bucket}/{path}"

    def put(self, bucket: str, key: str, data: bytes, *, only_new: bool = False) -> Object | None:
        """Store an object; None where it is to be new and is not."""
        with self.lock:
            if only_new and key in self.objects[bucket]:
                return None
            self.written += 1
            found = self.objects[bucket][key] = Object(key, data, self.written)
            return found


@contextmanager
def running_google() -> Iterator[Google]:
    """The store on a free port; who asks for its objects is in the environment meanwhile."""
    google = Google(objects={"batches": {}})
    served = serving(type("Served", (Store,), {"google": google}))
    with served as google.port, TemporaryDirectory() as folder:
        google.account = service_account(f"{google.endpoint_url}{TOKEN}")
        file = Path(folder) / "account.json"
        file.write_text(json.dumps(google.account))
        with patch.dict(os.environ, {"GOOGLE_APPLICATION_CREDENTIALS": str(file)}):
            yield google


def service_account(token_uri: str) -> dict[str, str]:
    """A key as Google's console gives it out, for an account that nobody has."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    return {
        "type": "service_account",
        "project_id": "batches",
        "private_key_id": "1",
        "private_key": text,
        "client_email": "batches@batches.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": token_uri,
    }


class Store(Answers):
    """Answers requests of both interfaces."""

    google: ClassVar[Google]

    def answer(self) -> None:
        """One request."""
        self.google.seen.append(f"{self.command} {self.path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = urlsplit(self.path)
        if asked.path == TOKEN:
            token = {"access_token": "known", "expires_in": 3600, "token_type": "Bearer"}
            return self.send_json(token)
        if not self.headers.get("Authorization", "").startswith("Bearer "):
            return self.send(401)
        query = {name: values[0] for name, values in parse_qs(asked.query).items()}
        for pattern, reply in (
            (REWRITE, self.rewrite),
            (OBJECT, self.of_object),
            (LISTING, self.listing),
            (UPLOAD, self.upload),
            (BUCKET, self.of_bucket),
            (XML, self.of_xml),
        ):
            if found := pattern.fullmatch(asked.path):
                names = {name: unquote(each or "") for name, each in found.groupdict().items()}
                if names["bucket"] not in self.google.objects:
                    return self.send(404)
                return reply(names, query, body)
        return self.send(501)

    def rewrite(self, names: dict[str, str], _query: dict[str, str], _body: bytes) -> None:
        """A copy within the store."""
        found = self.google.objects[names["bucket"]].get(names["key"])
        if found is None:
            return self.send(404)
        made = self.google.put(names["bucket_to"], names["key_to"], found.data)
        assert made
        return self.send_json({"done": True, "resource": made.as_json(names["bucket_to"])})

    def of_object(self, names: dict[str, str], query: dict[str, str], _body: bytes) -> None:
        """What an object is, or holds; or its end."""
        objects = self.google.objects[names["bucket"]]
        found = objects.get(names["key"])
        if found is None:
            return self.send(404)
        if self.command == "DELETE":
            objects.pop(names["key"], None)
            return self.send(204)
        if query.get("alt") == "media" or self.path.startswith("/download"):
            if self.google.forbidden in found.key:
                return self.send(403, b"batches does not have storage.objects.get access")
            return self.send_data(found)
        return self.send_json(found.as_json(names["bucket"]))

    def listing(self, names: dict[str, str], query: dict[str, str], _body: bytes) -> None:
        """Objects by prefix, and what is before a delimiter behind it."""
        found, folders, more = self.page(names["bucket"], query, query.get("pageToken", ""))
        answer: dict[str, Any] = {"kind": "storage#objects", "prefixes": folders}
        answer["nextPageToken"] = more
        answer["items"] = [each.as_json(names["bucket"]) for each in found]
        self.send_json({name: each for name, each in answer.items() if each})

    def found(self, bucket: str, query: dict[str, str]) -> tuple[list[Object], list[str]]:
        """The same, for either interface."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        with self.google.lock:
            objects = sorted(self.google.objects[bucket].items())
        after = query.get("start-after", "")
        found = [each for key, each in objects if key.startswith(prefix) and key > after]
        if not delimiter:
            return found, []
        deep = [each for each in found if delimiter in each.key[len(prefix) :]]
        folders = {each.key[: each.key.index(delimiter, len(prefix)) + 1] for each in deep}
        return [each for each in found if each not in deep], sorted(folders)

    def page(
        self, bucket: str, query: dict[str, str], after: str
    ) -> tuple[list[Object], list[str], str]:
        """A few of these, and the last one's key where there are more."""
        found, folders = self.found(bucket, query)
        left = [each for each in found if each.key > after]
        few = left[: min(PAGE, int(query.get("maxResults", PAGE)))]
        return few, [] if after else folders, few[-1].key if len(few) < len(left) else ""

    def upload(self, names: dict[str, str], query: dict[str, str], body: bytes) -> None:
        """An object whose name and content come in parts of one body."""
        assert query["uploadType"] == "multipart", query
        boundary = re.findall(r'boundary="?([^";]+)', self.headers["Content-Type"])[0].encode()
        _, said, content = body.split(b"--" + boundary, 2)
        content = content.partition(b"\n\n")[2][: -len(b"\n--" + boundary + b"--")]
        key = json.loads(said.partition(b"\n\n")[2])["name"]
        made = self.google.put(names["bucket"], key, content)
        assert made
        self.send_json(made.as_json(names["bucket"]))

    def of_bucket(self, names: dict[str, str], _query: dict[str, str], _body: bytes) -> None:
        """What a bucket is."""
        self.send_json({"kind": "storage#bucket", "name": names["bucket"]})

    def of_xml(self, names: dict[str, str], query: dict[str, str], body: bytes) -> None:
        """The interface that is like S3's."""
        bucket, key = names["bucket"], names["key"]
        if not key:
            found, folders, more = self.page(bucket, query, query.get("continuation-token", ""))
            lines = "".join(each.as_xml() for each in found)
            lines += "".join(
                f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>"
                for each in folders
            )
            if more:
                lines += "<IsTruncated>true</IsTruncated>"
                lines += f"<NextContinuationToken>{escape(more)}</NextContinuationToken>"
            text = f"<ListBucketResult><Name>{bucket}</Name>{lines}</ListBucketResult>"
            return self.send(200, text.encode(), {"Content-Type": "application/xml"})
        if self.command == "PUT":
            only_new = self.headers.get("x-goog-if-generation-match") == "0"
            made = self.google.put(bucket, key, body, only_new=only_new)
            return self.send(412) if made is None else self.send(200, b"", headers_of(made))
        there = self.google.objects[bucket].get(key)
        if there is None:
            return self.send(404)
        if self.command == "DELETE":
            self.google.objects[bucket].pop(key, None)
            return self.send(204)
        return self.send_data(there)

    def send_json(self, answer: dict[str, Any]) -> None:
        """An answer of the JSON interface."""
        self.send(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def send_data(self, found: Object) -> None:
        """An object's content, or the part of it that is asked for."""
        headers, data = headers_of(found), found.data
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if asked is None:
            return self.send(200, data, headers)
        first, last = int(asked[1]), min(int(asked[2] or len(data)), len(data) - 1)
        if first > last:
            return self.send(416)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        return self.send(206, data[first : last + 1], headers)

    def send(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        """An answer."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = answer


def headers_of(found: Object) -> dict[str, str]:
    """What either interface says of an object beside its content."""
    return {
        "ETag": found.etag,
        "x-goog-generation": str(found.generation),
        "Last-Modified": found.written.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "Content-Type": "application/octet-stream",
    }
