"""Chat templates that write the date: that of the row's run, in place of today's."""

import re
from datetime import datetime
from functools import lru_cache
from typing import Any

import pyarrow as pa

from tasks.protocol.batch import PLANNED_ON

TODAY = re.compile(r"""strftime_now\(\s*(["'])(.*?)\1\s*\)""")
"""How a template asks for today's date, in a format. It gets no function of ours: transformers
hands templates nothing but plain data."""


def days_of(rows: pa.Table) -> list[str | None]:
    """Day on which the run of each row was planned; None of rows that are no job's."""
    if PLANNED_ON not in rows.column_names:
        return [None] * len(rows)
    days: list[str | None] = rows[PLANNED_ON].to_pylist()
    return days


def dated_template(tokenizer: Any, tools: Any, day: str | None) -> str | None:
    """The tokenizer's template as of a day; None where it writes no date, or the day is unknown.

    Else the prompts of a run would change at midnight, and those of its next attempt.

    Args:
        tokenizer: any; of those that have no template, None.
        tools: what the model may call, for which some have another template.
        day: as in `2026-11-30`.
    """
    if day is None or getattr(tokenizer, "chat_template", None) is None:
        return None
    template = tokenizer.get_chat_template(tools=tools)
    return as_of(template, day) if TODAY.search(template) else None


@lru_cache
def as_of(template: str, day: str) -> str:
    """A template with the date of a day."""
    date = datetime.fromisoformat(day)
    return TODAY.sub(lambda found: repr(date.strftime(found[2])), template)
