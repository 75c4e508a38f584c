"""Which fields the parts of a spec have, for whoever has misspelt one."""

from collections.abc import Collection, Iterator
from functools import cache
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tasks.kinds.likest import did_you_mean, likest
from tasks.spec import BatchInferenceSpec
from tasks.spec_reading.other_names import FIELDS, KINDS

Part = type[BaseModel]

SCHEDULES = "; set schedules in the deployment: see deployments/README.md"
ELSEWHERE = {
    "schedule": SCHEDULES,
    "schedules": SCHEDULES,
    "cron": SCHEDULES,
    "stages.infer": "; set the model's stage in resources",
    "stages.model": "; set the model's stage in resources",
}
"""What people look for where it is not, and where it is."""
JUST_MISSPELT = 0.8
"""How like a field's name is, of 1, that means it, whatever else there is elsewhere."""
MOST_PLACES = 3
"""Of more, such as those of `path`, none is likely to be the one."""


def way_to_field(loc: tuple[int | str, ...], field: str) -> str:
    """What a field that is not there is likely to mean, as the end of a sentence; else nothing.

    Args:
        loc: where pydantic found it, the tags of variants included.
        field: the same as a person writes it.
    """
    if told := ELSEWHERE.get(field):
        return told
    name = str(loc[-1])
    here = dict.fromkeys(name for part in parts_below(loc[:-1]) for name in fields_of(part))
    other = FIELDS.get(name, "")
    if meant := other if other in here else likest(name, here, cutoff=JUST_MISSPELT):
        return f"; did you mean {meant}?"
    is_known = len(places().get(name, [])) > 1  # then nobody means another name's
    others = places_within(loc, field) or ([] if is_known else places_of(other, field))
    if not others and (kinds := other_kinds_with(loc)):
        return f"; kind {' or '.join(kinds)} has it"
    if there := others or places_of(name, field):
        return f"; did you mean {' or '.join(there)}?"
    return did_you_mean(name, here) or fields_there(field, here)


def fields_there(field: str, here: Collection[str]) -> str:
    """The fields that there are, where none of them is like the one that there is not.

    Args:
        field: that one, as a person writes it.
        here: those beside it.
    """
    part = field.rpartition(".")[0] or "a spec"
    return f"; {part} has {', '.join(here)}" if here else ""


def places_within(loc: tuple[int | str, ...], field: str) -> list[str]:
    """Where deeper in the same part there is a field of the name, as among a model's options."""
    part, _, name = field.rpartition(".")
    inner = [path for each in parts_below(loc[:-1]) for path in paths_below(each)]
    return [f"{part}.{path}" for path in inner if part and path.endswith(f".{name}")]


def other_kinds_with(loc: tuple[int | str, ...]) -> list[str]:
    """The kinds of the same part that have a field which the one that was chosen has not."""
    kinds = parts_below(loc[:-2])
    if len(kinds) < 2 or str(loc[-2]) not in map(kind_of, kinds):
        return []
    return [str(kind_of(kind)) for kind in kinds if loc[-1] in fields_of(kind)]


def kind_meant(loc: tuple[int | str, ...], given: str) -> str:
    """The kind that a wrong one is likely to mean, as a question; nothing where none is like it.

    Args:
        loc: of the part.
        given: as it was written.
    """
    kinds, other = kinds_at(loc), KINDS.get(given.lower())
    return f"; did you mean {other}?" if other in kinds else did_you_mean(given.lower(), kinds)


def places_of(name: str, field: str) -> list[str]:
    """Where else in a spec there is a field of a name, where that is likely to be meant.

    Args:
        name: of the field.
        field: where it is not.
    """
    part = field.rpartition(".")[0]
    found = [path for path in places().get(name, []) if path.rpartition(".")[0] != part]
    told = [path if "." in path else f"{path} at the top level" for path in found]
    return told if len(told) <= MOST_PLACES else []


@cache
def places() -> dict[str, list[str]]:
    """Where in a spec fields lie, by name, each as `resources.num_gpus`; not those of a list."""
    found: dict[str, list[str]] = {}
    for path in dict.fromkeys(paths_below(BatchInferenceSpec)):
        found.setdefault(path.rpartition(".")[2], []).append(path)
    return found


def paths_below(part: Part) -> Iterator[str]:
    """Fields of a part, and those of the parts in them."""
    for name, field in fields_of(part).items():
        yield name
        if get_origin(field.annotation) is not list:
            inner = parts_in(field.annotation)
            yield from (f"{name}.{below}" for each in inner for below in paths_below(each))


def kinds_at(loc: tuple[int | str, ...]) -> list[str]:
    """The kinds that there are of a part.

    Args:
        loc: where pydantic found one of no such kind, or of none.
    """
    return [kind for part in parts_below(loc) if (kind := kind_of(part))]


def parts_below(loc: tuple[int | str, ...]) -> list[Part]:
    """What may be at a place in a spec, as pydantic names it."""
    parts: list[Part] = [BatchInferenceSpec]
    for step in loc:
        parts = parts_at(parts, str(step))
    return parts


def parts_at(parts: list[Part], step: str) -> list[Part]:
    """What a step leads to: a variant by its kind, what a field holds, an item of a list."""
    variants = [part for part in parts if kind_of(part) == step]
    if variants and len(parts) > 1:
        return variants
    fields = [fields_of(part)[step] for part in parts if step in fields_of(part)]
    return [part for field in fields for part in parts_in(field.annotation)] or parts


def parts_in(annotation: Any) -> Iterator[Part]:
    """The parts of a spec that a type names, however deep in lists and unions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from parts_in(inner)


def fields_of(part: Part) -> dict[str, FieldInfo]:
    """A part's fields by the names that a spec has for them."""
    return {field.alias or name: field for name, field in part.model_fields.items()}


def kind_of(part: Part) -> Any:
    """What a part calls itself in a union, where it is a variant of one."""
    return part.model_fields["kind"].default if "kind" in part.model_fields else None
