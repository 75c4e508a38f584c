"""What is searched for: a text, an image or a vector, as a person writes it."""

import io
import json
import os
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tasks.errors import InvalidSpec, Unreachable
from tasks.kinds.models.model import Media
from tasks.kinds.sources.images import SUFFIXES
from tasks.protocol.storage import open_storage
from tasks.reporting.redaction import scrub
from tasks.searching.scoring import Vector, unit
from tasks.spec import BatchInferenceSpec

QueryForm = Literal["auto", "text", "image", "vector"]


@dataclass(frozen=True)
class MediaQuery:
    """A text or an image, which a model makes a vector of."""

    given: str
    media: Media
    content: str | bytes
    """The text, or the image file."""


@dataclass(frozen=True)
class VectorQuery:
    """A vector, of length 1."""

    given: str
    vector: Vector
    media: Literal["vector"] = "vector"


Query = MediaQuery | VectorQuery


def read_query(spec: BatchInferenceSpec, given: str, form: QueryForm = "auto") -> Query:
    """A query as it was written.

    Args:
        spec: says how storages are reached.
        given: a text; a file or URL of an image, or of a vector in NumPy's .npy; or a vector as
            a JSON list.
        form: which of these it is; `auto` goes by how it looks.

    Raises:
        InvalidSpec: it is empty, is not what it should be, or names a file that is not there.
        Unreachable: the file's storage does not answer.
    """
    form = form_of(given) if form == "auto" else form
    if not given.strip():
        raise InvalidSpec.at("query", given, "is empty; give a text, an image file or a vector")
    if form == "text":
        return MediaQuery(given, "text", given)
    if form == "image":
        return MediaQuery(given, "image", read_file(spec, given))
    try:
        values = json.loads(given) if is_list(given) else read_npy(read_file(spec, given))
        return VectorQuery(given, unit(values))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        problem = f"is not a vector: {error}; to search for it as a text, use --as text"
        raise InvalidSpec.at("query", shortened(given), problem) from error


def form_of(given: str) -> Literal["text", "image", "vector"]:
    """What a query looks like."""
    if is_list(given) or given.lower().endswith(".npy"):
        return "vector"
    is_image = given.lower().endswith(SUFFIXES) or os.path.isfile(given)
    return "image" if is_image else "text"


def is_list(given: str) -> bool:
    """Whether it is written as a JSON list."""
    return given.lstrip().startswith("[") and given.rstrip().endswith("]")


def read_npy(content: bytes) -> Any:
    """The one vector of a .npy file, also where it is a matrix of one row.

    Raises:
        ValueError: it is no such file, or holds Python objects, which are never loaded.
    """
    values = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    return values[0] if values.ndim == 2 and len(values) == 1 else values


def read_file(spec: BatchInferenceSpec, path: str) -> bytes:
    """A file's content; an object store is reached with the options of source or sink.

    Raises:
        InvalidSpec: it is not there.
        Unreachable: its storage does not answer.
    """
    places = [(each, spec.source.storage_options) for each in spec.source.paths]
    places.append((spec.sink.path, spec.sink.storage_options))
    scheme = path.partition("://")[0]
    same = [given for url, given in places if "://" in path and url.startswith(f"{scheme}://")]
    try:
        storage, name = open_storage(path, same[0] if same else {})
        return storage.read(name)
    except (FileNotFoundError, IsADirectoryError, ValueError, ImportError) as error:
        said = scrub(str(error), spec)
        problem = f"cannot be read as a file ({said}); to search for it as a text, use --as text"
        raise InvalidSpec.at("query", scrub(path, spec), problem) from None
    except Exception as error:
        said = scrub(f"{path!r} cannot be reached: {error}", spec)
        raise Unreachable(f"query: {said}") from None


def shortened(given: str) -> str:
    """Enough of a query to know it by."""
    return given if len(given) <= 80 else f"{given[:80]}…"
