"""What the check of a plan finds, as plain values: problems, cautions, requirements, and the scheme on every edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from slackwater.model.node import Node, Source
from slackwater.semantics.contracts.derive import Derived, Unmet, derive, promises
from slackwater.semantics.contracts.offers import ENDED, Offer
from slackwater.semantics.contracts.requirements import Requirement, requirements
from slackwater.semantics.contracts.sources import Promise
from slackwater.semantics.contracts.words import asked, called, columns_of, refusal
from slackwater.semantics.operators.registry import RULES


@dataclass(frozen=True)
class Problem:
    """State that would stay for ever: of which ``operator``, for want of punctuation of which ``input`` (from 0) on which
    ``columns``.
    """

    operator: str
    input: int
    columns: tuple[str, ...]
    message: str
    hint: str


Kind = Literal["groups", "values", "undeclared", "late", "idle"]


@dataclass(frozen=True)
class Caution:
    """What grows, though not with the rows: with the number of ``groups``, or of ``values`` that are closed one by one.
    Or that the verdict rests on punctuation that is not declared (``undeclared``), that ``late`` rows go nowhere, or that a
    partition that is ``idle`` holds results back.
    """

    kind: Kind
    operator: str
    message: str
    hint: str


@dataclass(frozen=True)
class Required:
    """What stream ``stream`` must be punctuated on, so that ``operator`` frees its state: a non-empty part of ``columns``.
    ``template`` is a form that does. Without a stream only another plan helps.
    """

    stream: str
    columns: tuple[str, ...]
    template: str
    operator: str
    message: str
    declared: bool


@dataclass(frozen=True)
class Edge:
    """What comes out of an operator, and how its own state is freed; ``depth`` is how deep it stands in the query."""

    operator: str
    line: str
    depth: int
    scheme: str
    verdict: str


@dataclass(frozen=True)
class Findings:
    """All that a check finds."""

    problems: tuple[Problem, ...]
    cautions: tuple[Caution, ...]


def check_nodes(nodes: Sequence[Node], *, ended: bool = False) -> Findings:
    """Problems and cautions of a plan, children first; ``ended`` if all its streams end."""
    if ended:
        return Findings((), ())
    promised = promises(nodes)
    assumed = derive(nodes, {n: p.assumed for n, p in promised.items()})
    problems = tuple(_problem(u, assumed, promised) for u in assumed.unsafe)
    cautions = [_grows(u) for u in assumed.growing]
    cautions += [c for n in nodes if isinstance(n, Source) for c in _values(n, promised[n.name])]
    if any(p.is_open for p in promised.values()):
        cautions += _rests(nodes, promised, assumed)
    return Findings(problems, tuple(cautions))


def _problem(unmet: Unmet, derived: Derived, promised: dict[str, Promise]) -> Problem:
    input = derived.offer(unmet.node.children[unmet.need.input])
    message, hint = refusal(unmet, input, {n: p.assumed for n, p in promised.items()})
    return Problem(called(unmet.node), unmet.need.input, columns_of(unmet.need), message, hint)


def _grows(unmet: Unmet) -> Caution:
    columns = columns_of(unmet.need)
    way = f"punctuate {' or '.join(columns)} for groups that end" if columns else "group by less"
    return Caution(
        "groups",
        called(unmet.node),
        f"{called(unmet.node)} keeps {unmet.need.state}, for ever: its state grows with the number of groups",
        f"{way}, or leave it if the groups are few",
    )


def _values(source: Source, promise: Promise) -> list[Caution]:
    name = source.given_name
    return [
        Caution(
            "values",
            called(source),
            f"values that {t} of stream '{name}' closes one by one stay in the checkpoint, unless they merge into ranges: "
            "it grows with the number of values",
            f"punctuate up to a value now and then ({_rising(t.tags)}), close values in their order, or leave it if they are few",
        )
        for t in promise.piling
    ]


def _rising(tags: Sequence[tuple[str, str]]) -> str:
    """What would cover these patterns: what goes up to a value already, or else all of it."""
    rising = [c for c, k in tags if k == "+"] or [c for c, _ in tags]
    return f"[[{', '.join(f'{c}:+' for c in rising)}]]"


def _rests(nodes: Sequence[Node], promised: dict[str, Promise], assumed: Derived) -> list[Caution]:
    """What would be unsafe if streams punctuated no more than they declare."""
    strict = derive(nodes, {n: p.declared for n, p in promised.items()})
    known = {(id(u.node), u.need) for u in assumed.unsafe}
    resting = [u for u in strict.unsafe if (id(u.node), u.need) not in known]
    undeclared = [n.given_name for n in nodes if isinstance(n, Source) and promised[n.name].is_open]
    streams = ", ".join(f"'{n}'" for n in dict.fromkeys(undeclared))
    return [
        Caution(
            "undeclared",
            called(u.node),
            f"that {called(u.node)} frees its state rests on punctuation of stream {streams}, which does not declare what it "
            f"punctuates; needed is some of {', '.join(columns_of(u.need))}",
            'declare it: sw.Punctuated("column", scheme=["[[...]]"])',
        )
        for u in resting
    ]


def required(nodes: Sequence[Node]) -> tuple[Required, ...]:
    """What a plan requires of its sources, if nothing were known of them."""
    sources = {n.name: n for n in nodes if isinstance(n, Source)}
    return tuple(_required(r, sources) for r in requirements(nodes))


def _required(r: Requirement, sources: dict[str, Source]) -> Required:
    if r.demand is None:
        message = f"no punctuation of the streams frees {r.need.state}: only another plan helps"
        return Required("", (), "", called(r.node), message, False)
    source = sources[r.demand.source]
    return Required(
        source.given_name,
        tuple(sorted(r.demand.way.columns)),
        str(r.demand.template),
        called(r.node),
        asked(r.demand, source),
        r.declared,
    )


def edges(outputs: Sequence[Node], nodes: Sequence[Node], *, ended: bool = False) -> tuple[Edge, ...]:  # fmt: skip
    """The scheme on every edge, in the order in which a query is drawn; what is shared is shown where it is met first."""
    promised = promises(nodes)
    derived = derive(nodes, {n: ENDED if ended else p.assumed for n, p in promised.items()})
    offers = {id(n): o for n, o in zip(derived.nodes, derived.offers, strict=True)}
    verdicts = {id(u.node): u.verdict for u in reversed(derived.unmet)}
    shown: list[Edge] = []
    seen: set[int] = set()

    def visit(node: Node, depth: int) -> None:
        again = id(node) in seen
        seen.add(id(node))
        line = f"{called(node)}, as above" if again else called(node)
        stateful = bool(RULES[type(node)].needs(node))
        verdict = verdicts.get(id(node), "safe") if stateful and not again else ""
        shown.append(Edge(called(node), line, depth, str(_offer(offers, node)), verdict))
        if not again:
            for child in node.children:
                visit(child, depth + 1)

    for output in outputs:
        visit(output, 0)
    return tuple(shown)


def _offer(offers: dict[int, Offer], node: Node) -> Offer:
    return offers[id(node)]
