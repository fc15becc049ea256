"""Functions of a user that travel by value: a worker need not have the module they come from."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import lru_cache
from typing import Any


@dataclass(frozen=True)
class ByValue:
    """The function at place ``at`` of a pickled tuple."""

    code: bytes
    at: int

    def __call__(self, *args: Any) -> Any:
        return _loaded(self.code)[self.at](*args)

    def __repr__(self) -> str:
        return f"ByValue({self.at})"


@lru_cache(maxsize=64)
def _loaded(code: bytes) -> tuple[Any, ...]:
    values: tuple[Any, ...] = pickle.loads(code)
    return values
