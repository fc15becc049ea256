"""What the plan asks of each type of node. An entry of the registry is a module that has these functions."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

from slackwater.engine.plan.read_columns import Columns
from slackwater.engine.plan.steps import Step
from slackwater.model.node import Node
from slackwater.model.schema import Field

N = TypeVar("N", bound=Node, contravariant=True)


class Below(NamedTuple):
    """What a row operator does to the rows of one child on their way up.

    ``on`` is the child's column from which the wanted time comes, after which ``shift`` ticks are added.
    """

    child: Node
    on: str
    steps: tuple[Step, ...] = ()
    shift: int = 0


class RowOperator(Protocol[N]):
    """An operator that holds no state: it becomes steps on paths."""

    def below(self, node: N, on: str) -> tuple[Below, ...]:
        """The ways to its children, where time column ``on`` is wanted of it."""


class Producer(Protocol[N]):
    """A node at which paths start."""

    def raw_fields(self, node: N) -> tuple[Field, ...]:
        """Columns of its table before the steps of a path."""

    def finishing(self, node: N) -> tuple[Step, ...]:
        """The first steps of each of its paths: from what its kernel gives to the user's columns."""


class Stateful(Protocol[N]):
    """An operator that holds state, and so stands on a level."""

    def times(self, node: N) -> tuple[str, ...]:
        """The progressing column of each input."""

    def results(self, node: N, name: str) -> tuple[str, ...]:
        """Names under which its results leave; ``name`` is its own."""

    def reads(self, node: N, input: int) -> Columns:
        """The columns that it reads of the rows of an input."""
