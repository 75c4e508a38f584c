"""What can be set for a Hugging Face model, and for which task."""

from typing import Literal

from pydantic import ConfigDict, Field

from tasks.kinds.form import FormModel

Task = Literal[
    "image-classification",
    "text-classification",
    "feature-extraction",
    "image-feature-extraction",
    "text-generation",
]
Pooling = Literal["auto", "mean", "cls"]
NEW_TOKENS = 128

CLASSIFICATION = ("image-classification", "text-classification")
EMBEDDING = ("feature-extraction", "image-feature-extraction")
TEXT = ("text-classification", "feature-extraction", "text-generation")
GENERATION = ("text-generation",)
IMAGE = ("image-classification", "image-feature-extraction")

BELONGS_TO: dict[str, tuple[str, ...]] = {
    "top_k": CLASSIFICATION,
    "normalize": EMBEDDING,
    "pooling": EMBEDDING,
    "max_length": TEXT,
    "max_new_tokens": GENERATION,
    "do_sample": GENERATION,
    "temperature": GENERATION,
    "seed": GENERATION,
}


class HuggingFaceOptions(FormModel):
    """Settings of a task; each belongs to some tasks only and is refused with others."""

    model_config = ConfigDict(title="Options of the task")

    top_k: int | None = Field(
        default=None,
        ge=1,
        description="Classification: how many labels to give, best first. Empty or 1: "
        "predicted_label and predicted_score hold one value; more: lists.",
    )
    pooling: Pooling | None = Field(
        default=None,
        description="Embeddings: how one vector is made of many. auto, also where empty: for text "
        "what the model's sentence-transformers files say, else the mean; for images the model's "
        "own image embedding.",
    )
    normalize: bool | None = Field(
        default=None,
        description="Embeddings: scale each vector to length 1. Empty: only where the model's "
        "sentence-transformers files say so.",
    )
    max_length: int | None = Field(
        default=None,
        ge=1,
        description="Text: tokens after which a text is cut off. Empty: what the model can read, "
        "less max_new_tokens in generation.",
    )
    max_new_tokens: int | None = Field(
        default=None,
        ge=1,
        description=f"Generation: tokens to write at most. Empty: {NEW_TOKENS}.",
    )
    do_sample: bool | None = Field(
        default=None,
        description="Generation: draw each token at random instead of taking the likeliest. What "
        "a row gets depends on seed and the row only, not on the rows beside it.",
    )
    temperature: float | None = Field(
        default=None,
        gt=0,
        description="Generation with do_sample: above 1 is bolder, below 1 safer. Empty: 1.",
    )
    seed: int | None = Field(
        default=None, description="Generation with do_sample: other seed, other texts. Empty: 0."
    )

    def problem_with(self, task: Task) -> str | None:
        """What is wrong with these options for a task, as a sentence; None where nothing is."""
        mine = [name for name, tasks in BELONGS_TO.items() if task in tasks]
        for name, tasks in BELONGS_TO.items():
            value = getattr(self, name)
            if value is not None and task not in tasks:
                return (
                    f"model.options.{name}: {value!r} belongs to {', '.join(tasks)}, not to "
                    f"{task}, which takes {', '.join(mine)}"
                )
        for name in ("temperature", "seed"):
            if getattr(self, name) is not None and not self.do_sample:
                value = getattr(self, name)
                return f"model.options.{name}: {value!r} does nothing without do_sample: true"
        return None
