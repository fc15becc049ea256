"""Values as keys of what is remembered about them, by the very object."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Same(Generic[T]):
    """A value as a key of what is remembered about it: only the very same object is equal. It is kept, so its id is its own."""

    __slots__ = ("it",)

    def __init__(self, it: T):
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.it is other.it

    def __hash__(self) -> int:
        return id(self.it)
