"""What a checkpoint's sentence-transformers files say of how its texts are read."""

from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf.checkpoint import Checkpoint

MODULES = "modules.json"
"""Where it is missing, sentence-transformers reads none of its other files either."""
PROMPTS = "config_sentence_transformers.json"
KIND = "SentenceTransformer"
"""What these files call a model of embeddings; prompts of a reranker are none for it."""
NO_PROMPTS = {"query": "", "document": ""}
"""Names that need not be listed."""


def default_prompt(checkpoint: Checkpoint) -> str:
    """What stands before each text where nobody says anything else.

    Raises:
        InvalidSpec: the files name a prompt that they do not have.
    """
    if checkpoint.json_file(MODULES) is None:
        return ""
    config = checkpoint.json_file(PROMPTS) or {}
    name = config.get("default_prompt_name")
    if name is None or config.get("model_type", KIND) != KIND:
        return ""
    prompts: dict[str, Any] = {**NO_PROMPTS, **(config.get("prompts") or {})}
    if name not in prompts:
        problem = (
            f"has a {PROMPTS} whose default_prompt_name, {name!r}, is not among its prompts; set "
            "model.options.prefix to what is to stand before each text"
        )
        raise InvalidSpec.at("model.name_or_path", checkpoint.name, problem)
    return str(prompts[name] or "")
