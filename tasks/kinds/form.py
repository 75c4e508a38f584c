"""What Prefect's run form needs of a JSON schema, beside what pydantic says by itself.

The form draws `anyOf` as a row of buttons, named by the titles of what can be picked, and selects
the first variant of which the value has the most fields; `oneOf` is a raw JSON editor to it.
"""

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, model_validator

if TYPE_CHECKING:
    from pydantic.fields import ComputedFieldInfo, FieldInfo
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

WORDS = {
    "num": "",
    "cpu": "CPU",
    "cpus": "CPUs",
    "gpu": "GPU",
    "gpus": "GPUs",
    "gb": "(GiB)",
    "mib": "(MiB)",
    "seconds": "(seconds)",
    "env": "environment",
    "vars": "variables",
    "ids": "IDs",
}
"""How a word of a field's name is written in its title, where not as it is."""
BUTTONS = {
    "string": "Text",
    "number": "Number",
    "integer": "Number",
    "boolean": "Yes or no",
    "array": "List",
    "null": "Empty",
}
"""Names of the buttons of a field that takes values of several types."""


def title_of(name: str, _info: "FieldInfo | ComputedFieldInfo | None" = None) -> str:
    """A field's name as people write it, units in brackets."""
    words = [WORDS.get(word, word) for word in name.split("_")]
    text = " ".join(filter(None, words))
    return text[:1].upper() + text[1:]


def none_where_cleared(value: object) -> object:
    """None in the place of an empty text: what the form sends of a box that somebody cleared."""
    return None if isinstance(value, str) and not value else value


class EmptyText:
    """Marks a field in which an empty text says something, and is no box that was cleared."""


class FormModel(BaseModel):
    """Frozen, and strict about names: a misspelt field is an error. Shows well in the run form.

    An empty text is none, in fields that may be left out.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        field_title_generator=title_of,
        # Prefect writes the parameters of a deployment by itself, and its server knows no `class_`.
        serialize_by_alias=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _cleared_is_left_out(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        may_be = may_be_left_out(cls)
        return {
            name: none_where_cleared(value) if name in may_be else value
            for name, value in given.items()
        }

    @model_validator(mode="before")
    @classmethod
    def _yes_is_no_number(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or not any(isinstance(v, bool) for v in given.values()):
            return given
        # Pydantic takes it for 1, as a fraction for all: as a text it says which field is wrong.
        return {
            name: str(value).lower() if isinstance(value, bool) and is_number(cls, name) else value
            for name, value in given.items()
        }

    def as_json(self) -> dict[str, Any]:
        """All fields as JSON values, by the names that a spec's file has for them."""
        return self.model_dump(mode="json", by_alias=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: "CoreSchema", handler: GetJsonSchemaHandler
    ) -> "JsonSchemaValue":
        """Name the buttons, and make `kind` a list to pick from that has one entry."""
        schema = handler(core_schema)
        for field in handler.resolve_ref_schema(schema).get("properties", {}).values():
            for option in field.get("anyOf", []):
                name_button(option)
            if "const" in field:
                field |= {"enum": [field["const"]], "description": "Set by the choice above."}
        return schema


def may_be_left_out(model: type[BaseModel]) -> set[str | None]:
    """Names, and other names, of a model's fields in which an empty text is none."""
    fields = (
        (name, each)
        for name, each in model.model_fields.items()
        if each.default is None and not any(isinstance(m, EmptyText) for m in each.metadata)
    )
    return {known for name, each in fields for known in (name, each.alias)}


def is_number(model: type[BaseModel], name: str) -> bool:
    """Whether a model's field takes numbers, and neither truth values nor just anything."""
    if name not in model.model_fields:
        return False
    types = {*variants(model.model_fields[name].annotation)}
    return bool(types & {int, float}) and not types & {bool, Any}


def variants(annotation: Any) -> Iterator[Any]:
    """The types of which a value may be one."""
    if get_origin(annotation) in (Union, UnionType, Annotated):
        for each in get_args(annotation)[: 1 if get_origin(annotation) is Annotated else None]:
            yield from variants(each)
    else:
        yield annotation


def name_button(option: dict[str, Any]) -> None:
    """Give a value's type, or the one word that is allowed, a title; models have theirs."""
    if "$ref" in option or "title" in option:
        return
    option["title"] = str(option.get("const", BUTTONS[option["type"]])).capitalize()


class PickOne:
    """Makes a discriminated union a picker in the run form; the discriminator still validates."""

    def __get_pydantic_json_schema__(
        self, core_schema: "CoreSchema", handler: GetJsonSchemaHandler
    ) -> "JsonSchemaValue":
        """Swap `oneOf` for `anyOf`."""
        schema: dict[str, Any] = dict(handler(core_schema))
        if "oneOf" in schema:
            schema["anyOf"] = schema.pop("oneOf")
            schema.pop("discriminator", None)
        return schema
