"""What is wrong with a value, in words that say what to write, where pydantic's own do not."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import yaml

from tasks.kinds.likest import did_you_mean
from tasks.kinds.secret_names import HIDDEN, shown_at
from tasks.kinds.sources.csv_reading.files import ONE_CHARACTER
from tasks.kinds.steps.step import NEW_COLUMN
from tasks.spec_reading.yaml import Loader

READ_AS: dict[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    date: "a date",
    datetime: "a time",
}
"""What YAML takes words for that stand in no quotes."""
PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": "it may contain A to Z, a to z, 0 to 9 and, "
    "after the first character, . _ -",
    r"^[,;|\t~^]$": "it must be one of , ; | ~ ^ or a tab",
    r"^[^{}]+$": "it may not contain braces, since nothing is filled in there",
    r"^https?://[^/\s]+": "it must be a URL, such as https://ray.example.com:8265",
    r"^[^.]+(\.[^.]+)+$": "it must be namespace.name, such as analytics.predictions",
    ONE_CHARACTER: "it must be one character, such as ; or |",
    NEW_COLUMN: "give a name; those that begin with __ are reserved",
}
"""Regular expressions of fields in words."""
WHOLE, NUMBER, TRUTH = (
    "it must be a whole number",
    "it must be a number",
    "it must be true or false",
)
EMPTY = "it must not be empty"
IN_WORDS = {
    "int_parsing": WHOLE,
    "int_type": WHOLE,
    "int_from_float": WHOLE,
    "float_parsing": NUMBER,
    "float_type": NUMBER,
    "bool_parsing": TRUTH,
    "bool_type": TRUTH,
    "literal_error": "it must be {expected}",
    "string_too_short": EMPTY,
    "too_short": EMPTY,
    "string_type": "it must be text",
    "dict_type": "it must be names with values, as in {{name: value}}",
    "model_type": "it must have fields",
    "greater_than_equal": "it must be at least {ge:g}",
    "greater_than": "it must be more than {gt:g}",
    "less_than_equal": "it must be at most {le:g}",
    "less_than": "it must be less than {lt:g}",
}
"""What is allowed, by pydantic's types of errors; braces have what it says of the field."""


@dataclass(frozen=True)
class Written:
    """A spec as somebody has written it, before YAML has made values of the words."""

    text: str = ""
    """Of its file."""
    overrides: Sequence[str] = ()

    def in_quotes(self, parts: list[str], value: Any) -> str:
        """How to write a value that is to be text.

        Args:
            parts: of the path to it.
            value: what YAML has made of it.
        """
        for override in reversed(self.overrides):
            name, _, text = override.partition("=")
            if name == ".".join(parts):
                return f"--set '{name}={quoted(parts, value, text)}'"
        word = self.word_at(parts)
        before = f"{parts[-1]}: " if parts[-1].isidentifier() else ""
        return before + quoted(parts, value, str(value).lower() if word is None else word)

    def word_at(self, parts: list[str]) -> str | None:
        """What the file has in a place; None where that comes from somewhere else."""
        node = yaml.compose(self.text, Loader)
        for part in parts:
            inner: dict[str, yaml.Node] = {}
            if isinstance(node, yaml.MappingNode):
                inner = {str(key.value): each for key, each in node.value}
            elif isinstance(node, yaml.SequenceNode):
                inner = {str(number): each for number, each in enumerate(node.value)}
            node = inner.get(part)
        if isinstance(node, yaml.MappingNode):  # {text}, which a template may be
            return self.text[node.start_mark.index : node.end_mark.index]
        return node.value if isinstance(node, yaml.ScalarNode) else None


NOT_WRITTEN = Written()
WORD = re.compile(r"'([^']+)'")


def in_words(error: Any) -> str | None:
    """What is allowed in a field; None where pydantic's own words are to do."""
    words = IN_WORDS.get(error["type"])
    if words is None:
        return None
    ctx = error.get("ctx", {})
    choices = WORD.findall(ctx.get("expected", ""))
    return words.format(**ctx) + did_you_mean(str(error["input"]), choices)


def quoted(parts: list[str], value: Any, text: str) -> str:
    """A word in quotes, unless it may be a secret, or there is none."""
    is_shown = text.strip() and value is not None and shown_at(parts, value) != HIDDEN
    return f'"{text.strip()}"' if is_shown else '"..."'


def as_read(parts: list[str], value: Any) -> str:
    """What was given, as `shown_at` has it; dates as people write them."""
    given = shown_at(parts, value)
    return str(value) if isinstance(value, date) and given != HIDDEN else given


def text_wanted(parts: list[str], value: Any, written: Written) -> str | None:
    """What to write where YAML has not read text; None where it is no word that was read."""
    if value is None:
        return f"it has no value; give it one: {written.in_quotes(parts, value)}"
    kind = READ_AS.get(type(value))
    if isinstance(value, dict) and [*value.values()] == [None]:
        kind = "a field, for its braces"
    if kind is None:
        return None
    way_out = f"put it in quotes: {written.in_quotes(parts, value)}"
    return f"it must be text, but YAML reads this as {kind}: {way_out}"
