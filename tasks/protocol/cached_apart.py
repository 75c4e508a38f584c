"""A property that is computed once for each object."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class cached_apart(Generic[T]):  # named as functools' own, in whose place it stands
    """As `functools.cached_property`, whose lock, before Python 3.12, all objects share.

    By that one file at a time would be read, whichever threads ask for those of a thousand runs.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Learn under which name."""
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        """Compute it: from then on the object's own comes before this."""
        found = instance.__dict__[self.name] = self.compute(instance)
        return found
