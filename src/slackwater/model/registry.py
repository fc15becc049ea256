"""Registries: what a layer knows of each type of operator or window, by that type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn, TypeVar

from slackwater.errors import AnalysisError

T = TypeVar("T")


class Registry(dict[type, T]):
    """What ``module`` gives for each type, looked up by the very type: a subclass has an entry of its own.

    A type without an entry is an error that says where the entry is to be made. ``tests/test_registries.py`` finds
    such types before a query does.

    >>> Registry("shops.prices", {int: "cheap"})[int]
    'cheap'
    >>> Registry("shops.prices", {int: "cheap"})[bool]
    Traceback (most recent call last):
    slackwater.errors.AnalysisError: [UNKNOWN_TYPE] bool has no entry in src/shops/prices.py
      to fix: add what that module needs to know of bool, as it has for other types
    """

    def __init__(self, module: str, entries: Mapping[type, T]):
        super().__init__(entries)
        self.module = module

    @property
    def file(self) -> str:
        """The file that holds the entries."""
        return f"src/{self.module.replace('.', '/')}.py"

    def __missing__(self, type: type) -> NoReturn:
        name = type.__name__
        raise AnalysisError(
            "UNKNOWN_TYPE",
            f"{name} has no entry in {self.file}",
            hint=f"add what that module needs to know of {name}, as it has for other types",
            type=name,
            file=self.file,
        )
