"""Answers that fit their schema become columns; those that do not set their own row aside."""

import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import jsonschema
import pyarrow as pa
import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from tasks.errors import InvalidSpec
from tasks.fake_answers import made_up
from tasks.faked import faked
from tasks.kinds.models import AnyModel, HttpModel, HuggingFaceModel, VllmModel
from tasks.kinds.models.hf.generation import Writer
from tasks.kinds.models.hf.options import HuggingFaceOptions
from tasks.kinds.models.llm.answer_schema import AnswerSchema, check_answer_schema
from tasks.kinds.models.llm.options import HttpOptions
from tasks.kinds.models.llm.schema_types import Part, without_references
from tasks.kinds.models.model import Placement
from tasks.kinds.models.torch_threads import torch_threads
from tasks.protocol.batch import ROW
from tasks.ray_job.blame import Outcome, call_with_blame
from tests.kinds.tiny_writers import save_answering_gpt2
from tests.kinds.vllm_stand_in import vllm_stand_in
from tests.llm_server import MODEL, LlmServer, Said, error, llm_server, writing

REVIEW: dict[str, Any] = {
    "type": "object",
    "properties": {"kind": {"enum": ["praise", "complaint"]}, "stars": {"type": "integer"}},
    "required": ["kind", "stars"],
    "additionalProperties": False,
}
GOOD = {"kind": "praise", "stars": 5}


class Urgency(StrEnum):
    LOW = "low"
    HIGH = "high"


class Part_(BaseModel):
    name: str
    price: float | None = None


class Ticket(BaseModel):
    """As users write it."""

    urgency: Urgency
    topic: Literal["billing", "bug"]
    refund: float = Field(ge=0, le=100)
    count: int
    is_angry: bool
    note: str | None = None
    parts: list[Part_] = []
    main: Part_


TICKET_TYPE = pa.struct(
    {
        "urgency": pa.string(),
        "topic": pa.string(),
        "refund": pa.float64(),
        "count": pa.int64(),
        "is_angry": pa.bool_(),
        "note": pa.string(),
        "parts": pa.list_(pa.struct({"name": pa.string(), "price": pa.float64()})),
        "main": pa.struct({"name": pa.string(), "price": pa.float64()}),
    }
)


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, pa.string()),
        ({"type": ["integer", "null"]}, pa.int64()),
        ({"type": ["integer", "number"]}, pa.float64()),
        ({"enum": [1, 2.5, None]}, pa.float64()),
        ({"enum": [True, False]}, pa.bool_()),
        ({"const": "a"}, pa.string()),
        ({"items": {"type": "string"}}, pa.list_(pa.string())),
        ({"anyOf": [{"type": "null"}, of(a={"type": "boolean"})]}, pa.struct({"a": pa.bool_()})),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "number"}}}, pa.float64()),
        (Ticket.model_json_schema(), TICKET_TYPE),
    ],
)
def test_a_schemas_values_have_a_columns_type(schema: dict[str, Any], expected: Any) -> None:
    assert Part(schema, schema).column_type() == expected


TEXT = {"type": "string", "maxLength": 9, "title": "Text"}


@pytest.mark.parametrize(
    ("part", "in_place"),
    [
        ({"$ref": "#/$defs/text"}, TEXT),
        ({"$ref": "#/$defs/text", "title": "A"}, {**TEXT, "title": "A"}),
        ({"$ref": "#/$defs/text", "minLength": 2}, {**TEXT, "minLength": 2}),
        ({"$ref": "#/$defs/text", "maxLength": 2}, {"maxLength": 2, "allOf": [TEXT]}),
        ({"items": {"$ref": "#/$defs/texts"}}, {"items": {"items": TEXT}}),
        (
            {"anyOf": [{"$ref": "#/$defs/text"}, {"type": "null"}]},
            {"anyOf": [TEXT, {"type": "null"}]},
        ),
    ],
)
def test_what_references_lead_to_stands_in_their_places(part: Any, in_place: Any) -> None:
    """Prefect would take them for blocks of its own."""
    kinds = {"text": TEXT, "texts": {"items": {"$ref": "#/$defs/text"}}}
    schema = {**of(a=part), "$defs": kinds}
    model = HttpModel(url="http://x/v1", model="m", answer_schema=schema)
    assert model.answer_schema == of(a=in_place)
    assert (
        model.output_columns
        == HttpModel(url="http://x/v1", model="m", answer_schema=of(a=in_place)).output_columns
    )


def test_so_it_does_in_the_form_of_an_answer_that_a_server_is_asked_for() -> None:
    named = {"name": "a", "schema": {**of(a={"$ref": "#/$defs/text"}), "$defs": {"text": TEXT}}}
    options = HttpOptions(response_format={"type": "json_schema", "json_schema": named})
    asked = {"type": "json_schema", "json_schema": {"name": "a", "schema": of(a=TEXT)}}
    assert options.body == {"response_format": asked}


def test_a_property_may_be_named_as_a_reference_is() -> None:
    schema = AnswerSchema(of(**{"$ref": {"type": "string"}}))
    schema.check()
    assert schema.read('{"$ref": "a"}') == {"$ref": "a"}


DEEP: dict[str, Any] = {"type": "string"}
for _ in range(400):
    DEEP = of(a=DEEP)
LOOP = {"$defs": {"node": of(next={"$ref": "#/$defs/node"})}, "$ref": "#/$defs/node"}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "string"}, "describes string, not an object with properties"),
        ({"type": "object"}, "it has values that a column cannot hold: give it one type"),
        (of(a={}), "a has no type: give it one type, or one type and null: string"),
        (of(a=True), "a does not describe its values"),
        (of(a={"type": ["string", "integer"]}), "a may be of several types"),
        (of(a={"type": "array"}), "a has values that a column cannot hold"),
        (of(a={"items": of(b={"type": "null"})}), r"a\[\]\.b has no type"),
        (
            of(a={"type": "object", "additionalProperties": True}),
            "a has values that a column cannot hold",
        ),
        (LOOP, "next contains itself, through #/\\$defs/node"),
        (of(a={"$ref": "#/$defs/gone"}), "#/\\$defs/gone, which is not in this schema"),
        (
            of(a={"type": "string", "not": {"$ref": "https://x.org/s"}}),
            "refers to https://x.org/s, which",
        ),
        (of(generated_text={"type": "string"}), "'generated_text', but that name is already used"),
        (of(served_model={"type": "string"}), "'served_model', but that name is already used"),
        (of(__row={"type": "string"}), "'__row', but that name is already used"),
        (of(a={"type": "texts"}), "is not a JSON schema: properties.a.type: 'texts' is not"),
        (of(a={"const": float("nan")}), "JSON cannot represent"),
        (of(a={"type": "string", "pattern": "("}), "pattern: '\\(' is not a 'regex'"),
        (DEEP, "is nested too deeply"),
    ],
)
def test_a_schema_that_no_columns_fit_is_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        HttpModel(url="http://x/v1", model="m", answer_schema=schema)


@pytest.mark.parametrize(
    "model",
    [
        {"kind": "http", "url": "http://x/v1", "model": "m", "task": "embedding"},
        {"kind": "vllm", "name_or_path": "m", "task": "embed"},
        {"kind": "huggingface", "name_or_path": "m", "task": "feature-extraction"},
    ],
)
def test_only_what_writes_has_one(model: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"model\.answer_schema: is for .*leave it out"):
        TypeAdapter(AnyModel).validate_python({**model, "answer_schema": REVIEW})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"kind": "praise", "stars": 5}', GOOD),
        ('\n {"stars": 5.0, "kind": "praise"} \n', GOOD),
        ('```json\n{"kind": "praise", "stars": 5}\n```', GOOD),
        (
            'I think\n```\n{}\n```\nor rather:\n```json\n{"kind": "praise", "stars": 5}```\nOK?',
            GOOD,
        ),
    ],
)
def test_an_answer_is_json_fenced_or_not(text: str, found: dict[str, Any]) -> None:
    assert AnswerSchema(REVIEW).read(text) == found
    assert type(AnswerSchema(REVIEW).read(text)["stars"]) is int


def test_an_answer_may_speak_of_fences() -> None:
    code = {"code": "```py\nx\n```"}
    assert AnswerSchema(of(code={"type": "string"})).read(json.dumps(code)) == code


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Sure! It is praise.", "the answer is not JSON, Expecting value.*: 'Sure! It is praise.'"),
        ('{"kind": "praise"', "the answer is not JSON"),
        ('{"kind": "praise", "stars": NaN}', "the answer is not JSON, NaN is not a number there"),
        ("[" * 100_000, "the answer is not JSON"),
        ('{"kind": "praise"}', "does not fit model.answer_schema, 'stars' is a required property"),
        ('{"kind": "rant", "stars": 1}', "answer_schema, kind: 'rant' is not one of"),
        ('{"kind": "praise", "stars": 1.5}', "stars: 1.5 is not of type 'integer'"),
        ('{"kind": "praise", "stars": "5"}', "stars: '5' is not of type 'integer'"),
        ('{"kind": "praise", "stars": true}', "stars: True is not of type 'integer'"),
        ('{"kind": "praise", "stars": 5, "x": 1}', r"Additional properties are not allowed"),
        ('{"kind": "praise", "stars": 1' + "0" * 30 + "}", "does not fit its columns"),
        ("5", "5 is not of type 'object'"),
        ('{"kind": "' + "x" * 9_000 + '", "stars": 1}', r"kind: 'xxx.*\.\.\.$"),
    ],
)
def test_what_does_not_fit_says_where(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        AnswerSchema(REVIEW).read(text)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 400])
def test_numbers_beyond_all_doubles_do_not_fit_and_are_paid_for_once(
    server: LlmServer, number: str
) -> None:
    server.behave = saying({"a": '{"x": 1.5}', "b": f'{{"x": {number}}}', "c": '{"x": 2}'})
    model = model_of(server, answer_schema=of(x={"type": "number", "multipleOf": 0.5}))
    outcome = outcome_of(model.predictor(Placement()), [*"abc"])
    assert outcome.rows is not None
    assert outcome.rows["x"].to_pylist() == [1.5, 2.0]
    assert "the answer does not fit its columns" in str(outcome.failed[1])
    assert set(server.texts.values()) == {1}


def test_texts_that_no_column_can_hold_do_not_fit() -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        AnswerSchema(of(a={"type": "string"})).read('{"a": "\\ud800"}')


def test_nested_answers_are_as_python_has_them() -> None:
    ticket = Ticket(
        urgency=Urgency.HIGH,
        topic="bug",
        refund=5,
        count=2**60,
        is_angry=False,
        parts=[Part_(name="é", price=1.5), Part_(name="b")],
        main=Part_(name="c"),
    )
    schema = AnswerSchema(Ticket.model_json_schema())
    assert schema.read(ticket.model_dump_json()) == ticket.model_dump()
    sparse = schema.read(ticket.model_dump_json(exclude_unset=True))
    assert sparse["note"] is None
    assert sparse["parts"][1] == {"name": "b", "price": None}


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with llm_server() as told:
        yield told


def model_of(server: LlmServer, **fields: Any) -> HttpModel:
    return HttpModel.model_validate(
        {"url": server.url, "model": MODEL, "answer_schema": REVIEW, **fields}
    )


def outcome_of(predict: Any, prompts: list[str]) -> Outcome:
    return call_with_blame(predict, pa.table({ROW: range(len(prompts)), "prompt": prompts}))


def saying(answers: dict[str, str], finish_reason: str = "stop") -> Any:
    """A server's answers by prompt."""

    def behave(texts: list[str], before: int) -> Said:
        choice = {"message": {"content": answers[texts[0]]}, "finish_reason": finish_reason}
        return writing({"prompt": texts[0]}, choice)

    return behave


def test_a_server_is_asked_for_the_form_and_once_for_each_row(server: LlmServer) -> None:
    answers = {f"p{n}": json.dumps({**GOOD, "stars": n}) for n in range(20)}
    answers |= {"p3": "no idea", "p11": '{"kind": "rant", "stars": 1}'}
    server.behave = saying(answers)
    model = model_of(server)
    outcome = outcome_of(model.predictor(Placement()), list(answers))

    assert sorted(outcome.failed) == [3, 11]
    assert "the answer is not JSON" in str(outcome.failed[3])
    assert "kind: 'rant' is not one of" in str(outcome.failed[11])
    rows = outcome.rows
    assert rows is not None
    good = [n for n in range(20) if n not in (3, 11)]
    assert rows["stars"].to_pylist() == good
    assert rows["kind"].to_pylist() == ["praise"] * 18
    assert (rows["stars"].type, rows["kind"].type) == (pa.int64(), pa.string())
    assert rows["generated_text"].to_pylist() == [answers[f"p{n}"] for n in good]
    assert tuple(rows.column_names[2:]) == model.output_columns
    assert set(server.texts.values()) == {1}, "a bad answer is paid for once"
    form = {"name": "answer", "schema": REVIEW, "strict": True}
    wanted = {"type": "json_schema", "json_schema": form}
    assert all(each["response_format"] == wanted for each in server.bodies)


def test_an_answer_that_was_cut_off_says_so(server: LlmServer) -> None:
    server.behave = saying({"p": '{"kind": "pra'}, finish_reason="length")
    outcome = outcome_of(model_of(server).predictor(Placement()), ["p"])
    assert "the answer was cut off after 7 tokens, before its JSON ended" in str(outcome.failed[0])
    draft = f"First: ```json\n{json.dumps(GOOD)}\n``` But wait: ```json\n{{"
    server.behave = saying({"p": draft}, finish_reason="length")
    outcome = outcome_of(model_of(server).predictor(Placement()), ["p"])
    assert "the answer was cut off after 7 tokens, before its JSON ended" in str(outcome.failed[0])
    server.behave = saying({"p": json.dumps(GOOD)}, finish_reason="length")
    assert not outcome_of(model_of(server).predictor(Placement()), ["p"]).failed


def test_another_form_may_be_asked_for_and_completions_know_none(server: LlmServer) -> None:
    server.behave = saying({"p": json.dumps(GOOD)})
    own = {"response_format": {"type": "json_object"}}
    outcome_of(model_of(server, options=own).predictor(Placement()), ["p"])
    assert server.bodies[-1]["response_format"] == own["response_format"]
    outcome_of(model_of(server, options={"extra_body": own}).predictor(Placement()), ["p"])
    assert server.bodies[-1]["response_format"] == own["response_format"]
    server.behave = lambda texts, before: writing({"prompt": "p"}, {"text": json.dumps(GOOD)})
    made = outcome_of(model_of(server, task="completion").predictor(Placement()), ["p"])
    assert "response_format" not in server.bodies[-1]
    assert made.rows is not None
    assert made.rows["stars"].to_pylist() == [5]


def test_openai_is_told_to_be_strict_only_where_it_would_take_that(server: LlmServer) -> None:
    for loose in (
        {**REVIEW, "required": ["kind"]},
        of(a={"type": "string"}),
        of(a={**REVIEW, "additionalProperties": True}),
        {**REVIEW, "properties": {**REVIEW["properties"], "stars": of(b={"type": "string"})}},
    ):
        form = AnswerSchema(loose).response_format["response_format"]["json_schema"]
        assert form == {"name": "answer", "schema": loose, "strict": False}


def test_check_asks_whether_the_server_takes_the_form(server: LlmServer) -> None:
    model = model_of(server)
    model.check()
    assert [each["max_tokens"] for each in server.bodies] == [1]
    assert "response_format" in server.bodies[0]

    no_schema = error(400, "response_format.type json_schema is unavailable now")

    def behave(texts: list[str], before: int) -> Said | None:
        return no_schema if "response_format" in server.bodies[-1] else None

    server.behave = behave
    with pytest.raises(InvalidSpec, match=r"model\.answer_schema: .*is unavailable now") as refused:
        model.check()
    assert "set model.options.response_format" in str(refused.value)
    model_of(server, options={"response_format": {"type": "text"}}).check()
    server.behave = lambda texts, before: error(400, "max_tokens is not for this model")
    model.check()  # it is not the form that is refused


def test_vllm_writes_nothing_else() -> None:
    with vllm_stand_in() as engine:
        model = VllmModel(name_or_path="some/model", task="generate", answer_schema=REVIEW)
        wide = model.model_copy(update={"engine_kwargs": {"max_model_len": 100}})
        texts = [json.dumps(GOOD), "no idea"]
        outcome = outcome_of(wide.predictor(Placement("cuda")), [each[::-1] for each in texts])
        assert engine.made[0].parameters[0].given["structured_outputs"].json == REVIEW
        assert outcome.rows is not None
        assert outcome.rows["stars"].to_pylist() == [5]
        assert tuple(outcome.rows.column_names[2:]) == wide.output_columns
        assert "the answer was cut off after 7 tokens" in str(outcome.failed[1])  # so it says
        assert len(engine.made[0].ran) == 1, "nothing is written twice"

        own = {"sampling_params": {"structured_outputs": {"json": of(a={"type": "string"})}}}
        other = VllmModel.model_validate({**wide.model_dump(), "options": own})
        outcome_of(other.predictor(Placement("cuda")), ["x"])
        given = engine.made[1].parameters[0].given["structured_outputs"]
        assert given.json == of(a={"type": "string"})


def test_a_models_own_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "great tea": '{"kind": "praise", "stars": 5}',
        "bad mug": '{"kind": "complaint", "stars": 1}',
        "what is it": '{"kind": "question", "stars": 3}',
        "hello there": "good morning",
    }
    with torch_threads(1):
        save_answering_gpt2(tmp_path, answers)
    written: list[int] = []
    batches = Writer.batches

    def counting(self: Writer, *given: Any) -> Any:
        for index, arguments in batches(self, *given):
            written.extend(index)
            yield index, arguments

    monkeypatch.setattr(Writer, "batches", counting)
    model = HuggingFaceModel(
        task="text-generation",
        name_or_path=str(tmp_path),
        answer_schema=REVIEW,
        options=HuggingFaceOptions(max_new_tokens=8),
    )
    tokens = model.preprocessor()
    assert tokens is not None
    predict = model.predictor(Placement())
    outcome = outcome_of(lambda rows: predict(tokens(rows)), [*answers] * 2)
    assert sorted(outcome.failed) == [2, 3, 6, 7]
    assert "kind: 'question' is not one of" in str(outcome.failed[2])
    assert "not JSON" in str(outcome.failed[7])
    assert outcome.rows is not None
    assert outcome.rows["kind"].to_pylist() == ["praise", "complaint"] * 2
    assert outcome.rows["stars"].to_pylist() == [5, 1] * 2
    assert tuple(outcome.rows.column_names[2:]) == model.output_columns
    assert len(written) == 8, "nothing is written twice"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "maximum": -5},
        {"type": "integer", "exclusiveMinimum": 3, "maximum": 5},
        {"type": "number", "minimum": 2, "exclusiveMaximum": 4},
        {"items": {"enum": ["a", None]}, "minItems": 5},
        {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
    ],
)
def test_what_is_made_up_keeps_to_bounds(schema: dict[str, Any]) -> None:
    for seed in range(50):
        jsonschema.validate(made_up(schema, seed), schema)


def test_a_fake_makes_answers_that_fit(server: LlmServer) -> None:
    schema = Ticket.model_json_schema()
    server.behave = lambda texts, before: writing(
        {"prompt": "p"}, {"message": {"content": json.dumps(made_up(schema, before))}}
    )
    model = model_of(server, answer_schema=schema)
    prompts = [f"p{n}" for n in range(30)]
    real, fake = (
        outcome_of(each.predictor(Placement()), prompts) for each in (model, faked(model))
    )
    assert not real.failed, "what is made up fits the schema"
    assert real.rows is not None
    assert fake.rows is not None
    columns = [*model.output_columns]
    assert fake.rows.select(columns).schema == real.rows.select(columns).schema
    said = [AnswerSchema(schema).read(each) for each in fake.rows["generated_text"].to_pylist()]
    assert fake.rows["topic"].to_pylist() == [each["topic"] for each in said]
    assert len(set(fake.rows["urgency"].to_pylist())) == 2


def test_what_stands_beside_a_reference_holds_besides() -> None:
    """A choice there says nothing of types, and what the reference leads to does."""
    one = {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}}}
    either = [{"required": ["x"]}, {"required": ["y"]}]
    schema = of(a={"$ref": "#/$defs/A", "anyOf": either}) | {"$defs": {"A": one}}
    found = check_answer_schema(schema)
    assert found == of(a={**one, "anyOf": either})
    assert AnswerSchema(found).type == AnswerSchema(schema).type


def test_references_that_lead_to_too_much_are_refused() -> None:
    defined: dict[str, Any] = {"M9": {"type": "string"}}
    for at in range(9):
        inner = {f"f{n}": {"$ref": f"#/$defs/M{at + 1}"} for n in range(4)}
        defined[f"M{at}"] = {"type": "object", "properties": inner}
    with pytest.raises(ValueError, match="has more than 10,000 parts with references expanded:"):
        without_references(of(a={"$ref": "#/$defs/M0"}) | {"$defs": defined})


def test_schemas_that_a_request_holds_elsewhere_have_no_references_either() -> None:
    schema: dict[str, Any] = {"$defs": {"A": {"type": "string"}}}
    schema["properties"] = {"a": {"$ref": "#/$defs/A"}}
    options = HttpOptions(extra_body={"guided_json": schema, "seed": 3})
    plain = {"properties": {"a": {"type": "string"}}}
    assert options.body == {"guided_json": plain, "seed": 3}
    schema["$defs"]["A"] = {"items": {"$ref": "#/$defs/A"}}
    with pytest.raises(ValueError, match="contains itself, through #/\\$defs/A: write it out to"):
        HttpOptions(extra_body={"guided_json": schema})
