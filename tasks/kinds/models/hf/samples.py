"""Sounds as samples at a model's rate: of files, or of a column that a step has made."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.audio import Samples, audio_rate, decode_audio, refuse_too_many
from tasks.kinds.column_types import is_any_list, is_media
from tasks.kinds.models.arrays import column_of
from tasks.kinds.models.model import Function
from tasks.kinds.models.torch_threads import shared_out
from tasks.kinds.tensors import tensor_array

FEATURES = "__features"
"""What a model listens to of each sound."""
LOUDEST = 8
"""Floats may leave -1 to 1 by some decibels; samples of 8 bits and more go far beyond."""


def features_function(
    listen: Callable[[Samples], np.ndarray], sampling_rate: int, column: str, num_threads: int
) -> Function:
    """Sounds to `__features`.

    Args:
        listen: what a model listens to, of a sound's samples.
        sampling_rate: of these, in Hz.
        column: of the sounds.
        num_threads: that they are shared out among.
    """

    def preprocess(rows: pa.Table) -> pa.Table:
        sounds = column_of(rows, column).to_pylist()
        refuse_other_rate(rows.schema.field(column), sampling_rate)
        features, size = list[np.ndarray](), 0
        for each in sounds:
            features.append(listen(samples_of(each, sampling_rate, column)))
            size += features[-1].nbytes
            refuse_too_many(len(features), len(sounds), size)
        return rows.append_column(FEATURES, tensor_array(features))

    return shared_out(preprocess, num_threads)


def refuse_other_rate(field: pa.Field, sampling_rate: int) -> None:
    """See that samples which a step was given by the source have the model's rate.

    Files are decoded at that rate whatever the source says; what is called otherwise is the step's.

    Raises:
        InvalidSpec: they have another, so that the model would hear something else.
    """
    rate = audio_rate(field)
    if is_any_list(field.type) and is_media(field) and rate != sampling_rate:
        problem = (
            f"has samples of {rate:,} Hz, but the model needs {sampling_rate:,} Hz: set "
            f"source.sampling_rate: {sampling_rate}; or, if a step resamples them, return them in "
            "another column and set that here"
        )
        raise InvalidSpec.at("model.column", field.name, problem)


def samples_of(sound: Any, sampling_rate: int, column: str) -> Samples:
    """A sound file's samples at the model's rate; those of a column of a step's own have it.

    Raises:
        ValueError: there are none, or they are no sound.
    """
    given = decode_audio(sound, sampling_rate) if isinstance(sound, bytes) else sound
    if given is None or not np.size(given):
        raise ValueError(f"column {column!r} is empty in this row; it must be a sound")
    samples = np.asarray(given)
    if not (samples.ndim == 1 and samples.dtype.kind in "fiu" and are_sound(samples)):
        wanted = "it must be a sound file, or a list of samples between -1 and 1"
        raise ValueError(f"column {column!r} has no sound in this row; {wanted}")
    return samples.astype(np.float32, copy=False)


def are_sound(samples: np.ndarray) -> bool:
    """Whether samples are numbers near -1 to 1, and not the whole numbers that recorders give."""
    return bool((np.abs(samples.astype(np.float64)) <= LOUDEST).all())  # NaN is not
