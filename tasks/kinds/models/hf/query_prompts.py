"""What stands before a text that is searched for: not the same as before those searched in.

Models such as E5, Qwen3-Embedding and Arctic Embed are trained so: their vectors of questions are
near those of answers only if each begins as it did then.
"""

from typing import TYPE_CHECKING, TypeVar

from tasks.kinds.models.hf import sentence_files

if TYPE_CHECKING:
    from tasks.kinds.models.huggingface import HuggingFaceModel

T = TypeVar("T", bound="HuggingFaceModel")


def for_queries(model: T, prefix: str | None) -> T:
    """A model of texts, as queries are embedded with it.

    Args:
        model: the one that made the published vectors.
        prefix: to be put before queries; None: what the model's sentence-transformers files have
            for them, or what stands before the rows' texts.
    """
    if prefix is None:
        prefix = sentence_files.query_prompt(model.checkpoint)
    if prefix is None:
        return model
    return model.model_copy(update={"options": model.options.model_copy(update={"prefix": prefix})})
