"""The columns of a join's result, and what they are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slackwater.engine.plan.reserved import check_names
from slackwater.errors import AnalysisError
from slackwater.model.join import How
from slackwater.model.node import DELAYED_OUTPUT, raw_name
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.surface.join_conditions import Key
from slackwater.surface.join_keys import coalesced, types_of
from slackwater.surface.stream_columns import Origin

if TYPE_CHECKING:
    from slackwater.surface.stream import Stream


class JoinColumns:
    """The columns of the result: keys given by name once, in front, then those of each stream."""

    def __init__(self, streams: Sequence[Stream], shared: Sequence[Key], how: How):
        self.inputs = len(streams)
        outputs: list[Named] = []
        self._names: dict[tuple[int, str], str] = {}
        self._shared = {key[0] for key in shared}
        for key in shared:
            outputs.append(Named(key[0], _once(streams, key, how)))
            for i, n in enumerate(key):
                self._names[i, n] = key[0]
        taken = {o.name.lower() for o in outputs}
        count: dict[str, int] = {}
        for i, s in enumerate(streams):
            for f in s._node.schema:
                if (i, f.name) not in self._names:
                    count[f.name.lower()] = count.get(f.name.lower(), 0) + 1
        labels = [s._label for s in streams]
        for i, s in enumerate(streams):
            for f in s._node.schema:
                if (i, f.name) in self._names:
                    continue
                name = f.name
                if count[name.lower()] > 1 or name.lower() in taken:
                    name = f"{_label(labels, i, name)}_{name}"
                self._names[i, f.name] = name
                outputs.append(Named(name, column(raw_name(i, f.name), f.type)))
        self.outputs = tuple(outputs)
        self.fields = tuple(Field(o.name, o.expr.type) for o in outputs)
        check_names((f.name for f in self.fields), way='name the stream with .alias("a")')
        names = [f.name.lower() for f in self.fields]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice is not None:
            raise AnalysisError(
                "DUPLICATE_COLUMN",
                f"the result would have two columns '{twice}'",
                hint="rename one before the join with .withColumnRenamed(...)",
                name=twice,
            )

    def name_of(self, input: int, name: str) -> str:
        """What a column of an input is called in the result."""
        return self._names[input, name]

    def origins(self, streams: Sequence[Stream], how: How) -> list[Origin]:
        """The columns of each stream that are columns of the result."""
        made = []
        for i, s in enumerate(streams):
            names = {f.name: self.name_of(i, f.name) for f in s._node.schema}
            # A row without a partner has a shared key that this stream's row would not have.
            alone = how == "full" or how == ("right" if i == 0 else "left")
            keys = self._shared if alone else set()
            made.append(Origin(s, {n: out for n, out in names.items() if out not in keys}))
        return made

    def with_delayed(self) -> tuple[tuple[Field, ...], tuple[Named, ...]]:
        """Fields and outputs with the column that says which pairs came from a pass."""
        name = DELAYED_OUTPUT.name
        if any(f.name.lower() == name for f in self.fields):
            raise AnalysisError(
                "DUPLICATE_COLUMN",
                f"markDelayed=True adds a column '{name}', and the streams have one",
                hint="rename theirs before the join with .withColumnRenamed(...)",
                name=name,
            )
        return (*self.fields, Field(name, "boolean")), (*self.outputs, DELAYED_OUTPUT)

    @property
    def owners(self) -> dict[str, tuple[int, str]]:
        """For each column of the result the input it comes from, and its name there."""
        return {out.lower(): place for place, out in self._names.items()}


def _once(streams: Sequence[Stream], key: Key, how: How) -> Expr:
    """The one column of a key that was given by name: of the type that Spark's join gives it."""
    types = types_of(streams, key)
    raws = [Field(raw_name(i, n), t) for i, (n, t) in enumerate(zip(key, types, strict=True))]
    if how not in ("right", "full"):
        return column(raws[0].name, raws[0].type)
    if how == "right":
        return column(raws[1].name, raws[1].type)
    one = coalesced(streams[0], raws)
    if one is None:
        raise AnalysisError(
            "JOIN_TYPES",
            f"join key '{key[0]}' is {types[0]} on one side and {types[1]} on the other, and no type of one "
            "column holds both",
            hint="cast one of them before the join",
            key=key[0],
        )
    return one


def _label(labels: Sequence[str | None], i: int, name: str) -> str:
    label = labels[i]
    if label is None or labels.count(label) > 1:
        raise AnalysisError(
            "AMBIGUOUS_COLUMN",
            f"column '{name}' is in several of the streams, and they cannot be told apart by name",
            hint='name them with .alias("a") before the join: the column is then called a_' + name,
            name=name,
        )
    return label
