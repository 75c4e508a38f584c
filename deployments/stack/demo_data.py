"""The data and models that the shipped specs name, so that a fresh clone has something to run."""

from collections.abc import Callable
from pathlib import Path

from flows.demo_data import prepare_digits
from flows.demo_texts import prepare_texts


def prepare_data(folder: Path, tell: Callable[[str], None]) -> None:
    """Write them, unless they are there.

    Args:
        folder: the stack's.
        tell: is told what is going on.

    Raises:
        InvalidSpec: scikit-learn is not installed.
    """
    tell("preparing digits and texts, with a small model for each")
    prepare_digits(folder / "data/digits")
    prepare_texts(folder / "data/texts")
