"""Operators of a query: an immutable tree that shares sub-trees. Users hold streams, never nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from slackwater.model import depth
from slackwater.model.aggregate import Primitive
from slackwater.model.join import Condition, How, MixedKey, Within, is_existence
from slackwater.model.meaning import Meaning
from slackwater.model.names import DELAYED, MATCHED
from slackwater.model.policy import Policy
from slackwater.model.reacting import USUAL, Reacting
from slackwater.model.relation import Relation
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import JointWindow, Window

# Who has a tree walks it: in the driver, and in tasks, which get it pickled.
depth.make_room()

LateSetting = Literal["admit", "drop", "raise"]

LATE_FIELDS = (
    Field("_late_reason", "string"),
    Field("_late_by", "bigint"),
    Field("_late_bound", "timestamp"),
    Field("_late_windows", "bigint"),
)


@dataclass(frozen=True)
class Node:
    """An operator: ``schema`` is what comes out, ``times`` its progressing columns (first = default).

    ``reacting`` is how it deals with feedback; two operators that differ in that alone are equal.
    """

    schema: tuple[Field, ...]
    times: tuple[TimeColumn, ...]
    reacting: Reacting = field(default=USUAL, kw_only=True, compare=False, repr=False)

    @property
    def children(self) -> tuple[Node, ...]:
        """The operators this one reads."""
        return ()

    def with_children(self, *new: Node) -> Node:
        """The same operator over other ``children``, which stand in the order of those it has."""
        assert not new and not self.children, f"{type(self).__name__} needs with_children"
        return self

    def field(self, name: str) -> Field | None:
        """The output column of that name, or None."""
        return next((f for f in self.schema if f.name == name), None)


@dataclass(frozen=True)
class Source(Node):
    """A stream at the edge. ``input`` is the index of the DataFrame or split source it reads.

    ``policies`` go with ``times`` one by one. ``order`` gives arrival order, ``partition`` the source's
    partition; ``partitions`` is how many must speak first, or their names. ``twin`` is the stream that this one differs
    from in its policies alone: a consumer of that stream has a slack of its own. ``moved_from`` is where the
    directory of its files was before. ``zone`` is the session's time zone, whose clock shows local times, and ``meaning``
    are its settings when the stream was made.
    """

    name: str = ""
    input: int = 0
    policies: tuple[Policy, ...] = ()
    late: LateSetting = "admit"
    order: tuple[str, ...] = ()
    partition: str | None = None
    partitions: int | tuple[str | None, ...] | None = None
    end_of_stream: bool = False
    replay: bool = False
    twin: str = ""
    moved_from: str | None = None
    zone: str = "UTC"
    meaning: Meaning | None = field(default=None, compare=False, repr=False)

    @property
    def given_name(self) -> str:
        """The name by which the user knows it: a twin goes by that of its stream."""
        return self.twin or self.name


@dataclass(frozen=True)
class Late(Node):
    """The late rows of a source, as a stream (``s.late``)."""

    source: Source = field(default=None)  # type: ignore[assignment]

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.source,)

    def with_children(self, *new: Node) -> Node:
        (source,) = new
        assert isinstance(source, Source)
        return replace(self, source=source)


class _OneChild:
    """For operators over one other."""

    child: Node

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.child,)

    def with_children(self, *new: Node) -> Node:
        (child,) = new
        return _with(self, child=child)


class _Readers:
    """For operators that hold what several others read: these have the children."""

    readers: tuple[tuple[str, Any], ...]

    @property
    def children(self) -> tuple[Node, ...]:
        return tuple(r.child for _, r in self.readers)

    def with_children(self, *new: Node) -> Node:
        # Rows come from where those of the first reader do.
        named = zip(self.readers, new, strict=True)
        readers = tuple((name, replace(reader, child=child)) for (name, reader), child in named)
        return _with(self, child=new[0], readers=readers)


def _with(node: Any, **changed: Any) -> Node:
    other: Node = replace(node, **changed)
    return other


@dataclass(frozen=True)
class Filter(_OneChild, Node):
    """Rows for which ``condition`` is true."""

    child: Node = field(default=None)  # type: ignore[assignment]
    condition: Expr = field(default=None)  # type: ignore[assignment]


@dataclass(frozen=True)
class Project(_OneChild, Node):
    """New columns from expressions. ``origins`` maps each progressing output column to
    (input column, shift in ticks): its bound is the input's plus the shift. Where no time is kept, the name of the
    one that rows are still judged by is empty: see `unnamed_time`.
    """

    child: Node = field(default=None)  # type: ignore[assignment]
    columns: tuple[Named, ...] = ()
    origins: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True)
class Union(Node):
    """The rows of several streams; bounds are the minimum. Holds no rows."""

    inputs: tuple[Node, ...] = ()

    @property
    def children(self) -> tuple[Node, ...]:
        return self.inputs

    def with_children(self, *new: Node) -> Node:
        return replace(self, inputs=new)


@dataclass(frozen=True)
class Dedup(_OneChild, Node):
    """The first row of each ``subset`` value; ``within`` ticks, or the subset holds the time ``on``."""

    child: Node = field(default=None)  # type: ignore[assignment]
    subset: tuple[str, ...] = ()
    within: int | None = None
    on: str = ""


@dataclass(frozen=True)
class Sort(_OneChild, Node):
    """Rows in order of the time ``on``, unblocked by bounds."""

    child: Node = field(default=None)  # type: ignore[assignment]
    on: str = ""


@dataclass(frozen=True)
class Pace(_OneChild, Node):
    """Rows whose time ``on`` is no more than ``limit`` ticks below the mark, the newest plausible time of the child's rows as it
    was when the batch began. With ``clock`` the clock's reading counts as one more time; ``zone`` is whose clock shows local times.
    """

    child: Node = field(default=None)  # type: ignore[assignment]
    on: str = ""
    limit: int = 0
    clock: bool = False
    zone: str = "UTC"

    @property
    def time(self) -> TimeColumn:
        """The time by which rows are judged."""
        return next(t for t in self.times if t.name == self.on)


@dataclass(frozen=True)
class Outpaced(Pace):
    """The other rows: those that a `Pace` with the same settings over the same child drops (``paced.late``)."""


@dataclass(frozen=True)
class SharedSort(_Readers, Sort):
    """Rows that wait for several sorts, each with a slack of its own. Made by the planner, not by users.

    Rows come from in front of the ``filters`` of each of the ``readers``, which are the sorts by name; bounds from the
    child of each. A row carries the ``bits`` of the sorts that want it; ``used`` bits have been given away so far.
    """

    readers: tuple[tuple[str, Sort], ...] = ()
    filters: tuple[tuple[Expr, ...], ...] = ()
    bits: tuple[int, ...] = ()
    used: int = 0


@dataclass(frozen=True)
class Aggregate(_OneChild, Node):
    """Aggregates per window and ``keys``.

    ``primitives`` are computed per (keys, window); ``outputs`` are the user's aggregate columns as
    expressions over the primitives' names and the key names. Output schema: keys, ``wid`` (not of
    sessions), ``window``, outputs; progressing column ``window``.
    """

    child: Node = field(default=None)  # type: ignore[assignment]
    keys: tuple[Named, ...] = ()
    window: Window = field(default=None)  # type: ignore[assignment]
    primitives: tuple[Primitive, ...] = ()
    outputs: tuple[Named, ...] = ()
    emit_empty: bool = False

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows of a result, one for each of ``times``."""
        w = self.window
        return w.windows if isinstance(w, JointWindow) else (w,)


@dataclass(frozen=True)
class SharedPanes(_Readers, Aggregate):
    """Panes of time that several aggregates over the same rows read. Made by the planner, not by users.

    ``window`` is one pane, ``readers`` are the aggregates by name. Rows come from ``child``, bounds from the child of
    each reader.
    """

    readers: tuple[tuple[str, Aggregate], ...] = ()


@dataclass(frozen=True)
class Join(Node):
    """Rows of several streams that match.

    ``keys`` are per input, equal in number; ``on`` is the time column per input and ``within`` how far apart
    in time partners may be. ``where`` is a further condition over the output's columns, part of the match.
    Inside the operator column ``c`` of input ``i`` is called `raw_name` (i, c); ``outputs`` make the user's
    columns of these. ``time_names`` is what each input's time is called in the output; a semi or anti join has the left
    one alone. Its ``where`` is over ``pair``, since a result lacks the right row's columns. ``memory`` bounds what
    a partition-group may hold, in bytes, and ``deadline`` how long a pair may wait for a pass over what is on
    disk, in microseconds; neither changes a result. ``mixed_keys`` are those whose types differ
    between the inputs. An output that is `DELAYED` says whether a pair came from a pass.
    """

    inputs: tuple[Node, ...] = ()
    keys: tuple[tuple[Named, ...], ...] = ()
    on: tuple[str, ...] = ()
    within: Within = field(default=None)  # type: ignore[assignment]
    how: How = "inner"
    where: Expr | Condition | None = None
    outputs: tuple[Named, ...] = ()
    time_names: tuple[str, ...] = ()
    memory: int | None = None
    deadline: int | None = None
    mixed_keys: tuple[MixedKey, ...] = ()
    pair: tuple[Named, ...] = ()

    @property
    def children(self) -> tuple[Node, ...]:
        return self.inputs

    def with_children(self, *new: Node) -> Node:
        return replace(self, inputs=new)

    @property
    def tested(self) -> tuple[Named, ...]:
        """The columns that ``where`` is over."""
        if is_existence(self.how):
            return self.pair
        return tuple(o for o in self.outputs if o.expr.sql != DELAYED_OUTPUT.expr.sql)

    @property
    def raw_fields(self) -> tuple[Field, ...]:
        """Columns of the operator's own table that ``outputs`` need."""
        columns = tuple(
            Field(raw_name(i, f.name), f.type)
            for i, (child, used) in enumerate(
                zip(self.inputs, self._used(self.outputs), strict=True)
            )
            for f in child.schema
            if f.name in used
        )
        return (*columns, Field(DELAYED, "boolean")) if self.marks_delayed else columns

    @property
    def marks_delayed(self) -> bool:
        """Whether a column says which pairs came from a pass."""
        return any(o.expr.sql == DELAYED_OUTPUT.expr.sql for o in self.outputs)

    @property
    def used(self) -> tuple[frozenset[str], ...]:
        """The columns of each input that ``outputs`` are made of, or that ``where`` needs."""
        return self._used((*self.outputs, *self.pair))

    def _used(self, columns: Sequence[Named]) -> tuple[frozenset[str], ...]:
        texts = [c.expr.sql for c in columns]

        def is_used(i: int, f: Field) -> bool:
            name = column(raw_name(i, f.name), f.type).sql
            return any(name in text for text in texts)

        return tuple(
            frozenset(f.name for f in child.schema if is_used(i, f))
            for i, child in enumerate(self.inputs)
        )


NO_RELATION = Relation("", "", (), (), ())
"""What an operator is held against that is made from its child alone."""


@dataclass(frozen=True)
class Lookup(_OneChild, Node):
    """Rows of a stream with the rows of a relation that have their key. It holds no rows: each is joined as it comes.

    ``keys`` are the stream's, in the order of the relation's own, and of their types. ``where`` is a further condition, part of
    the match. ``how`` is inner, left, left_semi or left_anti. Inside the operator a column of the stream is called `raw_name` (0, c),
    one of the relation `raw_name` (1, c); ``outputs`` make the user's columns of these. ``origins`` gives the stream's column behind each time of
    the output. ``read`` names the relation's columns that are read; None: those that ``outputs`` and ``pair`` are made of.
    """

    child: Node = field(default=None)  # type: ignore[assignment]
    relation: Relation = NO_RELATION
    keys: tuple[Named, ...] = ()
    how: How = "inner"
    where: Expr | None = None
    outputs: tuple[Named, ...] = ()
    pair: tuple[Named, ...] = ()
    origins: tuple[tuple[str, str], ...] = ()
    read: tuple[str, ...] | None = None

    @property
    def tested(self) -> tuple[Named, ...]:
        """The columns that ``where`` is over: a semi or anti join does not give out those of the relation."""
        return self.pair if is_existence(self.how) else self.outputs


@dataclass(frozen=True)
class Held(Lookup):
    """Rows that have no partner in a relation, and wait for one: for a later version of it.

    A row leaves with the partners of the first version that has some, or without one when the bound on ``on`` is above
    its time plus ``hold`` ticks. `MATCHED` says which of the two it was. ``how`` is inner, where each partner makes a result, or
    left_semi, where the row itself is the result.
    """

    on: str = ""
    hold: int = 0


@dataclass(frozen=True)
class Parted(Lookup):
    """Rows of a stream, parted by what is at hand of a relation: those that wait (``waits``), because some segment that may have their
    key is not, or all others. A relation that is in memory as a whole lets no row wait.

    ``how`` is inner for rows that wait, which have the column `COLD` besides their own, and left_anti for the others.
    """

    waits: bool = False


@dataclass(frozen=True)
class Waiting(Lookup):
    """Rows that wait for segments of a relation, each with the version of the batch in which it came, so that one read serves many.

    A row leaves when all its segments have been read, at the latest when ``deadline`` microseconds of the query's clock have passed, with
    its partners in that version, or without one: `MATCHED` says which. ``on`` is the time by which waiting rows hold bounds back. ``how`` is
    that of `Held`.
    """

    on: str = ""
    deadline: int = 0


MET = Field(MATCHED, "boolean", nullable=False)
"""The column of `Held` and `Waiting` that tells rows that have met a partner from those that leave without one."""

DELAYED_OUTPUT = Named("_delayed", column(DELAYED, "boolean"))
"""The output of a bounded join that says whether a pair came from a pass."""


def raw_name(input: int, column: str) -> str:
    """Name of an input's column inside a join."""
    return f"_{input}.{column}"


PLANNED = (SharedSort, SharedPanes)
"""Operators that only the planner makes: a user's query has none."""
