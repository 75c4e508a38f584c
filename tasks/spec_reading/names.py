"""Which fields the parts of a spec have, for whoever has misspelt one."""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tasks.kinds.likest import likest
from tasks.spec import BatchInferenceSpec

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


def elsewhere(field: str) -> str | None:
    """Where that is said which somebody has said in a field that is not there."""
    return ELSEWHERE.get(field)


def field_meant(loc: tuple[int | str, ...]) -> str | None:
    """The field whose name is most like one that is not there; None where none is like it.

    Args:
        loc: where pydantic found it, the tags of variants included.
    """
    names = dict.fromkeys(name for part in parts_below(loc[:-1]) for name in fields_of(part))
    return likest(str(loc[-1]), names)


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
