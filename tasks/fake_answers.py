"""Answers that nobody has thought of: values that fit a JSON schema, for a fake model."""

from typing import Any

import numpy as np

from tasks.kinds.models.llm.schema_types import CHOICES, OWN_PARTS, Part, Schema

SPAN = 100
"""Of numbers, from the least to the greatest, where the schema does not say it."""


def made_up(schema: Schema, seed: int) -> Any:
    """A value that fits a schema: the same for the same seed.

    Types, `enum`, `const`, bounds of numbers and lengths of arrays are kept to; what else a schema
    may ask of a value, such as a `pattern`, is not.
    """
    return value_of(Part(schema, schema), np.random.default_rng(seed))


def value_of(part: Part, random: np.random.Generator) -> Any:
    """A value that fits a part of a schema."""
    schema = part.schema
    if "$ref" in schema:
        return value_of(part.referred(schema["$ref"]), random)
    for word in () if schema.keys() & OWN_PARTS else CHOICES:
        if word in schema:
            variants = [each for each in schema[word] if each.get("type") != "null"]
            return value_of(part.within(variants[0], ""), random)
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if choices:
        return choices[random.integers(len(choices))]
    kind = next(each for each in part.kinds() if each != "null")
    if kind == "object":
        properties = schema["properties"].items()
        return {name: value_of(part.within(each, name), random) for name, each in properties}
    if kind == "array":
        least = schema.get("minItems", 1)
        length = random.integers(least, schema.get("maxItems", least + 2) + 1)
        return [value_of(part.within(schema["items"], "[]"), random) for _ in range(length)]
    return plain(kind, schema, random)


def plain(kind: str, schema: Schema, random: np.random.Generator) -> Any:
    """A text, number or truth value."""
    if kind == "string":
        return f"fake-{random.integers(1 << 32):08x}"
    if kind == "boolean":
        return bool(random.integers(2))
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    high = schema.get("maximum", schema.get("exclusiveMaximum", low + SPAN + 1) - 1)
    low = min(low, high)
    drawn = low + random.random() * (high - low)
    return round(drawn) if kind == "integer" else float(drawn)
