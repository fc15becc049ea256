"""Spark's types inside the translation."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slackwater.kernels.types import name_and_type, split


class NotTranslatable(Exception):
    """No faithful translation exists; the message says what stands in the way."""


@dataclass(frozen=True)
class Decimal:
    """``decimal(precision, scale)``."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
FRACTIONS = ("float", "double")
# what holds exactly as many digits as a decimal of each integer type needs
INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
DUCK = {
    "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT",
    "float": "FLOAT", "double": "DOUBLE", "string": "VARCHAR", "boolean": "BOOLEAN",
    "date": "DATE", "timestamp": "TIMESTAMPTZ", "timestamp_ntz": "TIMESTAMP", "binary": "BLOB",
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)$")


def decimal_of(type: str) -> Decimal | None:
    """The decimal type of that name, or None."""
    match = _DECIMAL.match(type)
    return Decimal(int(match.group(1)), int(match.group(2))) if match else None


def duck_type(type: str) -> str:
    """DuckDB's name of an atomic type."""
    number = decimal_of(type)
    if number is not None:
        return f"DECIMAL({number.precision},{number.scale})"
    if type not in DUCK:
        raise NotTranslatable(f"type {type}")
    return DUCK[type]


def fields_of_struct(type: str) -> list[tuple[str, str]]:
    """Names and types of a struct's fields."""
    if not type.startswith("struct<"):
        raise NotTranslatable(f"{type} has no fields")
    body = type[len("struct<") : -1]
    return [name_and_type(piece) for piece in split(body)] if body else []
