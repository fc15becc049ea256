"""Whether progress records are what ``docs/progress.schema.json`` says."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parent.parent / "docs" / "progress.schema.json"

SEEN = {
    "description", "title", "$schema", "$defs", "type", "required", "properties", "additionalProperties", "items",
    "minProperties", "minItems", "minLength", "minimum", "maximum", "pattern",
}  # fmt: skip
"""Words of the schema that a part of a record tells enough for; values under any other word are compared whole."""


@lru_cache(maxsize=1)
def validator() -> Any:
    """What checks a record against the schema."""
    jsonschema = pytest.importorskip("jsonschema")
    return jsonschema.Draft202012Validator(json.loads(FILE.read_text(encoding="utf-8")))


@lru_cache(maxsize=1)
def _limits() -> list[float]:
    """All numbers that the schema compares with, rising."""

    def numbers(value: Any) -> Iterator[float]:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            for v in value:
                yield from numbers(v)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield value

    return sorted({0.0, 1.0, *numbers(validator().schema)})


def parts_of(value: Any, schema: Any, place: str = "") -> Iterator[tuple[Any, ...]]:
    """All that the schema can see of a value, each part with its place in the schema.

    No rule of the schema is about two parts at once. So a record is right whose parts all were in right records.
    """
    if not isinstance(schema, bool) and "$ref" in schema and set(schema) <= {"$ref", "description"}:
        place = schema["$ref"]
        schema = validator().schema["$defs"][place.removeprefix("#/$defs/")]
    if isinstance(schema, bool):
        return  # what an object has beside its named fields is a part of the object
    if "oneOf" in schema:
        yield place, *(frozenset(parts_of(value, s, str(i))) for i, s in enumerate(schema["oneOf"]))
    elif not set(schema) <= SEEN:
        yield place, json.dumps(value, sort_keys=True)
    elif isinstance(value, dict):
        fields, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        known = {*fields, *schema.get("required", ())}
        named = frozenset(known.intersection(value))
        yield place, "object", named, min(len(value), 1), len(value) > len(named)
        for key, v in value.items():
            if key in fields:
                yield from parts_of(v, fields[key], f"{place}/{key}")
            else:
                yield from parts_of(v, others, f"{place}/*")
    elif isinstance(value, list):
        yield place, "list", min(len(value), 1)
        for v in value:
            yield from parts_of(v, schema.get("items", True), f"{place}/-")
    elif isinstance(value, str):
        yield place, "text", min(len(value), 1), bool(re.search(schema.get("pattern", ""), value))
    elif value is None or isinstance(value, bool):
        yield place, value
    else:
        whole, limits = float(value).is_integer(), _limits()
        yield place, "number", whole, bisect_left(limits, value), bisect_right(limits, value)


_checked: set[tuple[Any, ...]] = set()
"""Parts of records that are what the schema says."""


def check_progress(record: dict[str, Any]) -> None:
    """Fail unless a progress record is what the schema says."""
    record = json.loads(json.dumps(record))  # as a program that reads it from a file sees it
    parts = set(parts_of(record, validator().schema))
    if parts <= _checked:
        return
    errors = [f"{e.json_path}: {e.message}" for e in validator().iter_errors(record)]
    assert not errors, "\n".join(errors)
    _checked.update(parts)


def check_part(name: str, part: Any) -> None:
    """Fail unless a field of a progress record is what the schema says."""
    schema = validator().schema
    own = {**schema["properties"][name], "$defs": schema["$defs"]}
    errors = [
        f"{e.json_path}: {e.message}" for e in validator().evolve(schema=own).iter_errors(part)
    ]
    assert not errors, "\n".join(errors)
