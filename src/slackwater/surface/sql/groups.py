"""GROUP BY, HAVING and a select list with aggregates: the calls of ``groupBy(...).agg(...)`` and what follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from slackwater.errors import AnalysisError
from slackwater.surface.check import report
from slackwater.surface.functions import UserAggregate, heavyHitters
from slackwater.surface.sql.calls import HEAVY_HITTERS, Call
from slackwater.surface.sql.expressions import Written, quoted
from slackwater.surface.sql.group_keys import GroupKeys
from slackwater.surface.sql.scopes import Scope
from slackwater.surface.sql.text import Span
from slackwater.surface.sql.tree import Cut, Item, Select
from slackwater.surface.sql.windows import (
    check_timed,
)

if TYPE_CHECKING:
    from slackwater.surface.stream import Stream


@dataclass
class Outputs:
    """The aggregates that are computed, in order; ``texts`` are equal for equal ones."""

    given: list[Any] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    tokens: list[tuple[int, int]] = field(default_factory=list)


class GroupBuilder(GroupKeys):
    """Builds the aggregate of one SELECT."""

    def __init__(
        self, select: Select, scope: Scope, functions: Mapping[str, Any], *, ended: bool = False
    ):
        self._functions = {name.lower(): f for name, f in functions.items()}
        super().__init__(select, scope, {*HEAVY_HITTERS, *self._functions})
        self._ended = ended
        self._outputs = Outputs()

    # --- the result -------------------------------------------------------------------------------

    def built(self) -> Stream:
        """The stream of the select list."""
        if star := next((i for i in self.select.items if i.star), None):
            raise self.text.error(
                star.cut.span, "BAD_SELECT", "* stands beside GROUP BY or an aggregate",
                hint="name the keys, window_start, window_end and the aggregates",
            )  # fmt: skip
        self._read_keys()
        if self.window is None and not self.ticks and not self.scope.stream._node.times:
            check_timed(self.scope, self._span(), "an aggregate")
        plans = [self._item(i) for i in self.select.items]
        having = None if self.select.having is None else self._after(self.select.having)
        if not self._outputs.given:
            self._add("count(*)", None, None)
        grouped = self._grouped()
        self.expressions.clauses.note(grouped._node, self._span())
        first_output = len(grouped.columns) - len(self._outputs.given)
        names = grouped.columns[first_output:]
        keys = grouped.columns[: len(self.keys)]
        chosen = [self.expressions.write(cut, None, swaps) for cut, swaps in self.scope.relation.chosen]  # fmt: skip
        if having is not None:
            chosen.append(self._finished(having, names, keys, plans))
        for condition in chosen:
            with self.expressions.blamed([condition], condition.span):
                grouped = grouped.where(condition.text)
            self.expressions.clauses.note(grouped._node, condition.span)
        return self._selected(grouped, plans, names, keys)

    def _grouped(self) -> Stream:
        specs = self._specs()
        plain = [k.name if k.written.alias is None else None for k in self.keys]
        texts = [p or k.written.named for p, k in zip(plain, self.keys, strict=True)]
        written = [k.written for k in self.keys] + self._outputs.written
        fields = self.scope.stream.columns
        try:
            with self.expressions.blamed(written, self._span(), self._alone, fields):
                made = self.scope.stream.groupBy(*texts, *specs).agg(*self._outputs.given)
                if not specs:
                    # Without a window only punctuation, or the end of the streams, completes a group.
                    report([made._node], ended=self._ended).raise_for_problems()
                return made
        except AnalysisError as error:
            raise self._in_sql(error) from None

    def _span(self) -> Span:
        if self.select.group_span is not None:
            return self.select.group_span
        return self.window.span if self.window is not None else self.select.span

    def _alone(self, one: Written) -> None:
        """Try one key or aggregate by itself."""
        stream = self.scope.stream
        key = any(k.written is one for k in self.keys)
        keys = [one.text] if key else [k.written.text for k in self.keys]
        stream.groupBy(*keys, *self._specs()).agg("count(*)" if key else one.text)

    def _in_sql(self, error: AnalysisError) -> AnalysisError:
        """An error of a group in words of SQL."""
        place = error.place
        if place is None:
            return error
        if error.condition == "UNBOUNDED_STATE":
            on = next((t.name for t in self.scope.stream._node.times if not t.parts), "ts")
            error = AnalysisError(
                "UNBOUNDED_STATE",
                "groups without a window are complete only if punctuation says so, and none does here, "
                "so that the state would grow for ever",
                hint=f"add a window: GROUP BY {'..., ' if self.keys else ''}window({on}, '1 minute')",
            )
        elif error.condition == "DUPLICATE_COLUMN":
            return self._twice(error)
        return error.at(place)

    def _twice(self, error: AnalysisError) -> AnalysisError:
        """A name twice: both places."""
        name = str(error.parameters.get("name", "")).lower()
        items = [
            i for i in self.select.items if i.alias is not None and i.alias.name.lower() == name
        ]
        if len(items) > 1 and items[0].alias and items[1].alias:
            return self.text.error(
                items[1].alias.span, "DUPLICATE_COLUMN", f"two columns are called '{items[1].alias.name}'",
                hint="give one of them another name", also=items[0].alias.span,
            )  # fmt: skip
        if items and items[0].alias is not None:
            return self.text.error(
                items[0].alias.span, "DUPLICATE_COLUMN", f"the result has a column '{name}' of its own, besides yours",
                hint="give yours another name",
            )  # fmt: skip
        return error

    # --- items ------------------------------------------------------------------------------------

    def _item(self, item: Item) -> _Plan:
        """How an item of the select list is made: a key, an aggregate, or an expression over both."""
        key = self._equal_key(item.cut)
        if key is not None:
            return _Plan(item, key=key)
        made = self._aggregates(item.cut)
        whole = len(made) == 1 and (made[0].first, made[0].last) == (item.cut.first, item.cut.last)
        special = any(c.name in self._special for c in made)
        if whole and special:
            return _Plan(item, output=self._special_output(made[0], item))
        if special or self._columns.swaps(item.cut):
            return _Plan(item, after=self._after(item.cut))
        alias = item.alias.name if item.alias is not None else self._plain_name(item.cut)
        if alias is not None and alias.lower() in self._taken():
            alias = None  # the select list above gives it
        written = self.scope.written(item.cut, alias)
        return _Plan(
            item, output=self._add(written.named, written, (item.cut.first, item.cut.last))
        )

    def _taken(self) -> set[str]:
        """Names that the result of the aggregate has already."""
        names = {k.name.lower() for k in self.keys if k.name is not None}
        return names | {"wid", *(s.name.lower() for s in self._specs())}

    def _plain_name(self, cut: Cut) -> str | None:
        parts = self.expressions.chain(cut)
        return parts[-1] if parts is not None and len(parts) > 1 else None

    def _equal_key(self, cut: Cut) -> int | None:
        for i, key in enumerate(self.keys):
            if self._same(cut, key.cut):
                return i
            parts = self.expressions.chain(cut)
            plain = parts is not None and key.name is not None and key.written.alias is None
            if plain and self.scope.name_of(parts or (), cut.span) == key.name:
                return i
        return None

    def _after(self, cut: Cut) -> _After:
        """An expression over the result: aggregates in it become outputs."""
        outputs: dict[int, tuple[int, int]] = {}
        for call in self._aggregates(cut):
            outputs[call.first] = (call.last, self._output_of(call))
        return _After(cut, outputs)

    def _output_of(self, call: Call) -> int:
        run = self.tokens[call.first : call.last]
        for i, (first, last) in enumerate(self._outputs.tokens):
            if last and self.expressions.same(run, self.tokens[first:last]):
                return i
        # An item of the select list that is this aggregate has a name already.
        for item in self.select.items:
            if self.expressions.same(run, self.expressions.tokens_of(item.cut)) and item.alias:
                return self._item(replace(item)).output or 0
        if call.name in self._special:
            return self._special_output(call, None)
        written = self.scope.written(self.expressions.cursor.cut(call.first, call.last))
        return self._add(written.named, written, (call.first, call.last))

    def _add(self, given: Any, written: Written | None, run: tuple[int, int] | None) -> int:
        if run is not None:
            for i, (first, last) in enumerate(self._outputs.tokens):
                same = self.expressions.same(self.tokens[first:last], self.tokens[run[0] : run[1]])
                if last and same and self._outputs.given[i] == given:
                    return i
        self._outputs.given.append(given)
        if written is not None:
            self._outputs.written.append(written)
        self._outputs.tokens.append(run or (0, 0))
        return len(self._outputs.given) - 1

    def _special_output(self, call: Call, item: Item | None) -> int:
        """An aggregate that Spark does not have: heavy hitters, or one of ``functions=``."""
        from pyspark.sql import functions as F

        cursor = self.expressions.cursor
        span = Span(self.tokens[call.first].start, self.tokens[call.last - 1].end)
        behind = call.arguments[-1][1] + 1 if call.arguments else call.first + 3
        if behind < call.last:
            raise self.text.error(
                Span(self.tokens[behind].start, span.end), "BAD_SELECT", f"nothing stands behind {call.name}(...)",
                hint="choose its rows with WHERE, in a sub-query or for all aggregates",
            )  # fmt: skip
        arguments = [self.scope.written(cursor.cut(a, b)) for a, b in call.arguments]
        for one in arguments:
            with self.expressions.blamed([one], columns=self.scope.stream.columns):
                self.scope.stream.select(one.text)
        with self.expressions.blamed(arguments, span):
            if call.name in HEAVY_HITTERS:
                shares = [_number(w.text) for w in arguments[1:]]
                if not 2 <= len(arguments) <= 3 or None in shares:
                    raise self.text.error(
                        span, "BAD_OPTION", "heavy_hitters takes a column, a share, and perhaps an error",
                        hint="write heavy_hitters(srcIP, 0.05)",
                    )  # fmt: skip
                more = {"error": shares[1]} if len(shares) > 1 else {}
                made = heavyHitters(F.expr(arguments[0].text), shares[0], **more)  # type: ignore[arg-type]
            else:
                function = self._functions[call.name]
                if not isinstance(function, UserAggregate):
                    raise self.text.error(
                        span, "BAD_OPTION", f"functions= has {call.name!r}, which is no sw.udaf(...)",
                        hint="register other functions with spark.udf.register",
                    )  # fmt: skip
                made = function(*(F.expr(w.text) for w in arguments))
            if item is not None and item.alias is not None:
                made = made.alias(item.alias.name)
        self._outputs.given.append(made)
        self._outputs.tokens.append((call.first, call.last))
        return len(self._outputs.given) - 1

    # --- the select above -------------------------------------------------------------------------

    def _finished(
        self, after: _After, names: Sequence[str], keys: Sequence[str], plans: Sequence[_Plan] = ()
    ) -> Written:
        """Its text over the result; what stands behind ``plans`` may be called by its alias."""
        swaps = {at: (end, quoted(names[n])) for at, (end, n) in after.outputs.items()}
        inside = [(a, e) for a, (e, _) in swaps.items()]
        named = self._columns.swaps(after.cut)
        if plans:
            named |= self._aliases(after.cut, names, keys, plans)
        swaps |= {at: s for at, s in named.items() if not any(a <= at < e for a, e in inside)}
        for key, name in zip(self.keys, keys, strict=True):
            width = key.cut.last - key.cut.first
            for at in range(after.cut.first, after.cut.last - width + 1):
                run = self.tokens[at : at + width]
                free = not any(a <= at < e for a, (e, _) in swaps.items())
                dotted = at > after.cut.first and self.tokens[at - 1].is_sign(".")
                if free and not dotted and self.expressions.same(run, self.expressions.tokens_of(key.cut)):  # fmt: skip
                    swaps[at] = (at + width, quoted(name))
        return self.expressions.write(after.cut, None, swaps)

    def _aliases(
        self, cut: Cut, names: Sequence[str], keys: Sequence[str], plans: Sequence[_Plan]
    ) -> dict[int, tuple[int, str]]:
        """Where HAVING calls items by their aliases, or keys by their tables; a key comes before an alias, as in Spark."""
        taken = {k.name.lower() for k in self.keys if k.name is not None}
        taken |= {t.column.lower() for t in self.ticks} | set(self._columns.of_keys())
        items: dict[str, list[_Plan]] = {}
        for plan in plans:
            if plan.item.alias is not None and plan.item.alias.name.lower() not in taken:
                items.setdefault(plan.item.alias.name.lower(), []).append(plan)
        tables = {s.name.lower() for s in self.scope.relation.sides}
        if not any(t.is_name and t.name.lower() in {*items, *tables} for t in self.expressions.tokens_of(cut)):  # fmt: skip
            return {}
        plain = {k.name: i for i, k in enumerate(self.keys) if k.name and k.written.alias is None}
        numbers = {self.tokens[i].start: i for i in range(cut.first, cut.last)}
        written = self.expressions.write(cut)
        swaps: dict[int, tuple[int, str]] = {}
        for start, end, parts in self.expressions.names(written):
            span = written.back(start, end)
            at, head = numbers.get(span.start), parts[0].lower()
            if at is None:
                continue
            if len(parts) > 1 and head in tables:
                key = plain.get(self.scope.name_of(parts[:2], span) or "")
                if key is not None:
                    swaps[at] = (at + 3, quoted(keys[key]))
            elif (same := items.get(head)) is not None:
                if len(same) > 1:
                    raise self.text.error(
                        self.tokens[at].span, "AMBIGUOUS_COLUMN", f"{len(same)} items of the select list are called '{parts[0]}'",
                        hint="give one of them another name", name=parts[0],
                    )  # fmt: skip
                swaps[at] = (at + 1, self._text(same[0], names, keys))
        return swaps

    def _text(self, plan: _Plan, names: Sequence[str], keys: Sequence[str]) -> str:
        """An item of the select list over the result."""
        if plan.after is not None:
            return f"({self._finished(plan.after, names, keys).text})"
        return quoted(keys[plan.key] if plan.key is not None else names[plan.output or 0])

    def _selected(
        self, grouped: Stream, plans: Sequence[_Plan], names: Sequence[str], keys: Sequence[str]
    ) -> Stream:
        columns: list[Written] = []
        for plan in plans:
            item = plan.item
            own = item.alias.name if item.alias is not None else None
            if plan.after is not None:
                written = self._finished(plan.after, names, keys)
                wanted = own or self._window_name(item.cut)
                same = wanted is not None and written.text == quoted(wanted)
                columns.append(replace(written, alias=None if same else wanted))
                continue
            name = keys[plan.key] if plan.key is not None else names[plan.output or 0]
            wanted = (
                own
                or self._plain_name(item.cut)
                or (name if plan.key is None else self._last(item.cut, name))
            )
            columns.append(
                Written(quoted(name), (), item.cut.span, None if wanted == name else wanted)
            )
        plain = [c.alias is None and c.text for c in columns]
        if plain == [quoted(n) for n in grouped.columns]:
            return grouped
        with self.expressions.blamed(columns, self.select.span, columns=grouped.columns,
                                     alone=lambda w: grouped.select(w.named)):  # fmt: skip
            made = grouped.select(*[c.named for c in columns])
        self.expressions.clauses.note(made._node, self.select.list_span)
        return made

    def _last(self, cut: Cut, name: str) -> str:
        parts = self.expressions.chain(cut)
        return name if parts is None else parts[-1]

    def _window_name(self, cut: Cut) -> str | None:
        """The name of an item that is a window's column."""
        parts = self.expressions.chain(cut)
        if parts is not None:
            return parts[-1]
        return None


@dataclass(frozen=True)
class _After:
    """An expression over the result: which of its tokens are outputs."""

    cut: Cut
    outputs: dict[int, tuple[int, int]]


@dataclass(frozen=True)
class _Plan:
    item: Item
    key: int | None = None
    output: int | None = None
    after: _After | None = None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
