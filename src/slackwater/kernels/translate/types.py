"""Spark's types inside the translation."""

from __future__ import annotations

import re
from dataclasses import dataclass


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
    found = _DECIMAL.match(type)
    return Decimal(int(found.group(1)), int(found.group(2))) if found else None


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
    fields: list[tuple[str, str]] = []
    body, at = type[len("struct<") : -1], 0
    while at < len(body):
        name, at = _field_name(body, at)
        end = _type_end(body, at)
        fields.append((name, body[at:end]))
        at = end + 1
    return fields


def _field_name(body: str, at: int) -> tuple[str, int]:
    if body[at] == "`":
        found = re.compile(r"`((?:[^`]|``)*)`:").match(body, at)
        if found is None:
            raise NotTranslatable(f"field name in {body}")
        return found.group(1).replace("``", "`"), found.end()
    colon = body.index(":", at)
    return body[at:colon], colon + 1


def _type_end(body: str, at: int) -> int:
    depth, quoted = 0, False
    for i in range(at, len(body)):
        c = body[i]
        if c == "`":
            quoted = not quoted
        elif quoted:
            continue
        elif c in "<(":
            depth += 1
        elif c in ">)":
            depth -= 1
        elif c == "," and depth == 0:
            return i
    return len(body)
