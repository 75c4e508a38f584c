"""Changes a field of a spec as the command line says: `--set field.subfield=value`."""

import re
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.secret_names import HIDDEN, SECRET, shown_at
from tasks.spec_reading.yaml import parse_yaml

PLACE = re.compile(r"-?\d{1,9}", re.ASCII)
"""An item of a list; from its end, where it is negative."""


def set_field(raw: dict[str, Any], override: str) -> None:
    """Apply one `a.b=value`; list items by number, as in steps.0.column=x.

    Raises:
        InvalidSpec: there is no such place in the spec, or the value is not YAML.
    """
    name, equals, value = override.partition("=")
    given = f"{name}{equals}{HIDDEN}" if SECRET.search(name) else override
    *parents, last = parts = name.split(".")
    if not equals or not all(parts):
        raise InvalidSpec.at("--set", given, 'must be "field.subfield=value"')
    try:
        found = parse_yaml(value)
    except ValueError as error:
        # PyYAML's words have a piece of it.
        problem = "is not YAML: put it in quotes" if SECRET.search(name) else str(error)
        raise InvalidSpec.at("--set", given, problem) from error
    at: Any = raw
    try:
        for number, part in enumerate(parents):
            at = section(at, key_in(at, part, parents[:number]))
        at[key_in(at, last, parents)] = found
    except ValueError as error:
        raise InvalidSpec.at("--set", given, f"does not fit the spec: {error}") from error


def key_in(at: Any, part: str, before: list[str]) -> Any:
    """What a part of a field's name stands for, in a list or among fields.

    Args:
        at: what the parts before it lead to.
        part: of the name.
        before: those.

    Raises:
        ValueError: nothing; says why.
    """
    name = ".".join(before)
    if isinstance(at, list):
        if not PLACE.fullmatch(part):
            raise ValueError(f"{name} is a list: name an item by its number, as in {name}.0")
        if not -len(at) <= int(part) < len(at):
            raise ValueError(f"there is no item {part} in {name}, which has {len(at)}, from 0 on")
        return int(part)
    if not isinstance(at, dict):
        raise ValueError(f"{name} is {shown_at(before, at)}, which has no fields")
    if part.isdigit():
        raise ValueError(f"there is no item {part}" + (f" in {name}" if name else ""))
    return part


def section(at: Any, key: Any) -> Any:
    """A part of the spec; an empty one where it is left out, as by comments only."""
    if isinstance(at, dict) and at.get(key) is None:
        at[key] = {}
    return at[key]
