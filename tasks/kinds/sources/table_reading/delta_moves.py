"""Which files a commit of a Delta table put in the place of which, by what its log says of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tasks.kinds.sources.table_reading.version import TableFile


@dataclass(frozen=True)
class Files:
    """Those of a commit's files that were there before it, or are since."""

    listed: tuple[TableFile, ...]

    def files(self) -> list[TableFile]:
        """As a version of the table has them."""
        return [*self.listed]


def moves_rows(actions: list[dict[str, Any]]) -> bool:
    """Whether a commit put rows into other files, and changed none."""
    files = [each[name] for each in actions for name in ("add", "remove") if name in each]
    return bool(files) and not any(file.get("dataChange", True) for file in files)


def told_of_files(
    actions: list[dict[str, Any]], path_of: Callable[[str], str]
) -> tuple[Files, Files] | None:
    """Files that a commit took away and those that it added; None where the log does not tell.

    So it is of a file's size, which writers may leave out, and of rows that a vector marks.

    Args:
        actions: of the commit.
        path_of: the storage's path of a file, by what the log says.
    """
    found: dict[str, list[TableFile]] = {"remove": [], "add": []}
    for name, files in found.items():
        for file in (each[name] for each in actions if name in each):
            if file.get("size") is None or file.get("deletionVector"):
                return None
            path, size = path_of(unquote(file["path"])), int(file["size"])
            files.append(TableFile(path, str(size), size, None))
    return Files(tuple(found["remove"])), Files(tuple(found["add"]))
