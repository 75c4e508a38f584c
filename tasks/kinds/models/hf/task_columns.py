"""Which columns each task reads and adds, where a spec names none."""

from tasks.kinds.models.hf.options import Task
from tasks.kinds.models.output_names import (
    ANSWER,
    DEPTHS,
    EMBEDDING,
    ENTITIES,
    LABELS,
    OBJECTS,
    SEGMENTS,
    TEXT,
)

READ: dict[Task, str] = {
    "image-classification": "image",
    "image-feature-extraction": "image",
    "zero-shot-image-classification": "image",
    "object-detection": "image",
    "image-segmentation": "image",
    "depth-estimation": "image",
    "text-classification": "text",
    "token-classification": "text",
    "question-answering": "question",
    "zero-shot-classification": "text",
    "feature-extraction": "text",
    "text-generation": "prompt",
    "text2text-generation": "text",
    "summarization": "text",
    "translation": "text",
    "automatic-speech-recognition": "audio",
    "audio-classification": "audio",
}
SECOND: dict[Task, str] = {"question-answering": "context"}
"""Of tasks that always read two columns."""
ADDED: dict[Task, tuple[str, ...]] = {
    **dict.fromkeys(READ, TEXT),
    "image-classification": LABELS,
    "image-feature-extraction": EMBEDDING,
    "zero-shot-image-classification": LABELS,
    "object-detection": OBJECTS,
    "image-segmentation": SEGMENTS,
    "depth-estimation": DEPTHS,
    "text-classification": LABELS,
    "zero-shot-classification": LABELS,
    "audio-classification": LABELS,
    "token-classification": ENTITIES,
    "question-answering": ANSWER,
    "feature-extraction": EMBEDDING,
}
