"""Language models on GPUs, through vLLM's own engine."""

import math
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from tasks.errors import InvalidSpec
from tasks.kinds.extras import require
from tasks.kinds.models import output_names
from tasks.kinds.models.arrays import Columns, column_of, with_columns
from tasks.kinds.models.hf import hub
from tasks.kinds.models.hf.hub_model import HubModel, Revision
from tasks.kinds.models.llm.answer_schema import DESCRIPTION, AnswerSchema, AnswerSchemaField
from tasks.kinds.models.llm.answers import GENERATED, embedding_column, generated_columns
from tasks.kinds.models.llm.asking_model import (
    AskingModel,
    ImageColumn,
    Prompt,
    SystemPrompt,
)
from tasks.kinds.models.llm.conversations import text_of
from tasks.kinds.models.llm.dated_templates import days_of
from tasks.kinds.models.llm.engine_files import check_files, check_on_hub
from tasks.kinds.models.llm.options import VllmOptions
from tasks.kinds.models.model import Function, Placement

if TYPE_CHECKING:
    from tasks.kinds.models.llm.engine import Engine

Task = Literal["chat", "generate", "embed", "classify"]
WRITING: tuple[Task, ...] = ("chat", "generate")
TASKS_OF_OPTIONS: dict[str, tuple[Task, ...]] = {
    **dict.fromkeys(("temperature", "max_tokens", "top_p", "top_k", "seed", "stop"), WRITING),
    "sampling_params": WRITING,
    "chat_template_kwargs": ("chat",),
}
TASKS_OF_FIELDS: dict[str, tuple[Task, ...]] = {
    **dict.fromkeys(("image_column", "prompt", "system_prompt"), ("chat",)),
    "answer_schema": WRITING,
}
IMAGES_PER_CALL = 128
SHARED_OUT = ("tensor_parallel_size", "pipeline_parallel_size")
"""Arguments of the engine that say among how many GPUs it shares the model out."""
SET_ELSEWHERE = {
    "model": "model.name_or_path",
    "revision": "model.revision",
    "tokenizer_revision": "model.revision",
    "task": "model.task",
    "runner": "model.task",
    "convert": "model.task",
    "dtype": "resources.dtype",
}


class VllmModel(AskingModel, HubModel):
    """Chats, generation, embeddings and classification with vLLM on GPUs.

    Adds `generated_text`, `finish_reason`, `prompt_tokens` and `completion_tokens`, and the
    properties of `answer_schema`; or `embedding`; or `predicted_label` and `predicted_score`. A
    prompt that the model cannot take is set aside; texts to embed or classify are cut off at the
    model's limit. Code of a checkpoint is never run.
    """

    model_config = ConfigDict(title="vLLM")
    kind: Literal["vllm"] = "vllm"
    name_or_path: str = Field(
        min_length=1,
        description="Name on the Hugging Face Hub, as in Qwen/Qwen3-8B, or a folder that every "
        "node can read.",
    )
    revision: Revision = "main"
    task: Task = Field(
        default="chat",
        description="chat writes prompts with the model's chat template; generate continues a "
        "text; embed and classify are for models that do so, or can be converted to it.",
    )
    column: str | None = Field(
        default=None,
        description="Input column: texts; for chat also lists of {role, content}. Empty: prompt "
        "for chat and generate, text for embed and classify.",
    )
    image_column: ImageColumn = None
    prompt: Prompt = None
    system_prompt: SystemPrompt = None
    answer_schema: AnswerSchemaField = Field(
        default={},
        description=f"{DESCRIPTION}The engine writes nothing else, unless "
        "options.sampling_params.structured_outputs says otherwise; the prompt should still say "
        "what is wanted.",
    )
    options: VllmOptions = Field(
        default=VllmOptions(), description="Settings of the task; empty: sensible ones."
    )
    engine_kwargs: dict[str, Any] = Field(
        default={},
        description="Arguments of vLLM's engine, as in {max_model_len: 8192, "
        "gpu_memory_utilization: 0.9}. With tensor_parallel_size: N, set resources.num_gpus: N; "
        "all are on one node.",
    )

    needs_gpu: ClassVar[bool] = True
    tasks_of_fields: ClassVar[dict[str, tuple[Task, ...]]] = TASKS_OF_FIELDS
    batch_size: ClassVar[int | None] = 1024
    """Several times what the engine runs at once: it fills up from the rest as rows finish."""

    @field_validator("options")
    @classmethod
    def _belong_to_task(cls, options: VllmOptions, info: ValidationInfo) -> VllmOptions:
        task = info.data.get("task")
        problem = task and (options.problem_with(task, TASKS_OF_OPTIONS) or options.conflict)
        if problem:
            raise ValueError(problem)
        return options

    @field_validator("engine_kwargs")
    @classmethod
    def _have_no_other_place(cls, given: dict[str, Any]) -> dict[str, Any]:
        for name in given:
            if name == "trust_remote_code":
                raise ValueError("model.engine_kwargs.trust_remote_code: such code is never run")
            if name in SET_ELSEWHERE:
                raise ValueError(f"model.engine_kwargs.{name}: is set by {SET_ELSEWHERE[name]}")
        return given

    @property
    def rows_per_call(self) -> int | None:
        """Fewer with images: the engine holds all of a call's."""
        return IMAGES_PER_CALL if self.image_column else self.batch_size

    @property
    def least_gpus(self) -> int:
        """As many as its engine is to use."""
        given = [self.engine_kwargs.get(name) for name in SHARED_OUT]
        return math.prod(each for each in given if isinstance(each, int))

    @property
    def input_column(self) -> str:
        """The column that the model reads."""
        return self.column or ("prompt" if self.task in WRITING else "text")

    @property
    def writes_dates(self) -> bool:
        """Chat templates may."""
        return self.task == "chat"

    @property
    def output_columns(self) -> tuple[str, ...]:
        """What is added to a row."""
        if self.task in WRITING:
            return GENERATED + self.answer.names
        return output_names.EMBEDDING if self.task == "embed" else output_names.LABELS

    @property
    def answer(self) -> AnswerSchema:
        """What each answer must hold."""
        return AnswerSchema(self.answer_schema)

    def check(self) -> None:
        """See that vLLM is installed and the folder holds a whole model; the Hub is not asked.

        Raises:
            InvalidSpec: says what is missing.
        """
        require("model.kind", self.kind, "vllm", "vllm")
        found = self.own_folder
        if found is None:
            return hub.check_name(self.name_or_path)
        if not found.is_dir():
            raise InvalidSpec.at(
                "model.name_or_path",
                self.name_or_path,
                "is not a folder: give one that save_pretrained wrote, or a name on the Hub",
            )
        check_files(self.name_or_path, found, self.engine_kwargs)

    def check_on_hub(self) -> None:
        """See that the Hub has weights that vLLM reads; its words are left to the engine.

        Raises:
            InvalidSpec: it has none; or has an adapter, which would be left out.
        """
        check_on_hub(self.name_or_path, self.revision, self.engine_kwargs)

    def predictor(self, placement: Placement) -> Function:
        """The engine, loaded, over batches of rows."""
        return self.predict_with(self.engine(placement))

    def predict_with(self, engine: "Engine") -> Function:
        """An engine that is loaded, over batches of rows."""
        from tasks.kinds.models.llm.row_answers import Memory

        memory = Memory(partial(self.written, engine))

        def predict(rows: pa.Table) -> pa.Table:
            if self.task in WRITING:
                found = memory.answers(rows)
                return with_columns(
                    rows, {**generated_columns(found), **self.answer.columns(found)}
                )
            return with_columns(rows, self.pooled(engine, rows))

        return predict

    def engine(self, placement: Placement) -> "Engine":
        """VLLM with the model on this replica's GPUs."""
        from tasks.kinds.models.llm.engine import Engine, check_sampling, load_engine

        if self.task in WRITING:
            check_sampling(self.options, self.answer_schema)  # the engine takes minutes to load
        arguments = {"dtype": placement.dtype, **self.engine_kwargs}
        revision = self.revision if self.own_folder is None else None
        llm = load_engine(self.name_or_path, revision, self.task, arguments)
        return Engine(llm, self.options, self.answer_schema)

    def written(self, engine: "Engine", rows: pa.Table) -> list[Any]:
        """An outcome for each row."""
        from tasks.kinds.models.hf.sampling import draws_by

        days = days_of(rows) if self.task == "chat" else None
        found = engine.generated(self.prompts(rows), draws_by(rows), days)
        return self.answer.settled(found)

    def pooled(self, engine: "Engine", rows: pa.Table) -> Columns:
        """A vector or a label for each row.

        Raises:
            ValueError: a row has no text.
        """
        values = column_of(rows, self.input_column).to_pylist()
        texts = [text_of(each, self.input_column) for each in values]
        if self.task == "embed":
            return embedding_column(engine.embeddings(texts))
        return engine.classified(texts, self.name_or_path)
