"""Reads YAML that anybody may have written: in a moment, or not at all."""

from typing import Any

import yaml

MOST_VALUES = 100_000
"""In a spec with all its aliases written out; a few lines can say billions."""
ERRORS = (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError)
"""PyYAML passes on what Python says of dates, numbers and truth values that are none."""


def parse_yaml(text: str) -> Any:
    """What a text says.

    Raises:
        ValueError: it is not YAML, holds itself, or says too much.
    """
    try:
        found = yaml.safe_load(text)
        count = values_in(found, {})
    except RecursionError as error:
        raise ValueError("is nested too deep, or within itself") from error
    except ERRORS as error:
        raise ValueError(f"is not YAML: {error}") from error
    if count > MOST_VALUES:
        raise ValueError(f"says {count:,} values; at most {MOST_VALUES:,} are read")
    return found


def values_in(value: Any, known: dict[int, int]) -> int:
    """How many values there are in one, as if it were written out."""
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in known:
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(values_in(each, known) for each in inner)
    return known[id(value)]
