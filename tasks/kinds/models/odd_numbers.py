"""Numbers that no model is to get, and such as none is to make: a row with one is set aside."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt


def refuse_no_truth(values: np.ndarray, name: str) -> None:
    """See that numbers which are to be truth values are 0 or 1: any other would be true.

    Raises:
        ValueError: one is neither.
    """
    if not ((values == 0) | (values == 1)).all():
        raise ValueError(
            f"column {name!r} has a value other than 0 and 1, but the model takes truth values: "
            "make it true or false in a step"
        )


def refuse_overflow(values: np.ndarray, cast: np.ndarray, name: str) -> None:
    """See that no number became infinite; of float16 they do above 65,504, of float32 at 3.4e38.

    Raises:
        ValueError: one did.
    """
    if (np.isinf(cast) & ~np.isinf(values)).any():
        raise too_large(f"column {name!r}", cast.dtype)


def too_large(where: str, dtype: object) -> ValueError:
    """What to say of a row with a number that would be infinite to the model."""
    return ValueError(
        f"{where} has a number too large for {dtype}, which the model takes: scale it, or use a "
        "model with a wider type"
    )


def refuse_no_numbers(
    values: np.ndarray,
    name: str,
    are_finite: Callable[[], npt.NDArray[np.bool_]],
    *,
    are_half: bool = False,
) -> None:
    """See that a model made no NaN and no infinity of rows in which there is neither.

    What holds one may well lead to one; and -inf is the logarithm of what cannot be. In float16 it
    is that beside a number, as that of a hopeless class is; alone it is what any number below
    -65,504 becomes, a logarithm too.

    Args:
        values: an output, rows first.
        name: of its column.
        are_finite: which rows the model was given finite numbers of; asked only where need be.
        are_half: whether they were float16 when they were made.

    Raises:
        ValueError: it did.
    """
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    rows = values.reshape(len(values), -1)
    odd = (np.isnan(rows) | np.isposinf(rows)).any(axis=1)
    if are_half:
        odd |= np.isneginf(rows).all(axis=1)
    if (odd & are_finite()).any():
        raise ValueError(
            f"the model made NaN or infinity, as {name!r}, from this row, which has neither: it "
            "divides by zero, or numbers overflowed, in float16 above 65,504; scale the inputs, "
            "or change the model's precision"
        )


def finite_rows(values: np.ndarray) -> npt.NDArray[np.bool_]:
    """Which rows of an array hold neither NaN nor infinity; whatever is no fraction does not."""
    if values.dtype.kind != "f":
        return np.ones(len(values), np.bool_)
    found: npt.NDArray[np.bool_] = np.isfinite(values).reshape(len(values), -1).all(axis=1)
    return found
