"""Says what of a JSON object does not fit the types of others, as deep within as it lies."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tasks.kinds.sources.doubles import TOO_LARGE

VALUES_LOOKED_AT = 100
"""Of a list, for the one that does not fit."""
CHARACTERS_SHOWN = 100


@dataclass(frozen=True)
class Misfits:
    """Finds what does not fit."""

    problem_of: Callable[[Any, pa.DataType], str | None]
    """Why a value is none of a type; None where it is one."""
    ignores_others: bool
    """Whether keys are let be that the types have not."""
    first_rows: str
    """What the types are from, for messages."""

    def in_object(
        self, found: dict[str, Any], fields: Iterable[pa.Field], inside: str = ""
    ) -> str | None:
        """The first key that is new or whose value does not fit; None where all do.

        Args:
            found: the object.
            fields: that it may have.
            inside: what it lies in, as `price.`, for messages.
        """
        types = {each.name: each.type for each in fields}
        for key, value in found.items():
            name = f"{inside}{key}"
            if key not in types:
                if not self.ignores_others:
                    return self.new_key(name, is_within=bool(inside))
            elif problem := self.problem_of(value, types[key]):
                deeper = self.within(value, types[key], name)
                wanted = types[key]
                way_out = "" if inside else as_number(name, value, wanted)
                return deeper or f"{does_not_fit(name, value, wanted, problem)}{way_out}"
        return None

    def within(self, value: Any, wanted: pa.DataType, name: str) -> str | None:
        """What does not fit in an object, or in one of a list's; None where it is neither."""
        if isinstance(value, list) and pa.types.is_list(wanted):
            kind = wanted.value_type
            for at, each in enumerate(value[:VALUES_LOOKED_AT]):
                if self.problem_of(each, kind):
                    return self.within(each, kind, f"{name}[{at}]")
        if isinstance(value, dict) and pa.types.is_struct(wanted):
            return self.in_object(value, wanted, f"{name}.")
        return None

    def new_key(self, name: str, *, is_within: bool) -> str:
        """What to do about a key that the first rows have not."""
        type_it = (
            "give its type in source.types (with --replace-output if rows without it are "
            "published), or "
        )
        return (
            f"the key {name!r} is in none of {self.first_rows}; {type_it * (not is_within)}set "
            "source.columns to the keys to read, and all others are "
            f"ignored{', also inside these' * is_within}"
        )


def does_not_fit(name: str, value: Any, wanted: pa.DataType, problem: str) -> str:
    """What a key's value is, and is not."""
    given = json.dumps(value)[:CHARACTERS_SHOWN]
    if problem == TOO_LARGE:
        return f"{name!r} is {given}, a value that is too large for a double"
    way_out = "; source.types with float64 reads it rounded" * is_beyond(value)
    return f"{name!r} is {given}, which does not fit its type {wanted}{way_out}"


def as_number(name: str, value: Any, wanted: pa.DataType) -> str:
    """How a number is taken where the first rows have words, or whole numbers alone."""
    is_number = type(value) in (int, float) and not is_beyond(value)
    may_be = is_number and wanted in (pa.string(), pa.int64())
    return f"; set source.types: {{{name}: float64}}" * may_be


def is_beyond(value: Any) -> bool:
    """Whether a value is a whole number that no type of 64 bits holds."""
    return isinstance(value, int) and not -(2**63) <= value < 2**64
