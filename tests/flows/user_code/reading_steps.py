"""A step for lines of text."""

from typing import Any


def lengths(rows: dict[str, Any]) -> dict[str, Any]:
    """Each line as a number: how long it is."""
    sizes = [len(text) for text in rows["text"]]
    return {"id": sizes, "x": [float(size) for size in sizes]}
