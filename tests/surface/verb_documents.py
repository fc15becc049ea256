"""What commands print with ``--json``, against the schemas of the documentation."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "commands.schema.json"


@cache
def schemas() -> dict[str, Any]:
    """All of the file."""
    return dict(json.loads(SCHEMA.read_text(encoding="utf-8")))


def check_document(verb: str, printed: str) -> Any:
    """The document that a verb printed, which is what its schema says."""
    document = json.loads(printed)
    whole = schemas()
    errors = Draft202012Validator({**whole, "$ref": f"#/$defs/{verb}"}).iter_errors(document)
    assert not (texts := [f"{e.json_path}: {e.message}" for e in errors]), "\n".join(texts)
    return document
