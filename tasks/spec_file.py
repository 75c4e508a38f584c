"""Reads a spec: a YAML file and overrides; says all that is wrong in one message."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.likest import likest
from tasks.kinds.secret_names import shown_at
from tasks.spec import BatchInferenceSpec
from tasks.spec_reading.names import kind_meant, kinds_at, way_to_field
from tasks.spec_reading.overrides import set_field
from tasks.spec_reading.paths import resolve_paths
from tasks.spec_reading.text import text_of
from tasks.spec_reading.words import NOT_WRITTEN, PATTERNS, Written, as_read, in_words, text_wanted
from tasks.spec_reading.yaml import parse_yaml

MEMBER_OF_UNION = re.compile(
    r"(str|int|float|bool|constrained-\w+|(literal|list|dict|nullable)\[.*\])"
)
"""How pydantic ends the path to a field that may be of several types: no field's name."""
LIST_IN_UNION = re.compile(r"list\[.*\]")
"""How it goes on to a value of a list where the field may be something else: no field's name."""

NOT_ALLOWED = " is not allowed: "
LONGEST_PROBLEM = 2_000
"""Characters that are said of what is wrong with one field."""


def load_spec(path: str | Path, overrides: list[str] | None = None) -> BatchInferenceSpec:
    """Read a YAML file; its relative paths are relative to it.

    Args:
        path: the file.
        overrides: `field.subfield=value` pairs, values in YAML.

    Raises:
        InvalidSpec: the file is missing, is not YAML, or does not fit; one message with all
            that is wrong.
    """
    file = Path(path)
    try:
        text = text_of(file)
        raw = parse_yaml(text)
    except ValueError as error:
        raise InvalidSpec.at("SPEC", str(path), str(error)) from error
    if not isinstance(raw, dict):
        raise InvalidSpec.at("SPEC", str(path), "must contain fields: source, model, sink, ...")
    return complete_spec(raw, overrides or [], file.resolve().parent, text)


def complete_spec(
    raw: dict[str, Any], overrides: list[str], folder: Path, text: str = ""
) -> BatchInferenceSpec:
    """A spec from a file's content.

    Args:
        raw: the content.
        overrides: `field.subfield=value` pairs, values in YAML.
        folder: what relative paths are relative to.
        text: the file, to show what was written there.

    Raises:
        InvalidSpec: one message with all that is wrong.
    """
    raw = written_out(raw)
    for override in overrides:
        set_field(raw, override)
    # A part of which every line is commented out says nothing; a name is no part.
    raw = {field: part for field, part in raw.items() if part is not None or field == "name"}
    return parse_spec(resolve_paths(raw, folder), Written(text, overrides))


def parse_spec(raw: dict[str, Any], written: Written = NOT_WRITTEN) -> BatchInferenceSpec:
    """Validate; raise InvalidSpec with all that is wrong."""
    try:
        return BatchInferenceSpec.model_validate(raw)
    except ValidationError as error:
        problems = (explain(each, written) for each in of_the_type_meant(error.errors()))
        raise InvalidSpec("\n".join(told_once(problems))) from None
    except ValueError as error:  # pydantic's own, of a number of thousands of digits
        raise InvalidSpec(f"a value of the spec cannot be read: {error}") from error


def of_the_type_meant(errors: list[Any]) -> Iterator[Any]:
    """Pydantic's errors; of a list that may be a text too, those of its items and no other.

    Args:
        errors: for a field that may be of several types, those of each.
    """
    lists = {each["loc"][:at] for each in errors for at in places_of_lists(each["loc"])}
    for each in errors:
        if not (isinstance(each["input"], list) and each["loc"][:-1] in lists):
            yield each


def places_of_lists(loc: tuple[int | str, ...]) -> Iterator[int]:
    """Where an error's path goes on to an item of a list in a field that may be something else."""
    for at, part in enumerate(loc[:-1]):
        if LIST_IN_UNION.fullmatch(str(part)):
            yield at


def told_once(problems: Iterable[str]) -> Iterator[str]:
    """Problems, with one line for a value that is of none of the types which a field may have."""
    ways: dict[str, list[str]] = {}
    for problem in problems:
        given, _, way = problem[:LONGEST_PROBLEM].partition(NOT_ALLOWED)
        ways.setdefault(given, []).append(way)
    for given, each in ways.items():
        way = "; or: ".join(dict.fromkeys(filter(None, each)))
        yield f"{given}{NOT_ALLOWED}{way}" if way else given


def explain(error: Any, written: Written) -> str:
    """One of pydantic's errors as field, what was given, and what is allowed."""
    parts = [str(part) for part in error["loc"]]
    if not parts and error["type"] == "value_error":
        return str(error["ctx"]["error"])  # a rule that binds several fields names them itself
    # pydantic puts the variant's tag into the path: ("source", "parquet", "path").
    tag_at = 2 if parts[:1] in (["steps"], ["gates"]) else 1
    kinds = ("source", "steps", "model", "sink", "cluster", "gates")
    if len(parts) > tag_at and parts[0] in kinds:
        del parts[tag_at]
    if parts and MEMBER_OF_UNION.fullmatch(parts[-1]):
        del parts[-1]
    parts = [part for part in parts if not LIST_IN_UNION.fullmatch(part)]
    field, given = ".".join(parts), as_read(parts, error["input"])
    match error["type"]:
        case "missing":
            return f"{field}: is missing; add it"
        case "extra_forbidden":
            hint = way_to_field(error["loc"], field)
            return f"{field}: {given} is given, but there is no such field{hint}"
        case "union_tag_invalid":
            tag = error["ctx"]["tag"]
            hint = kind_meant(error["loc"], str(tag))
            return f"{field}.kind: {shown_at([], tag)} is not one of {kinds_listed(error)}{hint}"
        case "union_tag_not_found":
            name = likest("kind", map(str, error["input"]))
            hint = f"; did you mean kind instead of {name}?" if name else ""
            return f"{field}.kind: is missing; say which kind: {kinds_listed(error)}{hint}"
        case "model_attributes_type":
            return f"{field}: {given}{NOT_ALLOWED}it must have fields{fields_meant(error)}"
        case "list_type":
            way_out = "it must be a list, in brackets or with a dash before each item"
            return f"{field}: {given}{NOT_ALLOWED}{way_out}"
        case "secret":
            return f"{field}: {error['msg']}"  # the value is not for anybody's eyes
        case "value_error":
            return explain_rule(field, given, error)
    return f"{field}: {given}{NOT_ALLOWED}{way_out_of(error, parts, written)}"


def fields_meant(error: Any) -> str:
    """How to write a part that is of a kind, where there is only a word in its place."""
    kinds = kinds_at(error["loc"])
    if not kinds:
        return ""
    kind = error["input"] if error["input"] in kinds else kinds[0]
    return f", as in {{kind: {kind}}}" if kind == "inline" else f", as in {{kind: {kind}, ...}}"


def kinds_listed(error: Any) -> str:
    """The kinds that a part may be of."""
    return ", ".join(map(repr, kinds_at(error["loc"])))


def way_out_of(error: Any, parts: list[str], written: Written) -> str:
    """What is allowed where another value or another type was given."""
    found: str | None = None
    if error["type"] == "string_type":
        found = text_wanted(parts, error["input"], written)
    elif error["type"] == "string_pattern_mismatch":
        found = PATTERNS.get(error["ctx"]["pattern"])
    return found or in_words(error) or str(error["msg"])


def explain_rule(field: str, given: str, error: Any) -> str:
    """A rule of ours that is broken; some name the field themselves, with what was given."""
    problem = str(error["ctx"]["error"])
    if problem.startswith(f"{field}."):
        return problem
    if isinstance(error["input"], dict):  # all of a part's fields: too much to repeat
        return f"{field}: {problem}"
    if problem.startswith(f"{given} "):
        return f"{field}: {problem}"
    return f"{field}: {given}{NOT_ALLOWED}{problem}"


def written_out(value: Any) -> Any:
    """A copy in which what an anchor has brought to several places is each place's own."""
    if isinstance(value, dict):
        return {name: written_out(each) for name, each in value.items()}
    return [written_out(each) for each in value] if isinstance(value, list) else value
