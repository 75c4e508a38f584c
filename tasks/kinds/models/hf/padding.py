"""Which models see padding: what a text gets must not depend on how long the texts beside it are.

Padding stands after a text, unless the text is to be gone on from: no token changes its place for
it, and models that read from left to right come to it too late.
"""

from typing import Any

READS_PADDING = (
    *("canine", "convbert", "fnet", "funnel", "mobilebert", "nystromformer", "reformer", "yoso"),
)
"""Types of models that take padding for a part of the text, whatever the mask says."""


def reads_padding(model: Any) -> bool:
    """Whether a model is to be given texts of the same length only."""
    summary = getattr(model, "sequence_summary", None)
    of_the_end = summary is not None and summary.summary_type != "first"  # as XLNet's
    return of_the_end or model.config.model_type in READS_PADDING
