"""How transcripts write it, and how their executors run it; lines for the testing kit, which workers do not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.kernels.rows import sort
from slackwater.model.names import TIME
from slackwater.model.node import Node
from slackwater.semantics.limits import shift
from slackwater.testing.executors.kernel_tables import entering, numbered, timed
from slackwater.testing.executors.kernels import RUNS, KernelMachine
from slackwater.testing.executors.spark import CALLS
from slackwater.testing.oracle.operators.registry import OPERATORS
from slackwater.testing.transcripts.query import STEPS, Form, QueryBuilder
from tests.toy import definition
from tests.toy.model import Delay


def _built(builder: QueryBuilder, step: Mapping[str, Any], node: Node) -> Node:
    return Delay(node.schema, node.times, node, node.times[0].name, step["delay"])


def _called(surface: Any, step: Mapping[str, Any], s: Any) -> Any:
    node = s._node
    return s._with(Delay(node.schema, node.times, node, node.times[0].name, step["delay"]))


def _run(
    machine: KernelMachine,
    node: Delay,
    inputs: list[pa.Table],
    after: Sequence[Mapping[str, int]],
) -> pa.Table:
    child = machine.below(node)
    old, new = (shift(b[child][node.on], -node.by) for b in (machine.before, after))
    rows = timed(node.child, entering(inputs[0], node.on), node.on)
    stored = machine.kept.get(id(node), rows.schema.empty_table())
    done = sort.step(rows, stored, old, new)
    stored = pa.concat_tables([stored, done.keep])
    machine.kept[id(node)] = stored.filter(pc.greater_equal(stored[TIME], max(old, new)))
    return numbered(done.ordered.drop_columns([TIME]))


OPERATORS[Delay] = definition
STEPS[Delay] = Form(("delay",), _built)
CALLS[Delay] = _called
RUNS[Delay] = _run
