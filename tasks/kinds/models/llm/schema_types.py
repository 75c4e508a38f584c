"""Which column the values of a JSON schema can be: its type in Arrow."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Never

import pyarrow as pa

Schema = dict[str, Any]
PLAIN = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
}
KIND_OF: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
}
"""What values of an `enum` are, where no type is said."""
CHOICES = ("anyOf", "oneOf", "allOf")
OWN_PARTS = {"properties", "items"}
"""With these a schema says itself what values are, and by CHOICES what must hold besides."""
MOST_PARTS = 10_000
"""Of a schema whose references are gone: it is read again and again."""
DEFINITIONS = {"$defs", "definitions"}
REFERENCES = ("$ref", "$dynamicRef")
WORDS = {"title", "description", "default", "examples"}
"""What a schema says to people beside a reference, in place of what is said where that leads."""
ONE_TYPE = (
    "give it one type, or one type and null: string, integer, number, boolean, array with items, "
    "object with properties"
)


@dataclass(frozen=True)
class Part:
    """A part of a schema, and where it lies."""

    schema: Any
    root: Schema
    """Where references lead."""
    path: str = ""
    """As in `.items[].price`."""
    references: tuple[str, ...] = ()
    """Those that lead here."""

    def column_type(self) -> pa.DataType:
        """Of a column of values that fit.

        Raises:
            ValueError: there is none; says where, and the way out.
        """
        found = set(self.types())
        if found == {pa.int64(), pa.float64()}:
            return pa.float64()
        if len(found) != 1:
            self.refuse(f"{'may be of several types' if found else 'has no type'}: {ONE_TYPE}")
        return found.pop()

    def types(self) -> Iterator[pa.DataType]:
        """Those that values may have, but for null; errors as `column_type`."""
        if not isinstance(self.schema, dict):
            self.refuse(f"does not describe its values: {ONE_TYPE}")
        if "$ref" in self.schema:
            yield from self.referred(self.schema["$ref"]).types()
            return
        for word in () if self.schema.keys() & OWN_PARTS else CHOICES:
            if word in self.schema:
                for each in self.schema[word]:
                    yield from replace(self, schema=each).types()
                return
        for kind in self.kinds():
            if kind != "null":
                yield self.type_of(kind)

    def kinds(self) -> list[str]:
        """Names of types, as the schema has them or as its words imply."""
        said = self.schema.get("type")
        if said is not None:
            return list(said) if isinstance(said, list) else [said]
        for word, kind in (("properties", "object"), ("items", "array")):
            if word in self.schema:
                return [kind]
        values = self.schema.get("enum", [self.schema["const"]] if "const" in self.schema else [])
        return [KIND_OF.get(type(each), "") for each in values]

    def type_of(self, kind: str) -> pa.DataType:
        """The type of one kind of values; errors as `column_type`."""
        if kind in PLAIN:
            return PLAIN[kind]
        if kind == "array" and "items" in self.schema:
            return pa.list_(self.within(self.schema["items"], "[]").column_type())
        if kind == "object" and self.schema.get("properties"):
            return pa.struct(self.fields())
        self.refuse(f"has values that a column cannot hold: {ONE_TYPE}")

    def fields(self) -> list[pa.Field]:
        """Those of an object; errors as `column_type`."""
        return [
            pa.field(name, self.within(each, f".{name}").column_type())
            for name, each in self.schema["properties"].items()
        ]

    def within(self, schema: Any, step: str) -> "Part":
        """A part of this one."""
        return replace(self, schema=schema, path=self.path + step)

    def referred(self, reference: str) -> "Part":
        """What a reference leads to; errors as `column_type`."""
        if reference in self.references:
            self.refuse(
                f"contains itself, through {reference}: write it out to the depth of the values"
            )
        found: Any = self.root
        for name in reference.removeprefix("#").split("/")[1:]:
            name = name.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        if not reference.startswith("#") or found is None:
            self.refuse(f"refers to {reference}, which is not in this schema: use #/$defs/NAME")
        return replace(self, schema=found, references=(*self.references, reference))

    def refuse(self, problem: str) -> Never:
        """Say what is wrong, and where."""
        raise ValueError(f"{self.path.removeprefix('.') or 'it'} {problem}")


def without_references(schema: Schema) -> Schema:
    """A schema that says the same, with what its references lead to in their places.

    Prefect takes each "$ref" among a flow's parameters for one to a block of its own.

    Raises:
        ValueError: a reference leads nowhere, or to what holds it, or to too much.
    """
    kept = {word: each for word, each in schema.items() if word not in DEFINITIONS}
    found: Schema = in_place(Part(kept, schema), count())
    return found


def with_plain_schemas(value: Any) -> Any:
    """What may hold schemas, with each that defines parts as `without_references` makes it."""
    if isinstance(value, list):
        return [with_plain_schemas(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() & DEFINITIONS:
        return without_references(value)
    return {name: with_plain_schemas(each) for name, each in value.items()}


def in_place(part: Part, parts: Iterator[int]) -> Any:
    """The same of a part; `parts` counts them."""
    schema = part.schema
    if isinstance(schema, list):
        return [in_place(part.within(each, "[]"), parts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if next(parts) >= MOST_PARTS:
        raise ValueError(
            f"has more than {MOST_PARTS:,} parts with references expanded: leave out what no "
            "answer needs"
        )
    for word in REFERENCES:
        if isinstance(schema.get(word), str):  # else it is a property of that name
            others = {name: each for name, each in schema.items() if name != word}
            beside = in_place(replace(part, schema=others), parts)
            found = in_place(part.referred(schema[word]), parts)
            if isinstance(found, dict) and not (found.keys() & beside.keys()) - WORDS:
                return {**found, **beside}
            return {**beside, "allOf": [*beside.get("allOf", []), found]}
    return {name: in_place(part.within(each, f".{name}"), parts) for name, each in schema.items()}
