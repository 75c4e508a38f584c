"""Any server that speaks OpenAI's HTTP API: vLLM, SGLang, llama.cpp, LiteLLM, a provider's."""

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from tasks.kinds.models import output_names
from tasks.kinds.models.arrays import Columns, with_columns
from tasks.kinds.models.llm import answers
from tasks.kinds.models.llm.answer_schema import DESCRIPTION, AnswerSchema, AnswerSchemaField
from tasks.kinds.models.llm.asking_model import (
    AskingModel,
    ImageColumn,
    Prompt,
    SystemPrompt,
)
from tasks.kinds.models.llm.base_url import BaseUrl
from tasks.kinds.models.llm.conversations import messages_of
from tasks.kinds.models.llm.credentials import Credentials
from tasks.kinds.models.llm.http_tasks import (
    PATHS,
    READ,
    TASKS_OF_FIELDS,
    TASKS_OF_OPTIONS,
    WRITING,
    Task,
)
from tasks.kinds.models.llm.options import HttpOptions
from tasks.kinds.models.llm.shown_images import Illustrated
from tasks.kinds.models.model import Function, Placement, refuse_dtype

if TYPE_CHECKING:
    from tasks.kinds.models.llm.asking import Form
    from tasks.kinds.models.llm.endpoint import Endpoint

REQUESTS_PER_CALL = 4
"""For each that is in flight: fewer leave the server idle at a call's end, more cost in a crash."""


class HttpModel(AskingModel):
    """Chats, completions and embeddings of an OpenAI-compatible server.

    Adds `generated_text`, `finish_reason`, `prompt_tokens`, `completion_tokens`, `served_model` and
    `system_fingerprint` (if the server sends them), and the properties of `answer_schema`; or
    `embedding`. A server's weights cannot be pinned: each row records which model the server says
    has answered, but another model behind the same name goes unnoticed. A row that the server
    refuses (400, 413, 422, a content filter) is set aside with the server's message.
    """

    model_config = ConfigDict(title="OpenAI-compatible server")
    kind: Literal["http"] = "http"
    url: BaseUrl = Field(
        description="Base URL of the API, up to where /chat/completions follows: for most servers "
        "it ends in /v1. No password or key belongs in it.",
    )
    model: str = Field(min_length=1, description="The model's name, as the server knows it.")
    task: Task = Field(default="chat", description="What is asked of the server.")
    column: str | None = Field(
        default=None,
        description="Input column: texts; for chat also lists of {role, content}. Empty: prompt "
        "for chat and completion, text for embedding.",
    )
    image_column: ImageColumn = None
    prompt: Prompt = None
    system_prompt: SystemPrompt = None
    answer_schema: AnswerSchemaField = Field(
        default={},
        description=f"{DESCRIPTION}For chat the server is asked to follow it, through "
        "response_format, unless options.response_format says otherwise; the prompt should still "
        "say what is wanted.",
    )
    options: HttpOptions = Field(
        default=HttpOptions(),
        description="Settings of the task; empty ones are left to the server.",
    )
    api_key_env: str | None = Field(
        default=None,
        description="Environment variable that holds the API key, as in OPENAI_API_KEY: here, for "
        "the check, and on every node. The key itself is never part of a spec, log or report.",
    )
    headers_env: dict[str, str] = Field(
        default={},
        description="More headers, each with the environment variable that holds its value, as in "
        "{api-key: AZURE_KEY}.",
    )
    concurrency: int = Field(
        default=16,
        ge=1,
        description="Requests in flight per replica. Usually one replica with many is enough.",
    )
    texts_per_request: int = Field(default=32, ge=1, description="Embedding: texts per request.")
    requests_per_minute: float | None = Field(
        default=None,
        gt=0,
        description="Limit for one replica, spread evenly. Replicas do not know of each other: "
        "with resources.max_replicas: 1 it is the whole job's limit, otherwise divide it.",
    )
    tokens_per_minute: float | None = Field(
        default=None,
        gt=0,
        description="Limit for one replica, of tokens read and written, spread evenly. Estimated "
        "from a request's length and max_tokens, corrected by the server's count; without "
        "max_tokens the requests in flight may exceed it.",
    )
    timeout_seconds: float = Field(
        default=120, gt=0, description="How long to wait for the answer to one request."
    )
    max_retries: int = Field(
        default=9,
        ge=0,
        description="How often to retry after 429, 5xx or a broken connection, for at most eight "
        "minutes; the pause doubles up to a minute, or is what Retry-After says if that is longer. "
        "After that the attempt fails; a row that the server answers with 500, or not in time, "
        "while it answers others, is set aside.",
    )

    tasks_of_fields: ClassVar[dict[str, tuple[Task, ...]]] = TASKS_OF_FIELDS
    own_precision: ClassVar[str | None] = "the server sets its model's precision; leave it auto"
    not_in_identity: ClassVar[frozenset[str]] = frozenset(
        {
            *("api_key_env", "headers_env", "concurrency", "texts_per_request"),
            *("requests_per_minute", "tokens_per_minute", "timeout_seconds", "max_retries"),
        }
    )

    @property
    def can_use_gpu(self) -> bool:
        """The endpoint has its own."""
        return False

    def bound(self, rows_per_minute: float) -> str | None:
        """Its own limit where that is reached, else the server."""
        from tasks.kinds.models.llm.rate_limit import bound_of

        requests_per_minute = rows_per_minute / self.rows_per_request
        limits = self.requests_per_minute, self.tokens_per_minute
        return bound_of(requests_per_minute, self.concurrency, *limits)

    @field_validator("options")
    @classmethod
    def _belong_to_task(cls, options: HttpOptions, info: ValidationInfo) -> HttpOptions:
        task = info.data.get("task")
        problem = options.problem_with(task, TASKS_OF_OPTIONS) if task else None
        if problem:
            raise ValueError(problem)
        return options

    @property
    def input_column(self) -> str:
        """The column that the model reads."""
        return self.column or ("text" if self.task == "embedding" else "prompt")

    @property
    def output_columns(self) -> tuple[str, ...]:
        """What is added to a row."""
        if self.task == "embedding":
            return output_names.EMBEDDING
        return answers.GENERATED + answers.SERVED + self.answer.names

    @property
    def answer(self) -> AnswerSchema:
        """What each answer must hold."""
        return AnswerSchema(self.answer_schema)

    @property
    def rows_per_call(self) -> int:
        """As many as keep the requests in flight busy, and no more than a minute's worth."""
        requests = REQUESTS_PER_CALL * self.concurrency
        if self.requests_per_minute is not None:
            requests = max(1, min(requests, int(self.requests_per_minute)))
        if self.tokens_per_minute is not None:  # how many a row has, nobody knows before
            requests = min(requests, self.concurrency)
        return requests * self.rows_per_request

    @property
    def least_rows_per_call(self) -> int | None:
        """Those of a request where tokens are limited: a few texts may be minutes of them.

        Rows count as done when their call is, and ten minutes without one are too long.
        """
        return self.rows_per_request if self.tokens_per_minute is not None else None

    @property
    def rows_per_request(self) -> int:
        """Texts travel together where each gets a vector; usage of texts would not add up."""
        return self.texts_per_request if self.task == "embedding" else 1

    @property
    def credentials(self) -> Credentials:
        """Secrets, from this process's environment."""
        return Credentials.from_environment(self.api_key_env, self.headers_env)

    def check(self) -> None:
        """See that the server answers, lets us in and has the model, with a request or two.

        Raises:
            InvalidSpec: a wrong address, key or model, or no key in the environment.
            Unreachable: the server does not answer.
        """
        from tasks.kinds.models.llm.probing import check_server

        path = PATHS[self.task]
        check_server(self.url, self.credentials, self.model, path, self.trial, self.wanted)

    def fingerprint(self) -> str:
        """Digest of address, model and task: all that is known of weights that lie elsewhere."""
        content = json.dumps([self.url, self.model, self.task])
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def predictor(self, placement: Placement) -> Function:
        """Requests to the server, several at a time."""
        from tasks.kinds.models.llm.asking import ask_all
        from tasks.kinds.models.llm.row_answers import Memory

        refuse_dtype(placement.dtype, self.own_precision)
        endpoint, form = self.endpoint(), self.form()

        def ask(rows: pa.Table) -> list[Any]:
            return self.answer.settled(ask_all(endpoint, form, self.prompts(rows)))

        memory = Memory(ask)

        def predict(rows: pa.Table) -> pa.Table:
            return with_columns(rows, self.columns(memory.answers(rows)))

        return predict

    def endpoint(self) -> "Endpoint":
        """The server, with this replica's pace."""
        from tasks.kinds.models.llm.endpoint import Endpoint
        from tasks.kinds.models.llm.rate_limit import Pace

        return Endpoint(
            self.url,
            self.credentials,
            self.concurrency,
            self.timeout_seconds,
            self.max_retries,
            Pace(self.requests_per_minute),
            Pace(self.tokens_per_minute),
        )

    def form(self) -> "Form":
        """What requests of the task look like."""
        from tasks.kinds.models.llm.asking import Form

        read = READ[self.task]
        return Form(PATHS[self.task], self.body, read, self.trial, self.rows_per_request)

    def body(self, prompts: Sequence[Any]) -> dict[str, Any]:
        """A request for one row, or for several texts."""
        asked = self.content(prompts) | self.wanted
        return {"model": self.model, **asked, **self.options.body}

    @property
    def trial(self) -> dict[str, Any]:
        """The smallest request: whether the server answers."""
        length = {"max_tokens": 1} if self.task in WRITING else {}
        return {"model": self.model, **self.content(["."]), **length}

    @property
    def wanted(self) -> dict[str, Any]:
        """What the server is told of an answer's form, where nothing else is said of it."""
        said = "response_format" in self.options.body or self.task != "chat"
        return {} if said else self.answer.response_format

    def content(self, prompts: Sequence[Any]) -> dict[str, Any]:
        """What is asked, as the task has it."""
        if self.task == "embedding":
            return {"input": list(prompts)}
        (prompt,) = prompts
        if self.task == "completion":
            return {"prompt": prompt}
        if isinstance(prompt, Illustrated):
            return {"messages": prompt.as_sent()}
        return {"messages": messages_of(prompt, self.input_column)}

    def columns(self, found: Sequence[Any]) -> Columns:
        """Output columns of the answers."""
        if self.task == "embedding":
            return answers.embedding_column(found, "the server gave no numbers for this row")
        served = answers.served_columns(found)
        return {**answers.generated_columns(found), **served, **self.answer.columns(found)}
