"""Columns that became folders, as in `day=2026-01-31/`."""

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


def hive_folder(name: str, value: object) -> str:
    """A column and its value as a folder."""
    return f"{name.replace('/', '%2F')}={hive_value(value)}/"


def hive_value(value: object) -> str:
    """A value as a folder's name; what could leave the folder is percent-encoded."""
    from urllib.parse import quote

    text = NULL_FOLDER if value is None else str(value)
    return quote(text, safe=" +@:,") if text not in (".", "..") else text.replace(".", "%2E")


def folder_values(partition: str) -> dict[str, str | None]:
    """Columns and values in a file's folders, as text: what `hive_folder` made."""
    return {name: value_of(written) for name, written in folder_names(partition).items()}


def folder_names(partition: str) -> dict[str, str]:
    """Columns in a file's folders, and their values as they are written."""
    split = (folder.rpartition("=") for folder in partition.split("/") if folder)
    return {name.replace("%2F", "/"): written for name, _, written in split}


def value_of(written: str) -> str | None:
    """The value that a folder's name has, as text.

    Raises:
        ValueError: the text is no UTF-8.
    """
    from urllib.parse import unquote

    return None if written == NULL_FOLDER else unquote(written, errors="strict")
