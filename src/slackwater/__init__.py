"""Slackwater: window queries over out-of-order streams, on Spark Structured Streaming.

``import slackwater as sw`` does not import PySpark; the names that need it load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slackwater.errors import (
    AnalysisError,
    CheckpointError,
    ExecutionError,
    LateRowError,
    SetupError,
    SlackwaterError,
)
from slackwater.model.policy import (
    BoundedDelay,
    BoundedLatency,
    BoundedRows,
    MaxDelay,
    Ordered,
    Punctuated,
    Quality,
)
from slackwater.surface.bands import band
from slackwater.surface.check_punctuation import checkPunctuation
from slackwater.surface.conditions import condition
from slackwater.surface.functions import heavyHitters, udaf
from slackwater.surface.windows import (
    byTuple,
    customWindow,
    landmark,
    linearWindow,
    rows,
    sessionWindow,
    window,
)

if TYPE_CHECKING:
    from slackwater.engine.driver.handle import StreamingQuery
    from slackwater.sources.read_stream import readStream
    from slackwater.sources.replay import replay
    from slackwater.surface.check import CheckReport, ContractWarning, check
    from slackwater.surface.feedback import attach, ignore, only
    from slackwater.surface.join import joinAll
    from slackwater.surface.relation import Relation, relation
    from slackwater.surface.session import session
    from slackwater.surface.source import stream
    from slackwater.surface.sql.one_query import sql
    from slackwater.surface.sql.paced import paced
    from slackwater.surface.sql.script import script
    from slackwater.surface.start import start
    from slackwater.surface.stream import Stream

__version__ = "0.1.0"

_LAZY = {
    "session": "slackwater.surface.session",
    "stream": "slackwater.surface.source",
    "attach": "slackwater.surface.feedback",
    "ignore": "slackwater.surface.feedback",
    "only": "slackwater.surface.feedback",
    "joinAll": "slackwater.surface.join",
    "Relation": "slackwater.surface.relation",
    "relation": "slackwater.surface.relation",
    "start": "slackwater.surface.start",
    "sql": "slackwater.surface.sql.one_query",
    "paced": "slackwater.surface.sql.paced",
    "script": "slackwater.surface.sql.script",
    "check": "slackwater.surface.check",
    "CheckReport": "slackwater.surface.check",
    "ContractWarning": "slackwater.surface.check",
    "readStream": "slackwater.sources.read_stream",
    "replay": "slackwater.sources.replay",
    "Stream": "slackwater.surface.stream",
    "StreamingQuery": "slackwater.engine.driver.handle",
}

__all__ = [
    "AnalysisError", "BoundedDelay", "BoundedLatency", "BoundedRows", "CheckReport", "CheckpointError", "ContractWarning",
    "ExecutionError", "LateRowError",
    "MaxDelay", "Ordered", "Punctuated", "Quality", "Relation", "SetupError", "SlackwaterError", "Stream", "StreamingQuery",
    "attach", "band", "check", "checkPunctuation", "condition", "heavyHitters", "ignore", "joinAll", "only", "paced", "readStream",
    "relation", "replay", "script", "session", "sql",
    "start", "stream", "udaf", "window",
    "byTuple", "customWindow", "landmark", "linearWindow", "rows", "sessionWindow",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'slackwater' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
