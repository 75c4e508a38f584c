"""Finds the user's own functions and classes in an estimator.

Its file holds their import paths alone, and not what they do.
"""

import os
import pickle
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.user_modules import is_own


class Looking(pickle.Pickler):
    """Goes through an object as pickle does, and notes the functions and classes on the way."""

    def __init__(self, file: Any) -> None:
        # Arrays are most of a model: they stay where they are.
        super().__init__(file, protocol=5, buffer_callback=lambda _: None)
        self.found: dict[str, None] = {}

    def reducer_override(self, obj: Any) -> Any:
        """Take down what code is named by its import path, and stand a number in for it.

        And for what cannot be written, as a lock that was made when the file was read: what comes
        after it is to be seen, too.
        """
        if obj is int:
            return NotImplemented
        if not isinstance(obj, (type, FunctionType)):
            self.note(type(obj))
            return NotImplemented if can_be_written(obj) else (int, ())
        self.note(obj)
        return int, ()

    def note(self, code: Any) -> None:
        """Take down a function or class."""
        self.found[f"{code.__module__}.{code.__qualname__.partition('.')[0]}"] = None


def can_be_written(obj: Any) -> bool:
    """Whether pickle knows how to take an object apart."""
    try:
        obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    except Exception:  # of whatever kind, as its own code raises it
        return False
    return True


def own_names(estimator: Any) -> list[str]:
    """Import paths of the user's own functions and classes in it, such as features.log_scale."""
    with open(os.devnull, "wb") as nowhere:
        looking = Looking(nowhere)
        looking.dump(estimator)
    return [name for name in looking.found if is_own(name)]


def references(names: list[str]) -> Iterator[str]:
    """Those of import paths that are the user's own, as `module:name`."""
    for name in filter(is_own, names):
        yield ":".join(name.rsplit(".", 1))


def refuse_unnamed(estimator: Any, trusted: list[str]) -> None:
    """See that the user's own code in an estimator is named in the spec.

    Else a change of it would count for nothing, and two nights' predictions be mixed.

    Raises:
        InvalidSpec: it is not; names it.
    """
    if lacking := sorted({*own_names(estimator)} - {*trusted}):
        problem = (
            f"lacks code of yours that the model uses: add {', '.join(lacking)}, so that changes "
            "to it are noticed and clusters get it"
        )
        raise InvalidSpec.at("model.trusted", trusted, problem)
