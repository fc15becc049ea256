"""GROUP BY: its keys, numbers and aliases that stand for items, and the window that it names."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from slackwater.surface.sql.calls import AGGREGATES, Call, calls
from slackwater.surface.sql.expressions import Expressions, Written
from slackwater.surface.sql.scopes import Scope, WindowOf
from slackwater.surface.sql.tree import Cut, Select
from slackwater.surface.sql.window_columns import Tick, WindowColumns
from slackwater.surface.sql.windows import end_of_call, is_call, of_call
from slackwater.surface.windows import RowsSpec, SessionSpec, window


@dataclass(frozen=True)
class Key:
    """A group column: its expression, and what it is called in the result."""

    cut: Cut
    written: Written
    name: str | None


class GroupKeys:
    """Reads what the rows of one SELECT are grouped by; ``special`` are aggregates that Spark does not have."""

    def __init__(self, select: Select, scope: Scope, special: Collection[str]):
        self.select, self.scope = select, scope
        self.expressions: Expressions = scope.expressions
        self.text, self.tokens = self.expressions.text, self.expressions.tokens
        self._special = frozenset(special)
        self.keys: list[Key] = []
        self._columns = WindowColumns(scope)
        self.names_window = False

    @property
    def window(self) -> WindowOf | None:
        """The window of FROM or of GROUP BY."""
        return self._columns.window

    @property
    def ticks(self) -> list[Tick]:
        """The time columns that are keys."""
        return self._columns.ticks

    # --- what is grouped --------------------------------------------------------------------------

    def is_grouped(self) -> bool:
        """Whether the select aggregates at all."""
        cuts = [i.cut for i in self.select.items if not i.star]
        if self.select.having is not None:
            cuts.append(self.select.having)
        return bool(self.select.group) or any(self._aggregates(c) for c in cuts)

    def _aggregates(self, cut: Cut) -> list[Call]:
        return calls(self.tokens, cut, AGGREGATES | self._special)

    def _read_keys(self) -> None:
        for cut in self.select.group or self._partitions():
            self._key(self._meant(cut))
        if self.window is not None and self.ticks:
            raise self.text.error(
                self.ticks[0].cut.span, "SEVERAL_WINDOWS",
                "a time column as a key is a window of one tick, and there is another window",
                hint="take one of the two out; window_start and window_end name the window",
                also=self.window.span,
            )  # fmt: skip
        window_of = self.window
        if window_of is not None and window_of.kind == "function" and not self.names_window:
            raise self.text.error(
                self.select.group_span or self.select.span, "NO_WINDOW_KEY",
                "GROUP BY does not name the window of the table function",
                hint="add window_start, window_end to GROUP BY", also=window_of.span,
            )  # fmt: skip
        if window_of is not None:
            self._check_sessions(window_of)
            self._check_rows(window_of)

    def _check_sessions(self, window: WindowOf) -> None:
        """Sessions are those of the group's keys: SESSION must say the same."""
        if window.kind != "function" or not isinstance(window.spec, SessionSpec):
            return
        partition = {self.scope.column(w) for w in window.partition}
        keys = {k.name if k.written.alias is None else None for k in self.keys}
        if partition != keys:
            names = ", ".join(
                self.expressions.text.raw[k.cut.span.start : k.cut.span.end] for k in self.keys
            )
            plain = None not in keys
            raise self.text.error(
                window.span, "BAD_WINDOW",
                "PARTITION BY of SESSION is not the keys of GROUP BY: its sessions would be cut from other rows than the group has",
                hint=f"write SESSION(TABLE t{' PARTITION BY ' + names if names else ''}, DESCRIPTOR(ts), gap)" if plain
                else "give the key a name in a sub-query, and PARTITION BY that name",
                also=self.select.group_span,
            )  # fmt: skip

    def _check_rows(self, window: WindowOf) -> None:
        """Windows that each group counts for itself: the group must be a key, or its windows would be mixed up."""
        keys = {k.name for k in self.keys}
        missing = [w for w in window.partition if self.scope.column(w) not in keys]
        if missing and window.kind == "function" and isinstance(window.spec, RowsSpec):
            raise self.text.error(
                missing[0].span, "BAD_WINDOW", f"PARTITION BY {missing[0].name} counts rows for each {missing[0].name}, which is no key of GROUP BY",
                hint=f"add {missing[0].name} to GROUP BY", also=self.select.group_span,
            )  # fmt: skip

    def _partitions(self) -> list[Cut]:
        """Without GROUP BY the columns of PATTR are the keys, as the catalogue prints it."""
        spec = None if self.window is None else self.window.spec
        if self.window is None or not isinstance(spec, RowsSpec) or not spec.per:
            return []
        span, cursor = self.window.span, self.expressions.cursor
        names = [spec.per] if isinstance(spec.per, str) else list(spec.per)
        inside = [i for i, t in enumerate(self.tokens) if span.start <= t.start < span.end and t.is_name]  # fmt: skip
        cuts = [cursor.cut(i, i + 1) for i in inside]
        return [c for c in cuts if self._name(c) in names]

    def _name(self, cut: Cut) -> str | None:
        (token,) = self.expressions.tokens_of(cut)
        return next(
            (c for c in self.scope.stream.columns if self.scope.stream._same(c, token.name)), None
        )

    def _meant(self, cut: Cut) -> Cut:
        """The expression that a number or an alias in GROUP BY stands for."""
        tokens = self.expressions.tokens_of(cut)
        if len(tokens) != 1:
            return cut
        (token,) = tokens
        if token.kind == "number" and token.text.isdigit():
            number = int(token.text)
            if not 1 <= number <= len(self.select.items) or self.select.items[number - 1].star:
                raise self.text.error(
                    token.span, "BAD_GROUP", f"the select list has no item {number}",
                    hint=f"give a number from 1 to {len(self.select.items)}, or the expression",
                )  # fmt: skip
            return self.select.items[number - 1].cut
        if not token.is_name or self._is_column(token.name):
            return cut
        same = [
            i for i in self.select.items if i.alias and i.alias.name.lower() == token.name.lower()
        ]
        return same[0].cut if same and not self._aggregates(same[0].cut) else cut

    def _is_column(self, name: str) -> bool:
        return any(self.scope.stream._same(c, name) for c in self.scope.stream.columns)

    def _key(self, cut: Cut) -> None:
        tokens = self.expressions.tokens_of(cut)
        cursor = self.expressions.cursor
        if (
            len(tokens) > 1
            and is_call(cursor, cut.first)
            and end_of_call(cursor, cut.first) == cut.last
        ):
            if self.window is not None:
                raise self.text.error(
                    cut.span, "SEVERAL_WINDOWS", "GROUP BY has a second window",
                    hint="use one window per query; several tables can read one stream", also=self.window.span,
                )  # fmt: skip
            self._columns.window = of_call(cut, self.scope)
            self.names_window = True
            return
        parts = self.expressions.chain(cut)
        if parts is not None and self._columns.column(parts) is not None:
            self.names_window = True
            return
        if parts is not None:
            name = self.scope.name_of(parts, cut.span)
            time = next((t for t in self.scope.stream._node.times if t.name == name), None)
            if time is not None and time.kind != "window" and not time.parts:
                spec = window(1 if time.is_integer else "1 microsecond", on=time.name)
                self.ticks.append(Tick(cut, time.name, spec))
                return
            self.keys.append(Key(cut, self.scope.written(cut), name))
            return
        aliases = [i.alias.name for i in self.select.items if i.alias and self._same(i.cut, cut)]
        alias = aliases[0] if aliases else None
        self.keys.append(Key(cut, self.scope.written(cut, alias), alias))

    def _same(self, one: Cut, other: Cut) -> bool:
        return self.expressions.same(
            self.expressions.tokens_of(one), self.expressions.tokens_of(other)
        )

    def _specs(self) -> list[Any]:
        return [t.spec for t in self.ticks] or ([self.window.spec] if self.window else [])
