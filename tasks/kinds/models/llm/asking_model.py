"""What models that are asked in words have in common: where each row's question is found."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field, ValidationInfo, field_validator

from tasks.kinds.form import EmptyText
from tasks.kinds.models.llm.conversations import prompts_of, with_system_prompt
from tasks.kinds.models.llm.options import refuse_elsewhere
from tasks.kinds.models.llm.shown_images import illustrated, refuse_other_than_shown
from tasks.kinds.models.model import Model

ImageColumn = Annotated[
    str | None,
    Field(
        description="Chat: column of images for a vision model, shown before the user's last text. "
        "Files (JPEG, PNG, WebP and GIF as they are, others as PNG), arrays from a step, or URLs "
        "that the model fetches itself. A row without an image is set aside.",
    ),
]
Prompt = Annotated[
    str | None,
    EmptyText(),
    Field(description="Chat: what to ask about the image in every row, in place of `column`."),
]
SystemPrompt = Annotated[
    str | None,
    EmptyText(),
    Field(description="Chat: the system message, unless a row's messages have their own."),
]


class AskingModel(Model):
    """A model that is asked in words, and shown images. Its kinds have the fields, in their order.

    A base's own fields would stand before all others in the run form.
    """

    if TYPE_CHECKING:
        task: Any
        image_column: ImageColumn
        prompt: Prompt
        system_prompt: SystemPrompt

    tasks_of_fields: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Tasks that a field belongs to."""

    @field_validator(
        *("image_column", "prompt", "system_prompt", "answer_schema"), check_fields=False
    )
    @classmethod
    def _belongs_to_task(cls, given: Any, info: ValidationInfo) -> Any:
        return refuse_elsewhere(given, info, cls.tasks_of_fields, "chat")

    @field_validator("prompt", check_fields=False)
    @classmethod
    def _asks_of_images(cls, prompt: str | None, info: ValidationInfo) -> str | None:
        if prompt and info.data.get("column"):
            raise ValueError(
                "model.prompt: model.column has the prompt of each row: set only one of them"
            )
        if prompt and not info.data.get("image_column"):
            raise ValueError(
                "model.prompt: it needs images: set their column in model.image_column, or write "
                "each row's text in a step such as template"
            )
        return prompt

    @property
    def takes_encoded_media(self) -> bool:
        """Files are what it shows."""
        return self.image_column is not None

    @property
    def input_column(self) -> str:
        """The column of what is asked."""
        raise NotImplementedError

    @property
    def reads(self) -> dict[str, list[str]]:
        """Input columns, by the field that names them."""
        image = [self.image_column] if self.image_column else []
        return {"column": [] if self.prompt else [self.input_column], "image_column": image}

    @property
    def input_columns(self) -> list[str]:
        """The columns that the model reads."""
        return [name for names in self.reads.values() for name in names]

    def refuse_types(self, schema: pa.Schema) -> None:
        """Images, or their URLs; what is asked shows row by row."""
        if self.image_column:
            refuse_other_than_shown(schema.field(self.image_column).type, self.image_column)

    def prompts(self, rows: pa.Table) -> list[Any]:
        """What each row asks: a text, messages, messages with an image; or a ValueError.

        Raises:
            InvalidSpec: the column of images holds something else.
        """
        if self.prompt:
            said = [{"role": "user", "content": self.prompt}]
            found: list[Any] = [with_system_prompt(said, self.system_prompt)] * len(rows)
        else:
            told, chat = self.system_prompt, self.task == "chat"
            found = prompts_of(rows, self.input_column, chat=chat, system_prompt=told)
        return illustrated(found, rows, self.image_column) if self.image_column else found
