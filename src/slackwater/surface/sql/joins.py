"""Joins: bands from ON, from WHERE and from windows behind names; tumbling joins of table functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from slackwater.errors import AnalysisError
from slackwater.surface.bands import band
from slackwater.surface.join import join_streams
from slackwater.surface.sql.conjuncts import conjuncts, equality
from slackwater.surface.sql.expressions import Expressions, Parts, Written, quoted
from slackwater.surface.sql.scopes import Relation, Scope, Side, owners
from slackwater.surface.sql.text import Span
from slackwater.surface.sql.tree import Cut, JoinOf, WindowClause, Word
from slackwater.surface.sql.windows import row_texts, time_of
from slackwater.surface.windows import WindowSpec, window

_AFTER = "put it into WHERE, which Spark evaluates behind the join"
_BEFORE = (
    "compute what it reads of each side as a column of a sub-query in FROM; in WHERE it would mean something else, "
    "since this join is not an inner one"
)
_NO_BAND = ("BAD_JOIN", "UNBOUNDED_STATE", "JOIN_CONDITION")
_EVERY_PAIR = re.compile("no equality between|without keys every pair")
_SHOWN = ("window_start", "window_end", "window_time")
"""What table functions add to the results of a join; of a row without a partner the other side's are null."""
_EXAMPLE = re.compile(r"add (.*?) to the condition in on=")


@dataclass(frozen=True)
class Joined:
    """A join, and what of WHERE is left to be a filter."""

    relation: Relation
    where: tuple[Cut, ...]


class JoinBuilder:
    """Builds the joins of one FROM; ``emit`` as the query says it."""

    def __init__(self, expressions: Expressions, emit: str):
        self.expressions, self.text = expressions, expressions.text
        self._emit = emit or "immediate"

    def pair(
        self,
        left: Relation,
        right: Relation,
        join: JoinOf,
        windows: Sequence[WindowClause | None],
        where: Sequence[Cut],
        last: bool,
    ) -> Joined:
        """The join of two relations."""
        self._check_names([left, right])
        emit = self._emit if last else "immediate"
        left, right = self._labelled(left, right, [u.name for u in join.using])
        if left.window is not None or right.window is not None:
            return self._tumbling(left, right, join, where, emit)
        within, times = self._within(left, right, windows)
        both, rest = self._split(left, right, where) if join.how == "inner" else ([], list(where))
        on = [] if join.on is None else [self._written(left, right, join.on)]
        given = _Given(join, within, times, emit)
        if on and both:
            try:
                return Joined(self._joined(left, right, given, on), tuple(where))
            except AnalysisError as error:
                if error.condition not in _NO_BAND:
                    raise
        more = [self._written(left, right, cut) for cut in both]
        return Joined(self._joined(left, right, given, [*on, *more]), tuple(rest))

    def several(
        self,
        relations: Sequence[Relation],
        windows: Sequence[WindowClause],
        where: Sequence[Cut],
        span: Span,
    ) -> Joined:
        """``A [RANGE x], B [RANGE y], C [RANGE z]``."""
        self._check_names(relations)
        sides = [self._named(r) for r in relations]
        keys, rest = self._common_keys(sides, where)
        tumbling = next((w for w in windows if w is not None and w.tumbling), None)
        spans: Any = [w.range.value for w in windows if w is not None and w.range is not None]
        if tumbling is not None and tumbling.range is not None:
            spans = window(tumbling.range.value)
        elif len(spans) != len(sides):
            raise self.text.error(
                span, "BAD_JOIN", "a window stands behind some of the streams only",
                hint="write [RANGE ...] behind each of them, or RANGE TUMBLING behind the last",
            )  # fmt: skip
        with self.expressions.blamed([], span):
            made = join_streams([r.stream for r in sides], keys, spans, emit=self._emit)
        self.expressions.clauses.note(made._node, span)
        shared = frozenset(k.lower() for k in keys if isinstance(k, str))
        every = tuple(replace(r.sides[0], shared=shared) for r in sides)
        return Joined(Relation(made, every, span), tuple(rest))

    # --- inside -----------------------------------------------------------------------------------

    def _joined(
        self, left: Relation, right: Relation, given: _Given, on: Sequence[Written]
    ) -> Relation:
        join = given.join
        names = [self._using(left, right, word) for word in join.using]
        span = join.on.span if join.on is not None else join.span
        everything: Any = [*names, *(w.text for w in on)] or None
        try:
            with self.expressions.blamed(on, on[0].span if len(on) == 1 else span):
                made = left.stream.join(
                    right.stream, on=everything, within=given.within, how=join.how, emit=given.emit,
                    times=given.times,
                )  # fmt: skip
        except AnalysisError as error:
            instead = "" if join.on is not None or not join.using else ", in the place of USING"
            raise self._in_sql(error, f"to ON{instead}", join.how) from None
        self.expressions.clauses.note(made._node, span)
        shared = frozenset(n.lower() for n in names)
        sides = tuple(replace(s, shared=s.shared | shared) for s in (*left.sides, *right.sides))
        if join.how in ("left_semi", "left_anti"):
            return Relation(made, left.sides, join.span, hidden=right.sides)
        return Relation(made, sides, join.span)

    def _in_sql(self, error: AnalysisError, where: str, how: str) -> AnalysisError:
        """An error of a join in words of SQL."""
        place, also = error.place, error.also
        if error.condition == "BAD_JOIN" and "nothing says" in error.message:
            example = _EXAMPLE.search(error.hint)
            error = AnalysisError(
                "BAD_JOIN",
                "nothing says how far apart in time partners may be, so that rows of both sides would be kept for ever",
                hint=f"add {where}: AND {example[1] if example else 'a comparison of the two times'}",
            )
        elif error.condition in ("JOIN_CONDITION", "BAD_JOIN") and _EVERY_PAIR.search(
            error.message
        ):
            error = AnalysisError(
                error.condition, "the join compares no columns of its sides by =, and not their times, so that rows of both sides would be kept",
                hint=f"add {where}: AND a.k = b.k, or a comparison of the two times",
            )  # fmt: skip
        elif error.condition == "BAD_JOIN" and error.message.startswith("emit"):
            error = AnalysisError(
                "BAD_EMIT", "results at any distance in time have no time to be ordered by",
                hint=f"leave EMIT ORDERED out, or add {where}: AND a comparison of the two times",
            )  # fmt: skip
        elif error.condition == "JOIN_CONDITION" and "cannot be evaluated" in error.message:
            error = AnalysisError(
                error.condition, error.message.replace("where=", ""),
                hint=_AFTER if how == "inner" else _BEFORE,
            )  # fmt: skip
        return error if place is None else error.at(place, also)

    def _check_names(self, relations: Sequence[Relation]) -> None:
        seen: dict[str, Side] = {}
        for relation in relations:
            for side in relation.sides:
                if side.name.lower() in seen:
                    raise self.text.error(
                        side.span, "DUPLICATE_NAME", f"two tables of FROM are called '{side.name}'",
                        hint=f"give them aliases: {side.name} a, {side.name} b",
                        also=seen[side.name.lower()].span,
                    )  # fmt: skip
                seen[side.name.lower()] = side

    def _named(self, relation: Relation) -> Relation:
        """A relation of one stream under its name in the query."""
        if len(relation.sides) != 1:
            return relation
        side = relation.sides[0]
        stream = relation.stream.alias(side.name)
        return replace(relation, stream=stream, sides=(replace(side, stream=stream),))

    def _labelled(
        self, left: Relation, right: Relation, using: Sequence[str]
    ) -> tuple[Relation, Relation]:
        left, right = self._named(left), self._named(right)
        theirs = {c.lower() for c in right.stream.columns} - {u.lower() for u in using}
        if len(left.sides) > 1 and (both := theirs & {c.lower() for c in left.stream.columns}):
            # Columns of the same name are told apart by the one table that those of the left come from.
            scope = Scope(left, self.expressions)
            owners = {scope.side_of((c,)) for c in both}
            if len(owners) == 1 and None not in owners:
                left = replace(left, stream=left.stream.alias(str(owners.pop())))
        return left, right

    def _using(self, left: Relation, right: Relation, word: Word) -> str:
        for relation in (left, right):
            Scope(relation, self.expressions).column(word)
        return Scope(left, self.expressions).column(word)

    def _written(self, left: Relation, right: Relation, cut: Cut) -> Written:
        """A condition with names that a join of the two understands."""
        scopes = [Scope(r, self.expressions) for r in (left, right)]

        def place(parts: Parts, span: Span) -> str | None:
            sides = owners(scopes, parts)
            if len(sides) > 1:
                raise self.text.error(
                    span, "AMBIGUOUS_COLUMN", f"column '{parts[0]}' is in several of the tables",
                    hint="write " + " or ".join(f"{s.name}.{parts[0]}" for r in (left, right) for s in r.sides),
                    name=parts[0],
                )  # fmt: skip
            if not sides:
                return None
            scope = scopes[sides[0]]
            if (computed := scope.computed(parts)) is not None:
                return computed
            qualified = len(parts) > 1 and any(s.name.lower() == parts[0].lower() for s in scope.relation.sides)  # fmt: skip
            name = scope.place(parts, span) or quoted(parts[0])
            rest = parts[2:] if qualified else parts[1:]
            head = name if qualified or "." in name else ".".join([name, *map(quoted, rest)])
            if len(scope.relation.sides) == 1:
                return f"{quoted(scope.relation.sides[0].name)}.{head}"
            return head

        return self.expressions.write(cut, place)

    def _split(
        self, left: Relation, right: Relation, where: Sequence[Cut]
    ) -> tuple[list[Cut], list[Cut]]:
        """The parts of WHERE that speak of both sides, and the others."""
        both: list[Cut] = []
        rest: list[Cut] = []
        scopes = [Scope(r, self.expressions) for r in (left, right)]
        for cut in where:
            made = self.expressions.write(cut)
            names = [parts for _, _, parts in self.expressions.names(made)]
            known = {i for p in names for i in owners(scopes, p)}
            (both if len(known) == 2 else rest).append(cut)
        return both, rest

    def _within(
        self, left: Relation, right: Relation, windows: Sequence[WindowClause | None]
    ) -> tuple[Any, list[str] | None]:
        """The band that windows behind the names say, and their times."""
        given = [w for w in windows if w is not None]
        if not given:
            return None, None
        if len(given) == 1 and not given[0].tumbling:
            raise self.text.error(
                given[0].span, "BAD_JOIN", "a window stands behind one side of the join only: rows of that side would be "
                "joined, those of the other kept for ever",
                hint="write [RANGE ...] behind both, or [RANGE TUMBLING ...] behind the last",
            )  # fmt: skip
        for clause in given:
            if (
                clause.range is None
                or clause.range.rows
                or clause.slide
                or clause.partition
                or clause.all
            ):
                raise self.text.error(
                    clause.span, "BAD_JOIN", "a join takes a RANGE of time alone: how long rows stay joinable",
                    hint="write [RANGE 3 MINUTES WATTR ts]; an unbounded side would be kept for ever",
                )  # fmt: skip
        words = [w.attribute[0] if w is not None and w.attribute else None for w in windows]
        if words[0] is None and words[1] is not None and len(given) == 1:
            words[0] = Word(words[1].name.rpartition(".")[2], words[1].span)
        times = [
            time_of(Scope(r, self.expressions), w, "a join", given[0].span).name
            for r, w in zip((left, right), words, strict=True)
        ]
        ranges = [w.range for w in given if w.range is not None]
        if any(w.tumbling for w in given):
            return window(ranges[0].value), times
        return band(before=ranges[1].value, after=ranges[0].value), times

    # --- table functions --------------------------------------------------------------------------

    def _tumbling(
        self, left: Relation, right: Relation, join: JoinOf, where: Sequence[Cut], emit: str
    ) -> Joined:
        """Rows of the same window of two equal TUMBLEs."""
        specs = [r.window.spec if r.window is not None else None for r in (left, right)]
        if specs[0] is None or specs[1] is None:
            odd = left if specs[0] is not None else right
            assert odd.window is not None
            raise self.text.error(
                odd.window.span, "BAD_JOIN", "one side of the join has a window, the other has none",
                hint="write the same TUMBLE on both sides",
            )  # fmt: skip
        one, other = specs[0], specs[1]
        alike = (
            isinstance(one, WindowSpec)
            and isinstance(other, WindowSpec)
            and not (one.slide or other.slide)
            and (one.range, one.origin) == (other.range, other.origin)
        )
        if not alike:
            assert right.window is not None and left.window is not None
            raise self.text.error(
                right.window.span, "BAD_JOIN", "only TUMBLEs of one size are joined by their windows",
                hint="give both the same size, and no slide", also=left.window.span,
            )  # fmt: skip
        assert isinstance(one, WindowSpec) and isinstance(other, WindowSpec)
        parts = list(where if join.on is None else conjuncts(self.expressions.cursor, join.on))
        windows = {c: next((p for p in parts if self._compares(p, c)), None) for c in ("window_start", "window_end")}  # fmt: skip
        if windows["window_start"] is None or windows["window_end"] is None:
            missing = next(c for c, p in windows.items() if p is None)
            names = [r.sides[0].name for r in (left, right)]
            raise self.text.error(
                join.on.span if join.on is not None else join.span, "BAD_JOIN",
                f"the join does not compare {missing} of its two windows",
                hint=f"add {names[0]}.{missing} = {names[1]}.{missing}",
            )  # fmt: skip
        rest = [p for p in parts if p not in windows.values()]
        plain = [
            replace(r, window=None, computed=self._of_rows(r, spec))
            for r, spec in ((left, one), (right, other))
        ]
        times = [str(one.on), str(other.on)]
        on = [self._written(plain[0], plain[1], cut) for cut in rest] if join.on is not None else []
        both: list[Cut] = []
        if join.on is None:
            both, rest = self._split(plain[0], plain[1], rest)
            on = [self._written(plain[0], plain[1], cut) for cut in both]
        given = _Given(join, replace(one, on=None), times, emit)
        made = self._joined(plain[0], plain[1], given, on)
        computed: dict[str, str] = {}
        for relation, spec in ((left, one), (right, other)):
            side = relation.sides[0]
            time = relation.stream._time(spec.on, "a window")
            name = Scope(made, self.expressions).name_of((side.name, time.name), side.span)
            if name is None:
                continue
            texts = row_texts(spec, time, quoted(name))
            computed |= {f"{side.name}.{c}".lower(): texts[c] for c in _SHOWN}
        return Joined(
            replace(made, computed=computed), tuple(where if join.on is not None else rest)
        )

    def _of_rows(self, relation: Relation, spec: WindowSpec) -> dict[str, str]:
        """The columns of the window of one side, as its own rows give them."""
        side = relation.sides[0]
        time = relation.stream._time(spec.on, "a window")
        texts = row_texts(spec, time, f"{quoted(side.name)}.{quoted(time.name)}")
        return {f"{side.name}.{column}".lower(): text for column, text in texts.items()}

    def _compares(self, cut: Cut, column: str) -> bool:
        tokens = self.expressions.tokens_of(cut)
        if equality(tokens) is None:
            return False
        return [t.name.lower() for t in tokens if t.is_name][1::2] == [column, column]

    def _common_keys(
        self, relations: Sequence[Relation], where: Sequence[Cut]
    ) -> tuple[list[Any], list[Cut]]:
        """Columns that equalities make equal in all streams, and the other conditions."""
        scopes = [Scope(r, self.expressions) for r in relations]
        groups: list[dict[int, str]] = []
        used: list[Cut] = []
        for cut in where:
            ends = self._ends(scopes, cut)
            if ends is None:
                continue
            used.append(cut)
            same = [g for g in groups if any(g.get(i) == n for i, n in ends)]
            merged: dict[int, str] = dict(ends)
            for g in same:
                merged.update(g)
                groups.remove(g)
            groups.append(merged)
        keys: list[Any] = []
        for group in groups:
            if len(group) != len(relations):
                shown = ", ".join(
                    f"{relations[i].sides[0].name}.{n}" for i, n in sorted(group.items())
                )
                raise self.text.error(
                    used[0].span, "BAD_JOIN", f"{shown} are equal, and the other streams have no part in it",
                    hint="compare a column of each stream, or join them pairwise with JOIN ... ON",
                )  # fmt: skip
            names = [group[i] for i in range(len(relations))]
            keys.append(names[0] if len({n.lower() for n in names}) == 1 else tuple(names))
        return keys, [c for c in where if c not in used]

    def _ends(self, scopes: Sequence[Scope], cut: Cut) -> list[tuple[int, str]] | None:
        tokens = self.expressions.tokens_of(cut)
        found = equality(tokens)
        if found is None:
            return None
        ends = []
        for piece in (tokens[: found[0]], tokens[found[0] + 1 :]):
            parts = tuple(t.name for t in piece if t.is_name)
            sides = owners(scopes, parts)
            name = scopes[sides[0]].name_of(parts, cut.span) if len(sides) == 1 else None
            if name is None:
                return None
            ends.append((sides[0], name))
        return ends if ends[0][0] != ends[1][0] else None


@dataclass(frozen=True)
class _Given:
    join: JoinOf
    within: Any
    times: list[str] | None
    emit: str
