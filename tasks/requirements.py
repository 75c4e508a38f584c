"""Requirements of a spec as pip reads them, which is called on nodes where only they are."""

import os
import re

from packaging.requirements import InvalidRequirement, Requirement

COMMENT = re.compile(r"(^|\s+)#.*$")
OF_FILES = re.compile(
    r"^(-[rcef]|--(requirement|constraint|editable|find-links))(\s*=\s*|\s*)(?P<place>.*)$"
)
"""Options that name a file or folder."""
ARCHIVES = (".whl", ".zip", ".tar.gz", ".tar.bz2")
OPTIONS = re.compile(r"\s--\w.*$")
"""What may follow a requirement, as its hashes do."""


def refuse_entry(entry: str) -> None:
    """Refuse what pip can make nothing of, wherever it is called.

    Args:
        entry: of `environment.pip`: a requirement, or an option, as a line of a requirements file.

    Raises:
        ValueError: says what is wrong, and what to write.
    """
    for line in entry.replace("\\\n", " ").splitlines():
        refuse_line(COMMENT.sub("", line).strip())


def refuse_line(line: str) -> None:
    """Refuse one line of an entry."""
    option = OF_FILES.match(line)
    if not line or (line.startswith("-") and not option):
        return
    place = option["place"] if option else line
    # pip fills in ${NAME}, of the node's environment.
    if "://" in place or "$" in place or os.path.isabs(place):
        return
    if option or "/" in place or place.startswith(".") or place.lower().endswith(ARCHIVES):
        raise ValueError(
            f"{line!r} is a relative path on this machine, which no node of a cluster has: list "
            "the lines of a requirements file here as entries; give a package as a URL, or as an "
            "absolute path that every node can read"
        )
    try:
        Requirement(OPTIONS.sub("", line))
    except InvalidRequirement as error:
        raise ValueError(
            f"{line!r} is not a requirement that pip can read: write name, name==1.2 or "
            "name>=1.2,<2, or name @ https://host/file.whl"
        ) from error
