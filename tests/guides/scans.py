"""Handwritten digits as rows of an input."""

from typing import Any

from tests.kinds.digits import digits, unseen


def scans() -> list[dict[str, Any]]:
    """Digits that no model was trained on, with what they show."""
    shown = digits()[1][-len(unseen()) :]
    return [
        {"scan": at, "label": str(label), "pixels": pixels.tolist()}
        for at, (label, pixels) in enumerate(zip(shown, unseen(), strict=True))
    ]
