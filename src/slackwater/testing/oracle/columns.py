"""Columns of an operator as columns of what it reads, for the oracle."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slackwater.model.node import Aggregate
from slackwater.model.schema import Expr

_NAME = re.compile(r"`(.+)`|(\w+)")


def plain(expr: Expr) -> str | None:
    """The column that an expression just is, or None."""
    m = _NAME.fullmatch(expr.sql.strip())
    return None if m is None else m[1] or m[2]


def ungrouped(node: Aggregate, known: Mapping[str, Any]) -> dict[str, Any]:
    """What values of group columns say of the input's."""
    names = [(plain(k.expr), k.name) for k in node.keys]
    return {old: known[new] for old, new in names if old is not None and new in known}
