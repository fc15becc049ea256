"""Feedback as users say it: which results they will ignore, and the handle of what they have sent.

A running query's handle and `attach`, which needs neither Spark nor the query's process, send the same requests.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from slackwater.engine.driver.feedback import Declared, Reach
from slackwater.engine.driver.results import RESULTS, Result, Results, read_results, results_of
from slackwater.engine.plan.operators.registry import ROW_OPERATORS
from slackwater.engine.plan.plan import Plan
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.feedback_log import requests, send, state_of
from slackwater.engine.store.files import unseal
from slackwater.errors import AnalysisError, CheckpointError, ExecutionError
from slackwater.kernels.translate.feedback import condition_of
from slackwater.model.node import Aggregate, Node
from slackwater.model.reacting import Reacting
from slackwater.model.time import iso, parse_duration
from slackwater.semantics.feedback import condition as conditions
from slackwater.semantics.feedback.columns import Columns
from slackwater.semantics.feedback.standing import Request
from slackwater.semantics.feedback.text import parsed
from slackwater.semantics.feedback.value import Feedback
from slackwater.semantics.feedback_rules import must_exploit
from slackwater.surface.options import local_path

if TYPE_CHECKING:
    from pyspark.sql import Column

FOREVER = "forever"

Analyse = Callable[[Columns, Any], str]
"""A condition as Spark's analyser writes it."""


@dataclass(frozen=True)
class Ignored:
    """Rows that a consumer gives up, by a condition over an output's columns; `ignore` and `only` make it."""

    kind: Literal["ignore", "only"]
    condition: Any


def ignore(condition: str | Column) -> Ignored:
    """Feedback that gives up the result rows for which a condition is true.

    Parameters
    ----------
    condition
        SQL text or a Column: any AND, OR, NOT of tests on single columns of the output.

    Examples
    --------
    >>> ignore("wid < 100")
    Ignored(kind='ignore', condition='wid < 100')
    """
    return Ignored("ignore", _condition(condition))


def only(condition: str | Column) -> Ignored:
    """Feedback that gives up the result rows for which a condition is false or null.

    Examples
    --------
    >>> only("segment BETWEEN 40 AND 60")
    Ignored(kind='only', condition='segment BETWEEN 40 AND 60')
    """
    return Ignored("only", _condition(condition))


def _condition(condition: Any) -> Any:
    # A Column is of one of two classes, and neither is imported where there is no Spark.
    is_column = any(
        c.__name__ == "Column" and c.__module__.startswith("pyspark.")
        for c in type(condition).__mro__
    )
    if isinstance(condition, str) or is_column:
        return condition
    raise AnalysisError(
        "BAD_FEEDBACK",
        f"{condition!r} is no condition",
        hint='give SQL text or a Column: sw.ignore("speed >= 50")',
    )


class SentFeedback:
    """Feedback that was sent: ``id``, ``output``, ``name``, and the ``feedback`` itself, as records."""

    def __init__(
        self, checkpoint: Checkpoint, id: int, output: str, name: str, feedback: Feedback
    ) -> None:
        self._checkpoint = checkpoint
        self.id = id
        self.output = output
        self.name = name
        self.feedback = feedback

    def renew(self) -> None:
        """Let its lease begin anew, with the next batch."""
        self._check_running()
        send(self._checkpoint, Request("renew", target=self.id))

    def retract(self) -> None:
        """End it, with the next batch. What lacks rows stays dark until it is whole again."""
        self._check_running()
        send(self._checkpoint, Request("retract", target=self.id))

    def _check_running(self) -> None:
        check_not_final(self._checkpoint, f"feedback {self.id}, '{self.name}', has ended with it")

    def __repr__(self) -> str:
        return f"<feedback {self.id} '{self.name}' on '{self.output}': {self.feedback}>"


# ---- what was said ----
def feedback_of(what: Any, result: Result, ansi: bool, analyse: Analyse | None) -> Feedback:
    """Feedback as records on an output's columns."""
    if isinstance(what, str):
        if what.lstrip().startswith("~"):
            return parsed(what, result.columns)
        raise AnalysisError(
            "BAD_FEEDBACK",
            f"{what!r} does not say whether such rows are given up or kept",
            hint="write sw.ignore(...) or sw.only(...), or records: ~[*, >= 50] or ~{speed >= 50}",
        )
    if not isinstance(what, Ignored):
        raise AnalysisError(
            "BAD_FEEDBACK",
            f"{type(what).__name__} is no feedback",
            hint='give sw.ignore("..."), sw.only("...") or a text such as "~{speed >= 50}"',
        )
    if isinstance(what.condition, str) and analyse is None:
        made = condition_of(what.condition, result.columns, ansi=ansi, analysed=False)
    elif analyse is None:
        raise AnalysisError(
            "BAD_FEEDBACK",
            "a Column is analysed by Spark, and there is none here",
            hint='write the condition as text: sw.ignore("speed >= 50")',
        )
    else:
        made = condition_of(analyse(result.columns, what.condition), result.columns, ansi=ansi)
    return conditions.ignore(made) if what.kind == "ignore" else conditions.only(made)


def analysing(spark: Any) -> Analyse:
    """Conditions as a session's analyser writes them."""
    from slackwater.engine.analysis.analyse import Analyser

    def analysed(columns: Columns, condition: Any) -> str:
        return Analyser(spark).condition(columns.fields, condition).sql

    return analysed


def declared(plan: Plan, wanted: Mapping[str, Any] | None, spark: Any) -> Declared:
    """What a start declares of the outputs of its plan."""
    if not wanted:
        return ()
    results = read_results(results_of(plan, clock=True))
    made: list[tuple[str, Feedback]] = []
    for output, items in wanted.items():
        result = _result(results, output)
        each = items if isinstance(items, Sequence) and not isinstance(items, str) else [items]
        made += [(output, feedback_of(i, result, results.ansi, analysing(spark))) for i in each]
    return tuple(made)


def reach_of(options: Mapping[str, Any]) -> Reach:
    """The option ``feedback``: how far down feedback acts."""
    wanted = str(options.get("feedback", "source")).lower()
    for known in get_args(Reach):
        if wanted == known:
            return known  # type: ignore[no-any-return]
    raise AnalysisError(
        "BAD_OPTION",
        f"feedback={wanted!r} is not known",
        hint='use "off", "output", "operators" or "source", the default',
    )


def reacting(
    node: Node, exploit: bool, propagate: bool, log: bool, seal: bool | None = None
) -> Reacting:
    """An operator's settings, checked."""
    given = {"exploit": exploit, "propagate": propagate, "log": log}
    for name, value in given.items():
        if not isinstance(value, bool):
            raise AnalysisError(
                "BAD_OPTION", f"{name}={value!r} is neither True nor False", hint="use one of them"
            )
    kind = type(node).__name__
    if seal is not None and not isinstance(seal, bool):
        raise AnalysisError(
            "BAD_OPTION", f"seal={seal!r} is not True, False or None", hint="use one of them"
        )
    if seal and (not isinstance(node, Aggregate) or not propagate):
        raise AnalysisError(
            "NOTHING_TO_SEAL",
            f"{kind} has no panes to seal" if propagate else "seal=True needs propagate=True",
            hint="say seal=True of the stream that agg(...) gives, and let feedback go on to its inputs",
            operator=kind,
        )
    if propagate and not exploit and must_exploit(node):
        raise AnalysisError(
            "PROPAGATE_WITHOUT_EXPLOIT",
            f"{kind} would let rows go without keeping results back, and results that lack rows would come out",
            hint="leave out exploit=False, or add propagate=False: then nothing goes on to its inputs",
            operator=kind,
        )
    if log and type(node) in ROW_OPERATORS:
        raise AnalysisError(
            "NOTHING_TO_LOG",
            f"{kind} is a step on the way of rows, where nobody counts them",
            hint="say log=True of the stream that it reads, or of the operator that reads it",
            operator=kind,
        )
    return Reacting(exploit, propagate, log, seal)


def _result(results: Results, output: str | None) -> Result:
    names = ", ".join(results.outputs)
    if output is None:
        if len(results.outputs) == 1:
            return next(iter(results.outputs.values()))
        raise AnalysisError(
            "NO_OUTPUT",
            "the query has several outputs, and feedback is about one",
            hint=f"say which, output=...; there are: {names}",
        )
    if output not in results.outputs:
        raise AnalysisError(
            "NO_OUTPUT",
            f"no output is called {output!r}",
            hint=f"its outputs are: {names}",
            name=output,
        )
    return results.outputs[output]


def _lease(lease: Any, results: Results) -> int | None:
    """How long feedback stands, in microseconds, or in ticks of the streams' times."""
    if lease == FOREVER:
        return None
    ticks = not results.clock and results.integer
    if isinstance(lease, int) and not isinstance(lease, bool) and ticks:
        if lease > 0:
            return lease
        raise AnalysisError(
            "BAD_LEASE", f"lease={lease!r} is not positive", hint="give a number above 0"
        )
    if ticks:
        raise AnalysisError(
            "BAD_LEASE",
            f"lease={lease!r}: this query has no clock, and its times are whole numbers",
            hint='give the lease in their unit, as a number, or "forever"',
        )
    return int(parse_duration(lease, what="lease"))


def _check_lease(feedback: Feedback, result: Result) -> None:
    """Without a lease, each record must end by itself."""
    for record in feedback.records:
        if not any(_ends(c, t, result) for c, t in record.tests):
            shown = Feedback((record,), feedback.columns)
            times = _times(result)
            way = f"test {' or '.join(times)} with an upper end, or " if times else ""
            said = [c for c in record.columns if c in result.punctuated]
            more = f". Punctuation ends it: a pattern on {' or on '.join(said)}" if said else ""
            raise AnalysisError(
                "NO_LEASE",
                f"{shown} would stand for ever: no bound will pass it",
                hint=f'{way}give lease="10 minutes", which renew() prolongs, or lease="forever"{more}',
                record=shown,
            )


def _times(result: Result) -> list[str]:
    """What a bound will pass, as users write it; of a struct only its fields can be tested."""
    found = []
    for parts in (n.split(".") for n in result.columns.names()):
        with contextlib.suppress(AnalysisError):
            column = result.columns.column(parts)
            if column.name in result.passing:
                found.append(column.written)
    return found


def _ends(column: str, test: Any, result: Result) -> bool:
    closed = not test.null and all(high is not None for _, high in test.spans)
    return column in result.passing and closed


# ---- a query by its checkpoint ----
def check_not_final(checkpoint: Checkpoint, so: str) -> None:
    """An error if the query ran to the end of its streams: nobody would ever take a request in."""
    last = manifests.last(checkpoint)
    if last is not None and last.final:
        raise ExecutionError(
            "NOT_RUNNING",
            f"the query ran to the end of its streams: {so}",
            hint="start a query on a new checkpointLocation",
            location=checkpoint.location,
        )


class Attached:
    """A query, by its checkpoint: feedback is sent to it from any process, without Spark and without its lock."""

    def __init__(self, checkpoint: Checkpoint, analyse: Analyse | None = None):
        self._checkpoint = checkpoint
        self._analyse = analyse

    def feedback(
        self,
        what: Ignored | str,
        *,
        output: str | None = None,
        name: str | None = None,
        lease: Any = None,
    ) -> SentFeedback:
        """Say which results will be ignored, from the next batch on. It is on disk when this returns.

        Parameters
        ----------
        what
            `ignore` or `only` of a condition, or records as text: ``"~{speed >= 50, wid < 9}"``.
        output
            The output that it is about; needed if the query has several.
        name
            Feedback of the same name on the same output is replaced.
        lease
            How long it stands unless it is renewed, such as ``"10 minutes"``, or ``"forever"``. It may be left out if progress
            ends it: each record has a test on the time that is not open above.
        """
        results = self._results()
        result = _result(results, output)
        output = output or next(iter(results.outputs))
        feedback = feedback_of(what, result, results.ansi, self._analyse)
        if lease is None:
            _check_lease(feedback, result)
            ticks = None
        else:
            ticks = _lease(lease, results)
        if name is not None and (not isinstance(name, str) or not name.strip()):
            raise AnalysisError("BAD_FEEDBACK", f"name={name!r} is no name", hint="give a text")
        check_not_final(self._checkpoint, "there are no more results")
        number = send(self._checkpoint, Request("send", output, name or "", feedback, ticks))
        return SentFeedback(
            self._checkpoint, number, output, name or f"feedback-{number}", feedback
        )

    def feedbacks(self) -> list[dict[str, Any]]:
        """What stands, oldest first, and what was sent and not taken in yet (``state`` is ``"sent"``).

        ``rowsDropped`` are rows since the query began, by each place (stream, operator, output) that the output's results go
        through. Where several outputs share a place, its rows are shown with each.
        """
        results = self._results()
        state = state_of(manifests.last(self._checkpoint))
        standing = [
            {
                "id": s.id,
                "output": s.output,
                "name": s.name,
                "records": str(s.feedback),
                "state": "declared" if s.declared else "standing",
                "sinceBatch": s.batch,
                "until": iso(s.until) if s.until is not None and results.clock else s.until,
                "rowsDropped": _dropped(results, s.output, state.dropped),
            }
            for s in state.standing
        ]
        waiting = [
            {
                "id": number,
                "output": r.output,
                "name": r.name or f"feedback-{number}",
                "records": str(r.feedback),
                "state": "sent",
                "sinceBatch": None,
                "until": None,
                "rowsDropped": _dropped(results, r.output, state.dropped),
            }
            for number, r in requests(self._checkpoint, state.read).asked
            if r.feedback is not None
        ]
        return [*standing, *waiting]

    def sent(self, id: int) -> SentFeedback:
        """The handle of feedback that stands, or was sent, by its id."""
        state = state_of(manifests.last(self._checkpoint))
        known = {s.id: (s.output, s.name, s.feedback) for s in state.standing if not s.declared}
        for number, r in requests(self._checkpoint, state.read).asked:
            if r.feedback is not None:
                known[number] = (r.output, r.name or f"feedback-{number}", r.feedback)
        if id not in known:
            shown = ", ".join(map(str, sorted(known))) or "none"
            raise AnalysisError(
                "NO_FEEDBACK",
                f"no feedback has the id {id}",
                hint=f"what stands: {shown}. What a start declares ends when a start no longer does",
                id=id,
            )
        return SentFeedback(self._checkpoint, id, *known[id])

    def _results(self) -> Results:
        checkpoint = self._checkpoint
        path = checkpoint.description_file
        if not checkpoint.storage.exists(path):
            raise CheckpointError(
                "NOT_A_CHECKPOINT",
                f"'{checkpoint.location}' is no checkpoint of a query: it has no 'slackwater/query.json'",
                hint="give the checkpointLocation of a query that has been started",
                location=checkpoint.location,
            )
        stored = unseal(checkpoint.storage, path, what="query description", kind="query")
        if RESULTS not in stored:
            raise CheckpointError(
                "OLD_CHECKPOINT",
                "an older version started this query, and wrote nothing of its outputs' columns",
                hint="restart the query once with this version",
                location=checkpoint.location,
            )
        return read_results(stored[RESULTS])


def attach(checkpointLocation: str) -> Attached:
    """A query that runs elsewhere, by its checkpoint directory: to send it feedback, and to see what stands.

    It needs no Spark, takes no lock and starts nothing. Who may write the checkpoint may send feedback.

    Examples
    --------
    >>> view = attach("/data/ck").feedback(only("segment < 60"), lease="10 minutes")     # doctest: +SKIP
    """
    return Attached(Checkpoint(local_path(checkpointLocation, "checkpointLocation")))


def _dropped(results: Results, output: str, dropped: Mapping[str, int]) -> dict[str, int]:
    result = results.outputs.get(output)
    return {p: dropped[p] for p in (result.places if result else ()) if dropped.get(p)}


def shown(items: Iterable[Mapping[str, Any]]) -> str:
    """What stands, one line each, for people."""
    lines = [
        f"{i['id']:>4}  {i['state']:<9} {i['output']}  {i['name']}  {i['records']}"
        + (f"  until {i['until']}" if i["until"] is not None else "")
        for i in items
    ]
    dropped = {i["output"]: i["rowsDropped"] for i in items if i["rowsDropped"]}
    for output, places in dropped.items():
        rows = ", ".join(f"{place} {count:,}" for place, count in places.items())
        lines.append(f"      rows dropped on the way to {output}, since the query began: {rows}")
    return "\n".join(lines) or "no feedback stands"
