"""Any model in Hugging Face's format, from a folder or the Hub."""

from typing import Any, ClassVar, Literal, Self

import pyarrow as pa
from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from tasks.errors import InvalidSpec
from tasks.kinds.extras import require
from tasks.kinds.models.exact_floats import keep_float32_whole
from tasks.kinds.models.hf import adapters, architectures, folder, hub, processor_files
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.hub_model import HubModel, Revision
from tasks.kinds.models.hf.option_checks import check_options
from tasks.kinds.models.hf.option_conflicts import problem_with
from tasks.kinds.models.hf.options import (
    ANSWERS,
    AUDIO,
    BY_WORDS,
    GENERATION,
    IMAGE,
    TEXT,
    TOKENS_APART,
    HuggingFaceOptions,
    KnownTask,
)
from tasks.kinds.models.hf.task_columns import ADDED, READ, SECOND
from tasks.kinds.models.input_types import (
    refuse_other_than_images,
    refuse_other_than_sounds,
    refuse_other_than_text,
)
from tasks.kinds.models.llm.answer_schema import DESCRIPTION, AnswerSchema, AnswerSchemaField
from tasks.kinds.models.llm.options import refuse_elsewhere
from tasks.kinds.models.model import Function, Media, Placement
from tasks.kinds.models.runtimes.choice import (
    RuntimeField,
    can_use_gpu,
    check_runtime,
    refuse_runtime,
)
from tasks.kinds.models.torch_threads import is_worth_threads

PAIRS = ("text-classification", "question-answering")
ONE_SHAPE: tuple[str, ...] = ("image-classification", "image-feature-extraction", *BY_WORDS)
"""Tasks whose batches are of one shape, for which a model can be compiled."""


class HuggingFaceModel(HubModel):
    """Labels, objects, maps, embeddings, texts and speech with transformers.

    Adds the columns that `task_columns` names; a model that generates text also adds the properties
    of `answer_schema`. Weights are read as safetensors, and Python code or pickled objects of a
    checkpoint are never run.
    """

    model_config = ConfigDict(title="Hugging Face")
    kind: Literal["huggingface"] = "huggingface"
    task: KnownTask = Field(
        description="What the model does. Image tasks read encoded images, speech recognition and "
        "audio-classification sounds, the others text."
    )
    name_or_path: str = Field(
        min_length=1,
        description="Name on the Hugging Face Hub, as in google/vit-base-patch16-224, or a folder "
        "written by save_pretrained that every node can read.",
    )
    revision: Revision = "main"
    column: str | None = Field(
        default=None,
        description="Input column. Empty: image for image tasks, prompt for text-generation, "
        "question for question-answering, audio for sounds, text for the others.",
    )
    pair_column: str | None = Field(
        default=None,
        description="Text classification by a model of pairs, such as a cross-encoder: column of "
        "the second texts, such as the passages if column has the questions. If a pair is too "
        "long, its longer text is cut off. Empty: one text a row. Question answering: column of "
        "the texts that contain the answers; empty: context.",
    )
    options: HuggingFaceOptions = Field(
        default=HuggingFaceOptions(),
        validate_default=True,
        description="Settings of the task; empty: sensible ones.",
    )
    answer_schema: AnswerSchemaField = Field(
        default={}, description=f"{DESCRIPTION}The prompt has to ask for it."
    )
    runtime: RuntimeField = "eager"

    uses_threads: ClassVar[bool] = True
    slow_imports: ClassVar[tuple[str, ...]] = ("torch", "transformers.modeling_utils")

    @field_validator("options")
    @classmethod
    def _belong_to_task(
        cls, options: HuggingFaceOptions, info: ValidationInfo
    ) -> HuggingFaceOptions:
        problem = problem_with(options, info.data["task"]) if "task" in info.data else None
        if problem:
            raise ValueError(problem)
        return options

    @field_validator("pair_column", "answer_schema")
    @classmethod
    def _belongs_to_task(cls, given: Any, info: ValidationInfo) -> Any:
        belongs_to = {"answer_schema": GENERATION, "pair_column": PAIRS}
        return refuse_elsewhere(given, info, belongs_to, "text-generation")

    @property
    def can_use_gpu(self) -> bool:
        """Whether its runtime is for GPUs too."""
        return can_use_gpu(self.runtime)

    @property
    def preprocesses(self) -> bool:
        """Images are decoded, texts are tokenised."""
        return True

    @property
    def input_column(self) -> str:
        """The column that the model reads."""
        return self.column or READ[self.task]

    @property
    def weights_bytes(self) -> int | None:
        """Of a folder; what lies on the Hub is not at hand."""
        return folder.weights_bytes(self.own_folder) if self.own_folder else None

    @property
    def prefers_threads(self) -> bool:
        """Unless it is small."""
        return is_worth_threads(self.weights_bytes)

    @property
    def least_rows_per_batch(self) -> int:
        """Texts are sorted by length, and of half as many a tenth more would be padding."""
        is_quick = self.task in TEXT and self.task not in GENERATION
        return 1_024 if is_quick else super().least_rows_per_batch

    @property
    def takes_encoded_media(self) -> bool:
        """Its preprocessor decodes images."""
        return True

    @property
    def writes_dates(self) -> bool:
        """Chat templates may."""
        return bool(self.options.chat)

    @property
    def input_columns(self) -> list[str]:
        """The columns that the model reads."""
        return [self.input_column, *self.seconds]

    @property
    def seconds(self) -> list[str]:
        """The column of second texts, where there is one."""
        second = self.pair_column or SECOND.get(self.task)
        return [second] if second else []

    @property
    def reads(self) -> dict[str, list[str]]:
        """Input columns, by the field that names them."""
        return {"column": [self.input_column], "pair_column": self.seconds}

    def refuse_types(self, schema: pa.Schema) -> None:
        """Images or texts; in a chat, what holds other than texts may be messages."""
        kind = schema.field(self.input_column).type
        if self.task in IMAGE:
            refuse_other_than_images(kind, self.input_column)
        elif self.task in AUDIO:
            refuse_other_than_sounds(kind, self.input_column)
        elif self.task in TEXT and not self.options.chat:
            refuse_other_than_text(kind, self.input_column)
        for name in self.seconds:
            refuse_other_than_text(schema.field(name).type, name, "pair_column")

    @property
    def output_columns(self) -> tuple[str, ...]:
        """What is added to a row."""
        return ADDED[self.task] + AnswerSchema(self.answer_schema).names

    @property
    def checkpoint(self) -> Checkpoint:
        """Where the model's parts are loaded from."""
        return Checkpoint(self.name_or_path, self.revision)

    def check(self) -> None:
        """See that the folder holds a model for the task; the Hub is not asked.

        Raises:
            InvalidSpec: says what is missing or does not fit.
        """
        check_runtime(self.runtime)
        if self.task not in ONE_SHAPE:
            refuse_runtime(self.runtime, f"can compile {' and '.join(ONE_SHAPE)}, not {self.task}")
        if self.task in AUDIO:
            require("model.task", self.task, "av", "audio")
        if self.own_folder is None:
            hub.check_name(self.name_or_path)
        else:
            folder.check_folder(self.name_or_path, self.own_folder, self.task)
            check_options(self.checkpoint, self.task, self.options)

    def check_on_hub(self) -> None:
        """See that the model was made for the task and is whole, as `check` does of a folder.

        Raises:
            InvalidSpec: it was not, or lacks weights or an image processor.
        """
        config = self.checkpoint.json_file("config.json")
        architectures.check_architecture(self.name_or_path, config, self.task)
        names = hub.listed(self.name_or_path, self.revision)
        is_applied = adapters.transformers_applies_them()
        adapters.refuse_adapter_on_hub(self.name_or_path, names or (), is_applied=is_applied)
        for part, files in (
            processor_files.missing_on_hub(names, self.task, config).items() if names else ()
        ):
            problem = (
                f"has no {part} on the Hugging Face Hub ({' or '.join(files)}): use a model that "
                "has them, or push them there with save_pretrained's push_to_hub"
            )
            raise InvalidSpec.at(hub.FIELD, self.name_or_path, problem)
        check_options(self.checkpoint, self.task, self.options)

    def preprocessor(self, num_threads: int = 1) -> Function:
        """Decoding and resizing, or tokenising."""
        from tasks.kinds.models.hf.preprocessors import preprocessor

        columns = self.input_columns
        return preprocessor(self.task, self.checkpoint, columns, self.options, num_threads)

    def predictor(self, placement: Placement) -> Function:
        """The model, loaded."""
        from tasks.kinds.models.hf import predictors

        keep_float32_whole(placement)
        if self.task in ONE_SHAPE:
            build = predictors.BUILD_IMAGES[self.task]
            return build(self.checkpoint, placement, self.options, self.runtime)
        placement.runtimes.tell(predictors.eager_on(self.task, placement))
        if self.task in ANSWERS:
            from tasks.kinds.models.hf.answers import answer_finder

            (column,) = self.seconds
            return answer_finder(self.checkpoint, placement, self.options, column)
        if self.task in TOKENS_APART:
            from tasks.kinds.models.hf.entities import entity_finder

            return entity_finder(self.checkpoint, placement, self.options, self.input_column)
        predict = predictors.BUILD[self.task](self.checkpoint, placement, self.options)
        return AnswerSchema(self.answer_schema).reading(predict)

    def embedder(self, media: Media, prefix: str | None = None) -> Self:
        """This model; or, of one that knows texts and images, its other half.

        Raises:
            InvalidSpec: it makes no embeddings, or none of such a query.
        """
        from tasks.kinds.models.hf.joint import EMBEDS, other_half
        from tasks.kinds.models.hf.query_prompts import for_queries

        found = self if self.task == EMBEDS[media] else other_half(self, media)
        return for_queries(found, prefix) if media == "text" else found
