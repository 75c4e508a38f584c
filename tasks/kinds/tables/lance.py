"""Opens Lance datasets."""

from typing import Any

from tasks.protocol.delta_options import delta_options, lance_url


def open_lance(url: str, storage_options: dict[str, Any], version: int | str | None) -> Any:
    """A Lance dataset, at its newest version or another.

    Args:
        url: local path or object store's URL.
        storage_options: as fsspec takes them.
        version: to be opened, or its tag.

    Raises:
        FileNotFoundError: there is no dataset.
        LookupError: it has no such version, or not any more.
        ConnectionError: the storage does not answer.
    """
    import lance

    try:
        options = lance_options(url, storage_options)
        return lance.dataset(lance_url(url), version=version, storage_options=options)
    except (ValueError, OSError) as error:  # which of them a failing storage is, differs
        if not any(words in str(error) for words in ("was not found", "does not exist")):
            raise ConnectionError(str(error)) from error
        if version is None:
            raise FileNotFoundError(url) from error
        raise LookupError(str(error)) from error


def lance_options(url: str, storage_options: dict[str, Any]) -> dict[str, str]:
    """Fsspec's options as Lance takes them: the same Rust crate as Delta's, in lower case."""
    return {name.lower(): value for name, value in delta_options(url, storage_options).items()}


def transaction_of(dataset: Any, version: int) -> Any:
    """What made a version of a dataset; None where nothing tells.

    Lance 14 makes no object of a compaction that has moved an index along: it gives fewer
    arguments than its own class asks for.

    Raises:
        OSError, ValueError: the version was cleaned away.
    """
    from lance import LanceOperation

    making = LanceOperation.RewrittenIndex.__init__
    if making.__defaults__ is None:
        making.__defaults__ = ("", b"", 0)
    return dataset.read_transaction(version)
