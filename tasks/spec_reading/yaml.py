"""Reads YAML that anybody may have written: in a moment, or not at all."""

from typing import Any

import yaml

MOST_VALUES = 100_000
"""In a spec with all its aliases written out; a few lines can say billions."""
ERRORS = (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError)
"""PyYAML passes on what Python says of dates, numbers and truth values that are none."""
NO_FILE = 'in "<unicode string>", line'
"""What PyYAML says of a text's place, as if it knew no file."""
QUOTES = "text that begins with { or [, or has a colon before a space, must be in quotes"
WAYS_OUT = {
    r"found character '\t'": "indent with spaces, not with tabs",
    "another document": "a spec is one document: keep one, without --- between two",
    "constructor for the tag": "tags such as !!python are not read: write plain values",
}
"""By words of what PyYAML says; of all else `QUOTES` is likely."""
MERGE = "tag:yaml.org,2002:merge"
"""What PyYAML takes the key `<<` for; of several, all are merged."""


class KeyTwice(Exception):
    """A mapping has a key twice."""


class Loader(yaml.SafeLoader):
    """PyYAML's, which would take the last of a key's two values without a word."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        """A mapping as it is written, before `<<` puts other keys into it.

        Raises:
            KeyTwice: a key is written twice; says in which lines.
        """
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE:
                continue
            name, line = (key.tag, key.value), key.start_mark.line + 1
            if name in lines:
                where = f"in line {lines[name]} and in line {line}"
                raise KeyTwice(f"has {key.value!r} twice, {where}: keep one of them")
            lines[name] = line
        return node


def parse_yaml(text: str) -> Any:
    """What a text says.

    Raises:
        ValueError: it is not YAML, has a key twice, holds itself, or says too much.
    """
    try:
        found = yaml.load(text, Loader)
        count = values_in(found, {})
    except RecursionError as error:
        raise ValueError("is nested too deeply, or contains itself") from error
    except KeyTwice as error:
        raise ValueError(str(error)) from error
    except ERRORS as error:
        said = str(error).replace(NO_FILE, "in line")
        hint = ""
        if isinstance(error, yaml.MarkedYAMLError):
            found = (way_out for words, way_out in WAYS_OUT.items() if words in said)
            hint = f"\n({next(found, QUOTES)})"
        raise ValueError(f"is not YAML: {said}{hint}") from error
    if count > MOST_VALUES:
        raise ValueError(f"has {count:,} values; at most {MOST_VALUES:,} are read")
    return found


def values_in(value: Any, known: dict[int, int]) -> int:
    """How many values there are in one, as if it were written out."""
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in known:
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(values_in(each, known) for each in inner)
    return known[id(value)]
