"""What every kind of source, step, model and sink has in common."""

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema


class Kind(BaseModel):
    """A frozen set of described fields with one job; `kind` says which.

    A kind is one file and one line in its folder's `__init__.py`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class PickOne:
    """Makes a discriminated union a picker in Prefect's run form.

    The form draws `anyOf` as a picker and `oneOf` as a raw JSON editor; the discriminator still
    validates.
    """

    def __get_pydantic_json_schema__(
        self, core_schema: "CoreSchema", handler: GetJsonSchemaHandler
    ) -> "JsonSchemaValue":
        """Swap `oneOf` for `anyOf`."""
        schema: dict[str, Any] = dict(handler(core_schema))
        if "oneOf" in schema:
            schema["anyOf"] = schema.pop("oneOf")
            schema.pop("discriminator", None)
        return schema
