"""What can be asked of an OpenAI-compatible server, and which settings go with it."""

from collections.abc import Callable
from typing import Any, Literal

from tasks.kinds.models.llm import replies

Task = Literal["chat", "completion", "embedding"]
WRITING: tuple[Task, ...] = ("chat", "completion")
PATHS: dict[Task, str] = {
    "chat": "chat/completions",
    "completion": "completions",
    "embedding": "embeddings",
}
READ: dict[Task, Callable[..., list[Any]]] = {
    "chat": replies.read_chat,
    "completion": replies.read_completion,
    "embedding": replies.read_embeddings,
}
TASKS_OF_OPTIONS: dict[str, tuple[Task, ...]] = {
    **dict.fromkeys(("temperature", "max_tokens", "top_p", "seed", "stop"), WRITING),
    "response_format": ("chat",),
    "dimensions": ("embedding",),
}
TASKS_OF_FIELDS: dict[str, tuple[Task, ...]] = {
    **dict.fromkeys(("image_column", "prompt", "system_prompt"), ("chat",)),
    "answer_schema": WRITING,
}
