"""From what a model of tensors returns to output columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tasks.counted import counted
from tasks.errors import InvalidSpec, UserCodeBroke
from tasks.kinds.models.arrays import Columns, label_columns, prediction_column
from tasks.kinds.models.odd_numbers import finite_rows, refuse_no_numbers

Activation = Literal["softmax", "sigmoid", "none"]
TELLING_ROWS = 4
"""Rows whose logits would not all add up to 1 by chance."""
TELLING_CLASSES, TELLING_SCORES, UNLIKELY = 3, 48, 0.05
"""Of so many classes and different scores, logits would not all lie between 0 and 1 by chance where
some are next to 0. Those of fewer classes may, of a model that can hardly tell rows apart."""


@dataclass
class Seen:
    """What a model's scores have told so far."""

    are_logits: bool = False
    """Whether some were no probabilities: then others that could be some, as those of one scene's
    frames, which are all alike, are none."""


def named(returned: Any, wanted: Sequence[str], rows: int) -> dict[str, Any]:
    """A model's outputs by name: those of a dict or named tuple by theirs, others by number.

    Args:
        returned: a tensor, or a dict, tuple or list of them.
        wanted: names of those to keep; empty: all.
        rows: that the model was given.

    Raises:
        InvalidSpec: a wanted one is not there.
        UserCodeBroke: one is no tensor, or has not one value for each row.
    """
    outputs = by_name(returned)
    if missing := [name for name in wanted if name not in outputs]:
        raise InvalidSpec.at("model.outputs", missing[0], f"is not among {[*outputs]}")
    return {name: of_rows(name, outputs[name], rows) for name in wanted or outputs}


def of_rows(name: str, values: Any, rows: int) -> Any:
    """An output with a value for each row; of a batch of one row all of it is that row's.

    There `squeeze` takes the dimension of rows away as well. One of length 1 that stands first is
    taken for that of rows.

    Raises:
        UserCodeBroke: it is no tensor, or has not one value for each row.
    """
    shape = getattr(values, "shape", None)
    if shape is None:
        kind = type(values).__name__
        problem = f"the model's output {name!r} is of type {kind}: leave it out in model.outputs"
        raise UserCodeBroke(problem)
    if rows == 1 and (not len(shape) or shape[0] > 1):
        return values[None]
    if not len(shape) or shape[0] != rows:
        raise UserCodeBroke(
            f"the model's output {name!r} is of shape {tuple(shape)} for "
            f"{counted(rows, 'row')}: its first dimension must be rows"
        )
    return values


def by_name(returned: Any) -> dict[str, Any]:
    """Outputs by name."""
    if isinstance(returned, Mapping):
        return {str(name): values for name, values in returned.items()}
    if isinstance(returned, (tuple, list)):
        numbers = [f"output_{at}" for at in range(len(returned))]
        return dict(zip(getattr(returned, "_fields", numbers), returned, strict=True))
    return {"output": returned}


def prediction_columns(
    outputs: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]
) -> Columns:
    """One output as `prediction`, several under their names.

    Raises:
        ValueError: the model made NaN or infinity of a row's inputs, which hold neither.
    """
    names = [*outputs] if len(outputs) > 1 else ["prediction"]
    columns = {}
    for name, made in zip(names, outputs.values(), strict=True):
        values = widened(made)
        refuse_no_numbers(
            values,
            name,
            lambda: np.all([*map(finite_rows, inputs.values())], axis=0),
            are_half=made.dtype == np.float16,
        )
        columns[name] = prediction_column(values, len(values))["prediction"]
    return columns


def widened(values: np.ndarray) -> np.ndarray:
    """Floats of 16 bits as those of 32, which every reader of files knows."""
    return (
        values.astype(np.float32)
        if values.dtype.itemsize == 2 and values.dtype.kind in "fV"
        else values
    )


def classes(
    outputs: Mapping[str, np.ndarray],
    labels: Sequence[str],
    activation: Activation,
    top_k: int,
    seen: Seen,
) -> Columns:
    """The one output's best labels.

    Args:
        outputs: the model's, by name.
        labels: names of the classes.
        activation: makes probabilities of scores.
        top_k: so many labels of a row.
        seen: what earlier scores of the model have told; learns from these.

    Raises:
        InvalidSpec: there are several outputs, or texts, not one score for each label, or scores
            that are no logits.
    """
    if len(outputs) > 1:
        problem = f"are several, but labels need one: set one of {[*outputs]} in model.outputs"
        raise InvalidSpec.at("model.outputs", [*outputs], problem)
    ((name, scores),) = outputs.items()
    if scores.dtype.kind == "O":
        problem = (
            f"name the classes of scores, but the model's output {name!r} has texts, which "
            "already are labels: leave labels out, or set the output with the scores"
        )
        raise InvalidSpec.at("model.labels", [*labels], problem)
    scores = scores.reshape(len(scores), -1).astype(np.float32)
    if activation != "none":
        refuse_no_logits(scores, labels, activation, seen)
    scores = ACTIVATIONS[activation](scores)
    if scores.shape[1] == 1 and len(labels) == 2:  # one probability says both
        scores = np.concatenate([1 - scores, scores], axis=1)
    return label_columns(scores, labels, top_k)


def refuse_no_logits(
    scores: np.ndarray, labels: Sequence[str], activation: Activation, seen: Seen
) -> None:
    """See that an activation is not asked of what it makes no probabilities of.

    Args:
        scores: (rows, scores of a row).
        labels: names of the classes.
        activation: that is asked for.
        seen: what earlier scores have told; learns from these.

    Raises:
        InvalidSpec: a row has one score, which softmax makes 1 whatever it is; or the scores are
            probabilities already.
    """
    field, (rows, width) = "model.activation", scores.shape
    if activation == "softmax" and width == 1 and len(labels) <= 2:
        problem = (
            "turns a single score into 1, and the model gives one a row: set sigmoid, or none if "
            "its last layer is one"
        )
        raise InvalidSpec.at(field, "softmax", problem)
    least, most = scores.min(initial=1), scores.max(initial=0)
    seen.are_logits = seen.are_logits or bool(least < 0 or most > 1.001)
    if width == 1 or seen.are_logits:
        return
    problem = ""
    if rows >= TELLING_ROWS and np.allclose(scores.sum(axis=1), 1, atol=1e-3):
        problem = "the scores of each row add up to 1, as after a softmax"
    elif width >= TELLING_CLASSES and least < UNLIKELY and np.unique(scores).size >= TELLING_SCORES:
        problem = "all scores are between 0 and 1, as after a sigmoid"
    if problem:
        raise InvalidSpec.at(field, activation, f"is already applied, {problem}: set none")


def softmax(scores: np.ndarray) -> np.ndarray:
    """Probabilities that add up to one."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def sigmoid(scores: np.ndarray) -> np.ndarray:
    """A probability for each class on its own."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * scores)))


ACTIVATIONS: dict[Activation, Callable[[np.ndarray], np.ndarray]] = {
    "softmax": softmax,
    "sigmoid": sigmoid,
    "none": np.asarray,
}
