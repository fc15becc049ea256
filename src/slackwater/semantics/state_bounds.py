"""What keeps an operator's state from growing for ever, for people.

Bounds and patterns free what they complete. Whether they do is for `contracts` to say, before a query runs.
"""

from __future__ import annotations

from slackwater.model.node import Node
from slackwater.semantics.operators.registry import RULES


def freed_by(node: Node) -> str:
    """What a stateful operator keeps, and what frees it."""
    return RULES[type(node)].keeps(node)
