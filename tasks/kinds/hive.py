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
    from urllib.parse import unquote

    values: dict[str, str | None] = {}
    for folder in filter(None, partition.split("/")):
        name, _, value = folder.rpartition("=")
        values[name.replace("%2F", "/")] = None if value == NULL_FOLDER else unquote(value)
    return values
