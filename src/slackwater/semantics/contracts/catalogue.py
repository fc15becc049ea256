"""Contracts of single operators, as the literature lists them: which can be kept, and why; and forms for any schema.

A contract says which scheme each input obeys and which the outputs then obey. It can be kept ("realizable") if an operator
can give three guarantees: its outputs obey (G1), no piece of state stays for ever (G2), all results come (G3). Operators here
are those of the literature: a join has its join columns alone, and a window puts a number beside each row. What
the engine's own operators do is in `operators`; joins there are freed by bounds on their times, so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from slackwater.semantics.contracts.template_text import parse_template
from slackwater.semantics.contracts.templates import Class, Template, merged

Operator = Literal["SELECT", "PROJECT", "DUPLICATE", "JOIN", "WINDOW", "COUNT"]
Scheme = frozenset[Template]
WID, COUNT = "WID", "count"


@dataclass(frozen=True)
class Contract:
    """Schemes of the ``inputs`` and ``outputs`` of an operator.

    ``columns`` are those that matter to it: kept by a projection, joined on, windowed by, grouped by. Feedback is
    what it accepts at its output and sends to its input, in words.
    """

    operator: Operator
    inputs: tuple[Scheme, ...]
    outputs: tuple[Scheme, ...]
    columns: frozenset[str] = frozenset()
    feedback: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Entry:
    """A contract of the catalogue, with its name, whether it can be kept, and why."""

    name: str
    contract: Contract
    realizable: bool
    reason: str


def flaw(c: Contract) -> str:
    """The guarantee that a contract cannot give, with the reason; nothing if it can be kept.

    >>> flaw(CATALOGUE[5].contract)
    'G1: no punctuation of the input says [[b:#]]'
    """
    able = [_sayable(c, s) for s in c.inputs]
    if c.operator in ("JOIN", "COUNT"):
        for i, scheme in enumerate(c.inputs):
            if not any(t.useful_on(c.columns) for t in scheme):
                names = ", ".join(sorted(c.columns))
                return f"G2: nothing on {names} alone comes from input {i + 1}, so state on these is never freed"  # fmt: skip
    together = able[0]
    for other in able[1:]:
        together = frozenset(merged(a, b) for a, b in product(together, other))
    for scheme in c.outputs:
        for t in sorted(scheme, key=lambda t: t.tags):
            if t not in together:
                return f"G1: no punctuation of the input says {t}"
    return ""


def _sayable(c: Contract, scheme: Scheme) -> Scheme:
    """The forms that an operator can make of those of one input: by itself, or of several together."""
    forms = set(scheme)
    if c.operator in ("SELECT", "DUPLICATE"):
        # It may remember what one said until the other says so, too.
        forms |= {merged(a, b) for a, b in product(scheme, repeat=2)}
    elif c.operator == "PROJECT":
        forms = {t for t in scheme if t.columns <= c.columns}
    elif c.operator == "WINDOW":
        forms = {w for t in scheme if (w := _windowed(t, c.columns)) is not None}
    else:
        forms = {t for t in scheme if t.useful_on(c.columns)}
    if c.operator == "COUNT":
        forms |= {Template.of(dict.fromkeys(t.columns, "#")) for t in forms}
    return frozenset(forms)


def _windowed(t: Template, by: frozenset[str]) -> Template | None:
    tags = dict(t.tags)
    if not by & tags.keys():
        return t
    if any(tags.pop(c, "+") != "+" for c in by):
        return None
    return Template.of({**tags, WID: "+"})


# --- forms for any schema ----------------------------------------------------------------------------------


def tagged(columns: Iterable[str], kind: Class) -> Scheme:
    """One template, with one class on all columns."""
    return frozenset([Template.of(dict.fromkeys(columns, kind))])


def gcf1(scheme: Scheme) -> Contract:
    """SELECT passes any scheme on."""
    return Contract("SELECT", (scheme,), (scheme,))


def gcf2(scheme: Scheme, kept: Iterable[str]) -> Contract:
    """PROJECT passes on what is said of the columns it keeps alone."""
    own = frozenset(kept)
    passed = frozenset(t for t in scheme if t.columns <= own)
    return Contract("PROJECT", (passed,), (passed,), own)


def gcf3(joined: Sequence[str]) -> Contract:
    """JOIN with progress on the join columns."""
    return Contract("JOIN", (tagged(joined, "+"),) * 2, (tagged(joined, "+"),), frozenset(joined))


def gcf4(joined: Sequence[str]) -> Contract:
    """JOIN with values of the join columns closed."""
    return Contract("JOIN", (tagged(joined, "#"),) * 2, (tagged(joined, "#"),), frozenset(joined))


def gcf5(by: Sequence[str]) -> Contract:
    """WINDOW turns progress on its columns into progress of windows."""
    return Contract("WINDOW", (tagged(by, "+"),), (tagged([WID], "+"),), frozenset(by))


def gcf6(groups: Sequence[str]) -> Contract:
    """COUNT closes groups one by one as their columns progress."""
    return Contract("COUNT", (tagged(groups, "+"),), (tagged(groups, "#"),), frozenset(groups))


def gcf7(groups: Sequence[str]) -> Contract:
    """COUNT closes the groups that are named."""
    return Contract("COUNT", (tagged(groups, "#"),), (tagged(groups, "#"),), frozenset(groups))


def gcf8(groups: Sequence[str]) -> Contract:
    """COUNT with both kinds of punctuation."""
    both = tagged(groups, "+") | tagged(groups, "#")
    return Contract("COUNT", (both,), (tagged(groups, "#"),), frozenset(groups))


def gcf9(group: str) -> Contract:
    """COUNT by one column passes its progress on as it is; more precise than GCF6."""
    return Contract("COUNT", (tagged([group], "+"),), (tagged([group], "+"),), frozenset([group]))


FORMS = {
    "GCF1": gcf1, "GCF2": gcf2, "GCF3": gcf3, "GCF4": gcf4, "GCF5": gcf5, "GCF6": gcf6, "GCF7": gcf7, "GCF8": gcf8,
    "GCF9": gcf9,
}  # fmt: skip


# --- the catalogue -----------------------------------------------------------------------------------------


def _scheme(*texts: str) -> Scheme:
    return frozenset(parse_template(t) for t in texts)


_A, _AB = _scheme("[[a:+]]"), _scheme("[[a:+]]", "[[b:#]]")
_UP, _ONE = _scheme("[[b:+]]"), _scheme("[[b:#]]")


def _select(before: Scheme, after: Scheme) -> Contract:
    return Contract("SELECT", (before,), (after,))


CATALOGUE = (
    Entry("CT1", gcf1(_A), True, "what does not come in does not come out (GCF1)"),
    Entry("CT2", gcf1(_AB), True, "so with several forms (GCF1)"),
    Entry("CT3", _select(_AB, _A), True, "punctuation may be dropped"),
    Entry(
        "CT4", _select(_AB, _scheme("[[a:+, b:#]]")), True,
        "it remembers which b are closed, and says so with the bound on a",
    ),
    Entry("CT5", gcf3(["b"]), True, "each side's progress on b frees the other side (GCF3)"),
    Entry("CT6", _select(_A, _ONE), False, "progress on a says nothing about b"),
    Entry("CT7", gcf1(_UP), True, "GCF1 for s(a, b)"),
    Entry("CT8", gcf1(_UP), True, "GCF1 for t(b, c)"),
    Entry("CT9", gcf2(_A, ["a"]), True, "the column that is dropped was free (GCF2)"),
    Entry("CT10", gcf3(["b"]), True, "each side's progress on b frees the other side (GCF3)"),
    Entry("CT11", gcf4(["b"]), True, "each value of b that one side closes frees the other side's rows (GCF4)"),
    Entry(
        "CT12",
        Contract("JOIN", (_scheme("[[a:#]]"), _scheme("[[c:#]]")), (_scheme("[[a:#, c:#]]"),), frozenset("b")),
        False, "nothing on b comes from either side, so that rows stay for ever (G2)",
    ),
    Entry("CT13", gcf3(["b"]), True, "GCF3 for l(a, b) and r(b, c)"),
    Entry("CT14", gcf4(["b"]), True, "GCF4 for l(a, b) and r(b, c)"),
    Entry(
        "CT15", Contract("JOIN", (_UP, _scheme("[[c:+]]")), (_scheme("[[b:+, c:+]]"),), frozenset("bc")), True,
        "each side progresses on some join column; punctuation is held until both have",
    ),
    Entry("CT16", gcf5(["b"]), True, "a window is closed when b has passed its end (GCF5)"),
    Entry("CT17", gcf6(["a"]), True, "each group that a has passed is closed by itself (GCF6); GCF9 says more"),
    Entry("CT18", gcf7(["a"]), True, "a group comes out when it is named (GCF7)"),
    Entry("CT19", gcf8(["a"]), True, "either closes groups (GCF8)"),
    Entry(
        "CT20", Contract("PROJECT", (_UP,), (_UP,), frozenset("ab"), ("[[b:+]]", "[[b:+]]")), True,
        "feedback on a kept column goes on; punctuation on b retires it",
    ),
    Entry(
        "CT21", Contract("SELECT", (_UP,), (_UP,), frozenset("ab"), ("any", "none")), True,
        "it accepts any feedback and passes none on, so it must keep none that b does not retire",
    ),
)  # fmt: skip


def shown(scheme: Scheme) -> str:
    """A scheme as text."""
    return ", ".join(str(t) for t in sorted(scheme, key=lambda t: (len(t.tags), t.tags)))


def table() -> list[str]:
    """The catalogue as lines of a table, for the documents."""
    lines = ["| | operator | inputs | outputs | kept? | why |", "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for e in CATALOGUE:
        c = e.contract
        on = f" ({', '.join(sorted(c.columns))})" if c.columns and c.operator != "SELECT" else ""
        heard = f"; feedback {c.feedback[0]} → {c.feedback[1]}" if any(c.feedback) else ""
        inputs, outputs = ("; ".join(f"`{shown(s)}`" for s in ss) for ss in (c.inputs, c.outputs))
        verdict = "yes" if e.realizable else "no"
        lines.append(
            f"| {e.name} | {c.operator}{on} | {inputs} | {outputs}{heard} | {verdict} | {e.reason} |"
        )
    return lines


def forms_table() -> list[str]:
    """The forms for any schema, as lines of a table."""
    lines = ["| form | what it says |", "| --- | --- |"]
    return [*lines, *(f"| {name} | {str(made.__doc__).splitlines()[0]} |" for name, made in FORMS.items())]  # fmt: skip
