"""Settings of what language models write; each belongs to some tasks only."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from tasks.kinds.form import FormModel
from tasks.kinds.models.hf.options import NEW_TOKENS
from tasks.kinds.models.llm.schema_types import with_plain_schemas


class SamplingOptions(FormModel):
    """Settings that every server and engine knows."""

    temperature: float | None = Field(
        default=None,
        ge=0,
        description="Generation: 0 takes the likeliest token each time; above 1 is bolder.",
    )
    max_tokens: int | None = Field(
        default=None, ge=1, description="Generation: maximum number of tokens to write."
    )
    top_p: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Generation: draw only from the likeliest tokens that together have this "
        "probability.",
    )
    seed: int | None = Field(
        default=None, description="Generation: another seed gives other texts, if tokens are drawn."
    )
    stop: list[str] = Field(default=[], description="Generation: texts at which to stop writing.")

    @property
    def given(self) -> dict[str, Any]:
        """What was set, by name."""
        return {
            name: value
            for name in type(self).model_fields
            if (value := getattr(self, name)) not in (None, [], {})
        }

    def problem_with(self, task: str, tasks_of: Mapping[str, Sequence[str]]) -> str | None:
        """Which option a task does not take, as a sentence; None where it takes all.

        Args:
            task: the task.
            tasks_of: tasks that an option belongs to; one that is not named belongs to all.
        """
        for name, value in self.given.items():
            belongs_to = list(tasks_of.get(name, [task]))
            if task not in belongs_to:
                return (
                    f"model.options.{name}: {value!r} is for {', '.join(belongs_to)}, not {task}: "
                    "leave it out"
                )
        return None


class HttpOptions(SamplingOptions):
    """Settings sent with each request; empty ones are left to the server."""

    model_config = ConfigDict(title="Options of the requests")

    response_format: dict[str, Any] = Field(
        default={},
        description="Chat: format of the answer, as in {type: json_object}, or a JSON schema if "
        "the server takes one.",
    )
    dimensions: int | None = Field(
        default=None,
        ge=1,
        description="Embeddings: numbers in a vector, if the model lets you choose.",
    )
    extra_body: dict[str, Any] = Field(
        default={},
        description="Anything else for the body of the request, as in {max_completion_tokens: 200} "
        "or {chat_template_kwargs: {enable_thinking: false}}.",
    )

    @field_validator("response_format", "extra_body")
    @classmethod
    def _no_references(cls, given: dict[str, Any]) -> dict[str, Any]:
        try:
            found: dict[str, Any] = with_plain_schemas(given)
            return found
        except RecursionError as error:
            raise ValueError("has a schema that is nested too deeply") from error

    @field_validator("extra_body")
    @classmethod
    def _one_answer_at_once(cls, body: dict[str, Any]) -> dict[str, Any]:
        if body.get("n") not in (None, 1) or body.get("stream"):
            raise ValueError("asks for several answers, or for streaming: leave out n and stream")
        return body

    @property
    def body(self) -> dict[str, Any]:
        """What they add to a request's body."""
        given = self.given
        extra = given.pop("extra_body", {})
        return {**given, **extra}


class VllmOptions(SamplingOptions):
    """Settings of generation, named as in vLLM."""

    model_config = ConfigDict(title="Options of the generation")

    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description=f"Generation: maximum number of tokens to write. Empty: {NEW_TOKENS}.",
    )
    temperature: float | None = Field(
        default=None,
        ge=0,
        description="Generation: above 1 is bolder, below 1 safer. Empty or 0: the likeliest token "
        "each time.",
    )
    seed: int | None = Field(
        default=None,
        description="Generation with a temperature: another seed gives other texts. What a row "
        "gets depends on the seed and the row's place in its run, not on the rows beside it; a "
        "redrive of the row, or another run, may draw others. Empty: 0.",
    )
    top_k: int | None = Field(
        default=None,
        ge=1,
        description="Generation: draw only from this many of the likeliest tokens.",
    )
    sampling_params: dict[str, Any] = Field(
        default={},
        description="Other parameters of vLLM's SamplingParams, as in {min_p: 0.05} or "
        "{structured_outputs: {json: {...}}}.",
    )
    chat_template_kwargs: dict[str, Any] = Field(
        default={},
        description="Chat: arguments of the model's template, as in {enable_thinking: false}. If "
        "the template writes today's date, it gets the day (UTC) on which the run was planned.",
    )

    @field_validator("sampling_params")
    @classmethod
    def _have_no_other_place(cls, given: dict[str, Any]) -> dict[str, Any]:
        for name in given.keys() & cls.model_fields.keys():
            raise ValueError(f"has {name}: set model.options.{name} instead")
        if given.get("n") not in (None, 1):
            raise ValueError("asks for several answers: leave out n")
        return given

    @property
    def conflict(self) -> str | None:
        """Which option does nothing beside the others, as a sentence."""
        idle = [name for name in ("top_p", "top_k", "seed") if name in self.given]
        if idle and not self.temperature:
            value = getattr(self, idle[0])
            return f"model.options.{idle[0]}: {value!r} has no effect without a temperature above 0"
        return None


def refuse_elsewhere(
    given: Any, info: ValidationInfo, tasks_of: Mapping[str, Sequence[str]], default: str
) -> Any:
    """A field's value, where its task takes one.

    Args:
        given: the value.
        info: names the field and the task.
        tasks_of: tasks that a field belongs to.
        default: the task where none is named.

    Raises:
        ValueError: the task takes none.
    """
    task, name = info.data.get("task", default), str(info.field_name)
    if given not in (None, {}) and task not in tasks_of[name]:
        belongs_to = ", ".join(tasks_of[name])
        raise ValueError(f"model.{name}: is for {belongs_to}, not {task}: leave it out")
    return given
