"""Answers as columns: JSON that fits a schema, a column for each of its properties."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Never

import pyarrow as pa
from pydantic import AfterValidator

from tasks.kinds.models.arrays import Columns, with_columns
from tasks.kinds.models.llm.answers import GENERATED, SERVED, Generated
from tasks.kinds.models.llm.row_answers import Memory, Outcome
from tasks.kinds.models.llm.schema_types import REFERENCES, Part, Schema, without_references
from tasks.kinds.models.model import Function
from tasks.protocol.batch import RESERVED

FENCED = re.compile(r"```\w*\s*\n(.*?)```", re.DOTALL)
SHOWN_CHARACTERS = 200
"""Of an answer, in the reason for which its row is set aside."""


@dataclass(frozen=True)
class AnswerSchema:
    """What each answer must be, and so which columns answers become."""

    schema: Schema
    """Empty: anything, and no columns."""

    @cached_property
    def type(self) -> pa.StructType:
        """An answer's, one field for each column.

        Raises:
            ValueError: answers cannot be columns; says why, and the way out.
        """
        if not self.schema:
            return pa.struct([])
        found = Part(self.schema, self.schema).column_type()
        if not pa.types.is_struct(found):
            raise ValueError(f"describes {found}, not an object with properties")
        for each in found:
            if each.name in (*GENERATED, *SERVED) or each.name.startswith(RESERVED):
                raise ValueError(
                    f"has a property {each.name!r}, but that name is already used: rename it"
                )
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(each.name for each in self.type)

    @property
    def is_strict(self) -> bool:
        """Whether it is one that OpenAI's servers keep to by the letter."""
        return all(
            each.get("additionalProperties") is False
            and set(each.get("required", [])) == set(each["properties"])
            for each in parts_of(self.schema)
            if isinstance(each.get("properties"), dict)
        )

    @property
    def response_format(self) -> dict[str, Any]:
        """What a request says of it, in OpenAI's form; nothing where there is none."""
        if not self.schema:
            return {}
        form = {"name": "answer", "schema": self.schema, "strict": self.is_strict}
        return {"response_format": {"type": "json_schema", "json_schema": form}}

    @cached_property
    def validator(self) -> Any:
        """What compares an answer with it."""
        from jsonschema import Draft202012Validator

        return Draft202012Validator(self.schema)

    def check(self) -> None:
        """See that answers of it can be columns.

        Raises:
            ValueError: they cannot; says why, and the way out.
        """
        from jsonschema import Draft202012Validator, SchemaError

        if not self.schema:
            return
        try:
            json.dumps(self.schema, allow_nan=False)
            Draft202012Validator.check_schema(self.schema)
        except (TypeError, ValueError) as error:
            raise ValueError(f"has a value that JSON cannot represent: {error}") from error
        except SchemaError as error:
            where = ".".join(map(str, error.absolute_path)) or "it"
            raise ValueError(f"is not a JSON schema: {where}: {error.message}") from error
        whole = Part(self.schema, self.schema)
        for each in parts_of(self.schema):
            for word in REFERENCES:
                if isinstance(each.get(word), str):  # else it is a property of that name
                    whole.referred(each[word])  # not looked for on the web, row by row
        _ = self.type

    def settled(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Answers with what they hold, or the ValueErrors that set their rows aside."""
        if not self.schema:
            return list(outcomes)
        return [self.settle(each) if isinstance(each, Generated) else each for each in outcomes]

    def settle(self, answer: Generated) -> Outcome:
        """One answer with what it holds, or the ValueError that sets its row aside."""
        was_cut = answer.finish_reason == "length"
        try:
            # A block that is whole is a draft then: the answer was to come behind it.
            return replace(answer, value=self.read(answer.text, may_be_fenced=not was_cut))
        except ValueError as error:
            if was_cut:
                problem = f"the answer was cut off after {answer.completion_tokens} tokens"
                return ValueError(f"{problem}, before its JSON ended: allow more tokens")
            return error

    def read(self, text: str, *, may_be_fenced: bool = True) -> dict[str, Any]:
        """What an answer holds, as its column's type has it.

        Args:
            text: the answer.
            may_be_fenced: whether its JSON may stand in a block of it.

        Raises:
            ValueError: it is no JSON, or does not fit.
        """
        from jsonschema.exceptions import best_match

        try:
            whole = unfenced(text) if may_be_fenced else text
            value = json.loads(whole, parse_constant=refuse_constant, parse_float=finite)
            misfit = best_match(self.validator.iter_errors(value))
        except OverflowError as error:
            raise ValueError(f"the answer does not fit its columns: {error}") from error
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the answer is not JSON, {error}: {beginning(text)}") from error
        if misfit is not None:
            where = ".".join(map(str, misfit.absolute_path))
            problem = f"the answer does not fit model.answer_schema, {where and where + ': '}"
            raise ValueError(problem + beginning(misfit.message, quoted=False))
        try:
            found = as_typed(value, self.type)
            pa.array([found], self.type)
        except (pa.ArrowException, OverflowError) as error:
            raise ValueError(f"the answer does not fit its columns: {error}") from error
        return dict(found)

    def reading(self, write: Function) -> Function:
        """A predictor whose answers become columns; what it has written is not written again.

        Args:
            write: adds `generated_text`.
        """
        if not self.schema:
            return write

        def ask(rows: pa.Table) -> list[Outcome]:
            texts = write(rows)["generated_text"].to_pylist()
            return self.settled([Generated(each, None) for each in texts])

        memory = Memory(ask)

        def predict(rows: pa.Table) -> pa.Table:
            found = memory.answers(rows)
            texts = {"generated_text": pa.array([each.text for each in found], pa.string())}
            return with_columns(rows, texts | self.columns(found))

        return predict

    def columns(self, answers: Sequence[Generated]) -> Columns:
        """A column for each property; what an answer leaves out is empty."""
        values = [each.value or {} for each in answers]
        return {
            each.name: pa.array([value.get(each.name) for value in values], each.type)
            for each in self.type
        }


def check_answer_schema(schema: Schema) -> Schema:
    """The schema, without references, if answers of it can be columns; ValueError otherwise."""
    try:
        AnswerSchema(schema).check()
        found = without_references(schema)
        AnswerSchema(found).check()
        return found
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error


AnswerSchemaField = Annotated[Schema, AfterValidator(check_answer_schema)]
DESCRIPTION = (
    "Generation: JSON schema of an object, as from Pydantic's model_json_schema(). Each answer "
    "must be JSON that fits it, and each property becomes a column; a row whose answer does not "
    "fit is set aside. "
)


def unfenced(text: str) -> str:
    """What stands in a text's last fenced block, if it has one; no JSON itself looks like that."""
    blocks = FENCED.findall(text)
    return str(blocks[-1]) if blocks else text


def refuse_constant(name: str) -> Never:
    """NaN and Infinity are no JSON, whatever Python's parser says."""
    raise ValueError(f"{name} is not a number there")


def finite(number: str) -> float:
    """A fraction of JSON.

    Raises:
        OverflowError: it would be infinite, as 1e400.
    """
    found = float(number)
    if math.isinf(found):
        raise OverflowError(f"the number {beginning(number, quoted=False)} is too large")
    return found


def beginning(text: str, *, quoted: bool = True) -> str:
    """The first words of a text."""
    short = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
    return repr(short) if quoted else short


def as_typed(value: Any, kind: pa.DataType) -> Any:
    """A value of JSON as Python has it for an Arrow type: 1.0 is a whole number, and 1 a fraction.

    Raises:
        OverflowError: a number is too large.
    """
    if isinstance(value, dict):
        return {each.name: as_typed(value.get(each.name), each.type) for each in kind}
    if isinstance(value, list):
        return [as_typed(each, kind.value_type) for each in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value) if pa.types.is_floating(kind) else int(value)
    return value


def parts_of(schema: Any) -> Iterator[Schema]:
    """A schema, and all objects in it."""
    if isinstance(schema, dict):
        yield schema
    for each in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(each, (dict, list)):
            yield from parts_of(each)
