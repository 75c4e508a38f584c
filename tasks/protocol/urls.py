"""URLs of storages as people write them: which are refused, and why."""

import re

from fsspec.registry import known_implementations, registry

ANONYMOUS = re.compile(r"^(s3a?://)anonymous@")
KEYED = re.compile(r"^s3a?://[^/]*:[^/]*@")
ROOT = re.compile(r"^((file|local)://)?(/\.{0,2})+$")
SCHEME_ALONE = re.compile(r"^\w+:/+$")
ACCOUNT = re.compile(r"^((?:abfss?|az)://[^/@]+)@([^/.]+)\.[^/]+")
GOOGLES_OTHER = re.compile(r"^gcs://")
NO_BUCKET = re.compile(r"^(s3a?|gs|abfss?|az)://(/|$)")
VERSION = re.compile(r"^s3a?://.*\?versionId=|^(abfss?|az)://.*\?versionid=")
NUMBERED = re.compile(r"^gs://.*(#|\?generation=)\d+$")
RELATIVE = re.compile(r"^(file|local)://(?![/~])")


def refuse_misread(url: str) -> None:
    """Refuse a URL that other tools read otherwise than fsspec does.

    Raises:
        ValueError: says what to write.
    """
    scheme, is_url, _ = url.partition("://")
    if is_url and scheme.isalnum() and scheme != scheme.lower():
        raise ValueError(f"a URL scheme is lower case: write {scheme.lower()}://")
    if ANONYMOUS.match(url):
        plain = ANONYMOUS.sub(r"\1", url)
        raise ValueError(f"without credentials it is {plain}, storage_options: {{anon: true}}")
    if KEYED.match(url):
        raise ValueError(
            "contains a user's key, which a path may not: S3 keys come from the environment or "
            "AWS's files"
        )
    if GOOGLES_OTHER.match(url):  # which deltalake does not know
        raise ValueError(f"write {GOOGLES_OTHER.sub('gs://', url)}")
    if RELATIVE.match(url):  # to the folder of whichever process opens it
        raise ValueError("a file URL needs an absolute path, such as file:///data/x")
    if found := NO_BUCKET.match(url):
        raise ValueError(f"has no bucket: write {found[1]}://bucket/folder")
    if found := ACCOUNT.match(url):  # the ledger is opened by another client, from the rest alone
        plain = f"{found[1]}{url[found.end() :]}"
        raise ValueError(
            f"contains an account: write {plain}, storage_options: {{account_name: {found[2]}}}"
        )
    if VERSION.match(url):  # s3fs looks at that version, and lists and reads the newest
        raise ValueError(
            "names a version of an object, but the newest would be read: copy that version to "
            "its own key"
        )
    if NUMBERED.match(url):
        raise ValueError("ends in a number that gcsfs reads as a version: rename it")
    if "\0" in url:
        raise ValueError("a path cannot contain a NUL character")
    inner = url.rpartition("::")[2].partition("://")[0]
    # fsspec takes one letter for a drive of Windows.
    if is_url and len(inner) > 1 and inner not in {*known_implementations, *registry}:
        raise ValueError(
            f"no storage is known for {inner}://: use s3://, gs://, abfs://, a file at https://, "
            "or a path on a disk"
        )


def is_web(url: str) -> bool:
    """Whether a URL is of a file behind a web server."""
    return url.startswith(("http://", "https://"))


def is_path(url: str) -> bool:
    """Whether a URL leads to this machine's disk."""
    return "://" not in url or url.startswith(("file://", "local://"))


def as_folder(url: str) -> str:
    """A folder that files are to be put into, without the slash at its end.

    Raises:
        ValueError: nothing can be put there.
    """
    if is_web(url):
        raise ValueError(
            "a web server does not accept files: use a folder on a disk or in an object store"
        )
    if ROOT.match(url):
        raise ValueError("is the root of this machine's files: use a folder in it")
    if SCHEME_ALONE.match(url):
        return url  # for opening it to tell what is missing
    folder = re.sub(r"(/\.?)+$", "", url) or url
    if folder.rpartition("/")[2] == "..":
        raise ValueError("ends in .., so a path beside it cannot be named: write the folder itself")
    refuse_unresolved(folder)
    return folder


def refuse_unresolved(url: str) -> None:
    """Refuse a store's folder that fsspec takes at its word and deltalake resolves, or refuses.

    Raises:
        ValueError: it is one; rows and ledger would lie apart.
    """
    scheme, is_url, path = url.partition("://")
    parts = path.split("/")[1:] if is_url and scheme not in ("file", "local") else []
    if wrong := next((part for part in parts if part in (".", "..")), None):
        raise ValueError(f"has the part {wrong} in it: write the path without it")
    if "" in parts:
        raise ValueError("has two slashes in a row: write one")
