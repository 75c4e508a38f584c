"""Images that a model is shown beside what it is asked, as URLs within its messages."""

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tasks.kinds.column_types import is_deep, is_list, is_text
from tasks.kinds.columns import column_to_numpy
from tasks.kinds.images import decode_image
from tasks.kinds.models.arrays import column_of
from tasks.kinds.models.input_types import refuse_other_than_images
from tasks.kinds.models.llm.conversations import Conversation
from tasks.kinds.models.vision.pixels import as_rgb

Shown: TypeAlias = bytes | str | np.ndarray
"""A file, a URL, or pixels."""
KNOWN_FORMATS = re.compile(
    rb"(?P<jpeg>\xff\xd8\xff)|(?P<png>\x89PNG\r\n\x1a\n)|(?P<gif>GIF8)|(?P<webp>RIFF.{4}WEBP)",
    re.DOTALL,
)
"""How files begin that all vision models' servers read."""
URL = re.compile(r"(?i:https?://)|(?i:data:image/)[^,]*;base64,")
SENT_IMAGE = re.compile(r'data:image/[^,"]*;base64,[^"]+')
TOKENS_OF_IMAGE = 1_000
"""About, of a photo; what it really was, the server says."""


@dataclass(frozen=True)
class Illustrated:
    """A conversation and its image, which becomes a part of it no sooner than it is sent.

    As text it takes a third more, and of a call's rows a server is sent a few at a time.
    """

    messages: Conversation
    image: Shown | None
    column: str
    """That the image is from, for messages."""

    @property
    def url(self) -> str:
        """The image as a URL that stands in a message.

        Raises:
            ValueError: there is no image.
        """
        if self.image is None:
            raise ValueError(f"column {self.column!r} is empty in this row; it must be an image")
        return url_of(self.image, self.column)

    def as_sent(self) -> Conversation:
        """The messages, with the image before what the user says last.

        Raises:
            ValueError: there is no image, or nothing that the user says.
        """
        said = [at for at, each in enumerate(self.messages) if each["role"] == "user"]
        if not said:
            raise ValueError("this row has no user message, but its image belongs in one")
        last = self.messages[said[-1]]
        text = last.get("content") or []
        parts = text if isinstance(text, list) else [{"type": "text", "text": text}]
        image = {"type": "image_url", "image_url": {"url": self.url}}
        shown = {**last, "content": [image, *parts]}
        return [*self.messages[: said[-1]], shown, *self.messages[said[-1] + 1 :]]


def illustrated(prompts: Sequence[Any], rows: pa.Table, column: str) -> list[Any]:
    """Conversations with each row's image; what is none sets its row aside already.

    Raises:
        InvalidSpec: the column holds neither images nor their URLs.
    """
    images = column_of(rows, column)
    refuse_other_than_shown(images.type, column)
    values = column_to_numpy(images) if has_arrays(images.type) else images.to_pylist()
    return [
        prompt if isinstance(prompt, ValueError) else Illustrated(prompt, image, column)
        for prompt, image in zip(prompts, values, strict=True)
    ]


def has_arrays(kind: pa.DataType) -> bool:
    """Whether a column holds what a step has made of images."""
    return is_deep(kind) or is_list(kind)


def refuse_other_than_shown(kind: pa.DataType, column: str) -> None:
    """See that a column may be one of images, or of their URLs.

    Raises:
        InvalidSpec: it holds something else.
    """
    if not is_text(kind):
        refuse_other_than_images(kind, column, "model.image_column")


def url_of(image: Shown, column: str) -> str:
    """An image as the URL that stands in a message.

    Raises:
        ValueError: it is none.
    """
    if isinstance(image, str):
        if not URL.match(image.strip()):
            problem = f"has {image[:80]!r} in this row, which is not the URL of an image: it must "
            problem += "begin with http://, https:// or data:image/png;base64, or the like"
            raise ValueError(f"column {column!r} {problem}")
        return image.strip()
    if isinstance(image, np.ndarray):
        return data_url(as_png(as_rgb(image, column)), "png")
    known = KNOWN_FORMATS.match(image)
    if known is None:
        return data_url(as_png(decode_image(image)), "png")
    return data_url(image, str(known.lastgroup))


def data_url(file: bytes, kind: str) -> str:
    """A file as a URL that holds it."""
    return f"data:image/{kind};base64,{base64.b64encode(file).decode()}"


def as_png(pixels: np.ndarray) -> bytes:
    """Pixels as a file of PNG, none of them changed."""
    from PIL import Image

    written = io.BytesIO()
    Image.fromarray(pixels).save(written, "PNG", compress_level=1)
    return written.getvalue()
