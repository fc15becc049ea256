"""The slack that each recent window turned out to need, and the slack that most of them needed at the most.

A row is missing from a window if the current time had passed the window's end by the slack or more when the row came.
So once the late rows of a window are there, the least slack that would have kept its promise is known exactly, whatever
the delays have to do with each other. Late rows that come in bursts spoil few windows, but those badly: the mean
coverage of windows does not show that, their needs do.

The slack for what comes next is a quantile of these needs. Its level begins a little above the confidence asked for and
follows what becomes of it: it rises when a window misses its target, and sinks slowly otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.quality.evidence import (
    MOST_BY_ROWS,
    SURE,
    Evidence,
    alike,
    first_level,
    least_level,
    margin,
    tolerance,
)
from slackwater.semantics.quality.late_sums import LateSums, Sums, plus
from slackwater.semantics.quality.measure import stride
from slackwater.semantics.quality.threshold import Asked

FEWEST = 40
"""Windows that must have been judged before their needs count."""
MOST, MOST_APART = 600, 300
"""Windows whose needs are known at the most; where they share rows, as many more as it takes for so many that share none."""
STEP = 0.005
"""How fast the level of the quantile follows missed targets."""
HIGHEST = 0.9995
FADING = 1 - 1 / MOST
CONVINCING = 8
"""Windows that must have needed less before slack is lowered at once."""
FEW = 10
"""Windows that share no row of which the largest need counts, not a quantile."""
BEGIN, BEGIN_APART = 10, 3
"""Windows, and windows that share no row, from which on their largest need counts, and not the largest delay."""
OUTLIER = 1.5
"""How many times the largest need of all other windows those of one row are, so that they count no more."""
MARGIN, LEAST_MARGIN = 0.2, 0.05
ABOVE = 1
"""Windows (that share no row) above a quantile of needs, with which it is believed after a change."""
ENOUGH = 30
"""Right after a change slack is above the largest need by this share, which shrinks with windows; so many of them share no row."""


def error_of(asked: Asked, total: Sums, missing: Sums) -> float:
    """The relative error of an aggregate without the missing rows; of a quantile, of its rank at the most."""
    if not missing[0]:
        return 0.0
    if asked.rule in ("count", "quantile"):
        return missing[0] / total[0]
    if asked.rule not in ("sum", "avg") or asked.column is None:
        return math.inf
    whole, part = total[1 + asked.column], missing[1 + asked.column]
    if asked.rule == "sum":
        return abs(part / whole) if whole else math.inf
    if total[0] == missing[0] or not whole:
        return math.inf
    mean = whole / total[0]
    return abs((whole - part) / (total[0] - missing[0]) - mean) / abs(mean)


def needed_slack(
    total: Sums,
    late: Mapping[int, Sums],
    asked: Sequence[Asked],
    most: float,
    granularity: int,
    above: int = 0,
) -> int:
    """The least slack with which every error of a window stays within ``most``; 0 if ``above`` is enough.

    ``late`` is by bin: rows of bin ``b`` are there if the slack is at least ``b`` granules.
    """
    missing = [0.0] * len(total)
    for b in sorted([b for b in late if b * granularity > above], reverse=True):
        missing = [m + x for m, x in zip(missing, late[b], strict=True)]
        if any(error_of(a, total, missing) > most + 1e-12 for a in asked):
            return b * granularity
    return 0


@dataclass
class Needs:
    """Windows whose late rows may still come, and the needs of the latest that were judged.

    ``reach`` is how far the current time was past the end of a window when it closed, ``missing`` what has come for it
    since; ``until`` is the last window judged. After a change of the stream only windows after ``since`` count; those up to ``closed_before`` had closed before it was known.
    ``evidence`` for a change is that of the windows judged, the first of which had closed with the reach ``old``. ``new`` is how many of the
    ``late`` rows no earlier window has (see `LateSums`). ``rows`` is how many
    recent windows, from ``start`` on, had when they were judged, ``after`` how many came after; ``usual`` is the share of those before a change.
    """

    granularity: int
    level: float
    totals: dict[int, Sums] = field(default_factory=dict)
    late: dict[int, dict[int, Sums]] = field(default_factory=dict)
    reach: dict[int, int] = field(default_factory=dict)
    done: list[int] = field(default_factory=list)
    until: int | None = None
    missing: dict[int, Sums] = field(default_factory=dict)
    since: int | None = None
    closed_before: int | None = None
    evidence: Evidence = field(default_factory=Evidence)
    old: int | None = None
    start: int | None = None
    rows: float = 0.0
    after: float = 0.0
    usual: float = 0.0
    new: dict[int, dict[int, int]] = field(default_factory=dict)

    def add(self, late: LateSums, granularity: int) -> None:
        """More rows; what they are is binned by ``granularity``, which may have grown."""
        self.rebin(granularity)
        for wid, sums in late.totals.items():
            if self.until is None or wid > self.until:
                plus(self.totals, wid, sums)
            elif self.start is not None and wid >= self.start:
                self.after += sums[0]
        for (wid, b), sums in late.late.items():
            if self.until is None or wid > self.until:
                plus(self.late.setdefault(wid, {}), b, sums)
                if wid in self.reach and b * self.granularity > self.reach[wid]:
                    plus(self.missing, wid, sums)
        for (wid, b), rows in late.new.items():
            if self.until is None or wid > self.until:
                mine = self.new.setdefault(wid, {})
                mine[b] = mine.get(b, 0) + rows

    def rebin(self, granularity: int) -> None:
        """Wider bins from now on, or narrower ones: then rows are taken for as late as their bin allows."""
        if granularity == self.granularity:
            return
        for wid, by in self.late.items():
            other: dict[int, Sums] = {}
            for b, sums in by.items():
                plus(other, -(-b * self.granularity // granularity), sums)
            self.late[wid] = other
        for wid, rows in self.new.items():
            fewer: dict[int, int] = {}
            for b, n in rows.items():
                at = -(-b * self.granularity // granularity)
                fewer[at] = fewer.get(at, 0) + n
            self.new[wid] = fewer
        self.granularity = granularity

    def close(self, first: int, last: int, clock: int, w: TimeWindow) -> None:
        """Windows ``first`` to ``last`` have closed at the current time ``clock``."""
        step = stride(w)
        for wid in range(-(-first // step) * step, last + 1, step):
            if wid in self.totals:
                self.reach[wid] = clock - (w.origin + (wid + 1) * w.slide)

    def judge(
        self,
        last: int,
        asked: Sequence[Asked],
        most: float,
        confidence: float,
        overlap: float = 1.0,
        first: int = START,
    ) -> None:
        """Find the needs of closed windows up to ``last``, all but the latest of whose rows have come.

        Windows before ``first`` count nowhere.
        """
        ready = sorted(w for w in self.reach if w <= last)
        if not ready:
            return
        for wid in ready:
            reach = self.reach.pop(wid)
            above = reach if self.old is None else min(reach, self.old)
            rows = self._rows(wid, above, overlap)
            self.new.pop(wid, None)
            total, late = self.totals.pop(wid), self.late.pop(wid, {})
            need = needed_slack(total, late, asked, self._left(most), self.granularity)
            missed = need > reach
            self.missing.pop(wid, None)
            self.until = wid
            if wid < first or (self.since is not None and wid <= self.since):
                continue
            self.done.append(need)
            self.start = wid if self.start is None else self.start
            self.rows = self.rows * FADING + total[0]
            self.after *= FADING
            if self.closed_before is not None and wid <= self.closed_before:
                continue  # it closed before the change was known
            # One row spoils all windows that share it: they are one miss.
            if not missed or rows:
                step = STEP * (float(missed) - (1 - confidence)) / alike(overlap)
                self.level = min(HIGHEST, max(least_level(confidence), self.level + step))
            self.evidence = self.evidence.after(need > above, rows, confidence, overlap)
            self.old = self._first(self.evidence.run, self.old, reach)
        if self.evidence.run == 0 and self.since is None:
            self.usual = self._after()
        if len(self.done) >= MOST:
            self.since = None
        self.done = self.done[-max(MOST, math.ceil(MOST_APART * overlap)) :]
        if self.until is not None:
            for known in (self.totals, self.late, self.new):
                for old in [w for w in known if w <= self.until]:
                    del known[old]

    # ---- changes ----
    def rose(
        self, asked: Sequence[Asked], most: float, confidence: float, overlap: float = 1.0
    ) -> bool:
        """Whether windows miss their targets much more often than promised; if so, what was before counts no more.

        Slack rises with the first of them. That later windows keep their targets with it is no sign that nothing has changed,
        so these are judged by what the first of them had. Windows whose rows may still come are taken for good as long as they are.
        """
        evidence, began, old = self.evidence, self.until, self.old
        judged = evidence.run
        for wid in [None, *sorted(self.reach)]:
            if wid is not None:
                if self.closed_before is not None and wid <= self.closed_before:
                    continue
                worse = self._worse(wid, old, asked, most)
                above = self.reach[wid] if old is None else min(old, self.reach[wid])
                rows = self._rows(wid, above, overlap)
                evidence = evidence.after(worse, rows, confidence, overlap)
                old = self._first(evidence.run, old, self.reach[wid])
                if evidence.run <= 1:
                    began, judged = wid - 1, 0
            if evidence.certain:
                self._forget(START if began is None else began, judged, confidence)
                return True
        return False

    def _rows(self, wid: int, above: int, overlap: float) -> float:
        """Rows that a window misses with a slack of ``above``, and no window before it has."""
        rows: Mapping[int, float] = self.new.get(wid, {})
        if overlap <= 1:
            rows = {b: sums[0] for b, sums in self.late.get(wid, {}).items()}
        return sum(n for b, n in rows.items() if b * self.granularity > above)

    def _first(self, run: int, old: int | None, reach: int) -> int | None:
        """The reach of the window with which a run began, after one more with ``reach``; None if that was by no needs."""
        return old if run > 1 else reach if run == 1 and self.known else None

    @property
    def known(self) -> bool:
        """Whether there are enough windows for slack to follow their needs."""
        return self.since is not None or len(self.done) >= FEWEST

    def _worse(self, wid: int, old: int | None, asked: Sequence[Asked], most: float) -> bool:
        """Whether a window that is closed has missed its target already, or would have with the reach ``old``."""
        if old is not None and old < self.reach[wid]:
            return self._so_far(wid, asked, most, old) > 0
        gone = self.missing.get(wid)
        if gone is None:
            return False
        return any(error_of(a, self.totals[wid], gone) > self._left(most) + 1e-12 for a in asked)

    def _forget(self, since: int, judged: int, confidence: float) -> None:
        """Keep the needs of windows after ``since`` only, the latest ``judged`` of those that are known."""
        self.since = since
        self.closed_before = max(self.reach, default=self.until)
        self.done = self.done[len(self.done) - judged :]
        self.level = first_level(confidence)
        self.evidence, self.old = Evidence(), None
        self.start, self.rows, self.after = None, 0.0, 0.0

    def fell(
        self,
        first: int,
        last: int,
        step: int,
        asked: Sequence[Asked],
        most: float,
        confidence: float,
    ) -> bool:
        """Whether windows ``first`` to ``last``, whose rows have come, all needed much less than those before; if so, these
        count no more. Every ``step``-th window is known.
        """
        if not self.done:
            return False
        much = _quantile(self.done, self.level) / 2
        judged = 0 if self.until is None else max(0, self.until // step - -(-first // step) + 1)
        judged = min(judged, len(self.done))
        open_ = sorted(w for w in self.totals if first <= w <= last)
        known = judged + len(open_)
        if known < CONVINCING or not much:
            return False
        if any(need >= much for need in self.done[len(self.done) - judged :]):
            return False
        if any(self._so_far(w, asked, most, math.ceil(much) - 1) > 0 for w in open_):
            return False
        # The first of them may still hold rows of before.
        gone = known - max(CONVINCING, known // 2)
        since = first if gone <= judged else open_[gone - judged]
        self._forget(since - 1, max(0, judged - gone), confidence)
        self.usual = 0.0
        return True

    def _so_far(self, wid: int, asked: Sequence[Asked], most: float, above: int = 0) -> int:
        """What a window needs by the rows that have come; 0 if ``above`` is enough."""
        late, left = self.late.get(wid), self._left(most)
        if not late:
            return 0
        return needed_slack(self.totals[wid], late, asked, left, self.granularity, above)

    def _left(self, most: float) -> float:
        """The error that is left for rows that come before a window is judged: some come after.

        Right after a change these are not known yet: at least as many as before.
        """
        later = self._after() if self.since is None else max(self.usual, self._after())
        return most - min(later, most / 2)

    def _after(self) -> float:
        return self.after / self.rows if self.rows else 0.0

    def slack(
        self,
        asked: Sequence[Asked],
        most: float,
        confidence: float,
        overlap: float = 1.0,
        first: int = START,
        settled: int = START,
    ) -> tuple[int | None, bool]:
        """What most windows needed at the most, and whether there were enough of them; None if there were hardly any.

        As long as there are few, and after a change, that is the largest need, and a margin; ``overlap`` is how many of them
        share a row. What a window has missed so far is a lower bound of its need; that of windows from ``first`` to
        ``settled`` is known.
        """
        if self.since is None and not self.known:
            return self._beginning(asked, most, confidence, overlap, first, settled), False
        needs = self._without_outlier(confidence, overlap)
        apart = (len(needs) + 1) / max(1.0, overlap)
        least = 0 if self.since is None else self._bound(needs, apart, confidence)
        if self.since is None or apart * (1 - self.level) >= ABOVE:
            # Few windows tell little of their largest needs: the fewer, the nearer to the largest.
            level = self.level + (1 - self.level) * min(1.0, FEW / apart)
            few = margin(apart - 1, confidence)
            largest = self._granules(max(needs) * few) if few > 1 else 0
            return max(_quantile(needs, level), least, largest), True
        largest = max(needs, default=0)
        for wid in [w for w in self.late if w > self.since]:
            largest = max(largest, self._so_far(wid, asked, most, largest))
        above = 1 + max(LEAST_MARGIN, MARGIN * (1 - apart / ENOUGH))
        return max(self._granules(largest * above), least), True

    def seen(self, first: int, settled: int) -> int:
        """Windows whose needs are known: those judged, and open ones from ``first`` to ``settled``, whose rows have come."""
        return len(self.done) + sum(first <= w <= settled for w in self.totals)

    def _beginning(
        self,
        asked: Sequence[Asked],
        most: float,
        confidence: float,
        overlap: float,
        first: int,
        settled: int,
    ) -> int | None:
        """The largest need of the first windows, and a margin that falls as they come in."""
        open_ = [w for w in self.totals if w >= first]
        seen = self.seen(first, settled)
        apart = seen / max(1.0, overlap)
        if seen < BEGIN or apart < BEGIN_APART:
            return None
        largest = max(self.done, default=0)
        for wid in open_:
            largest = max(largest, self._so_far(wid, asked, most, largest))
        return self._granules(largest * max(1 + LEAST_MARGIN, margin(apart, confidence)))

    def _without_outlier(self, confidence: float, overlap: float) -> list[int]:
        """The needs, without those that one row alone made far larger than all others."""
        rest = len(self.done) - math.ceil(overlap)
        if rest * (1 - confidence) < overlap:
            return self.done
        at = max(range(len(self.done)), key=self.done.__getitem__)
        near = math.ceil(overlap)
        others = self.done[: max(0, at - near + 1)] + self.done[at + near :]
        far = OUTLIER * max(others, default=0)
        if self.done[at] <= max(far, self.granularity):
            return self.done
        return [n for i, n in enumerate(self.done) if abs(i - at) >= near or n <= far]

    def _bound(self, needs: Sequence[int], apart: float, confidence: float) -> int:
        """A bound of the quantile of needs that holds with the probability `SURE`, if these are spread evenly around their mean.

        The largest of enough windows is such a bound, however needs are spread; then nothing is added to it.
        """
        if len(needs) < 2 or confidence**apart <= 1 - SURE:
            return 0
        largest = max(needs) * (1 + MARGIN)
        factor = tolerance(apart, confidence)
        if math.isinf(factor):
            return self._granules(largest)
        return self._granules(min(largest, fmean(needs) + factor * stdev(needs)))

    def _granules(self, slack: float) -> int:
        return math.ceil(slack / self.granularity) * self.granularity

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts."""
        return {
            "granularity": self.granularity,
            "level": self.level,
            "totals": [[w, s] for w, s in sorted(self.totals.items())],
            "late": [
                [w, [[b, s] for b, s in sorted(v.items())]] for w, v in sorted(self.late.items())
            ],
            "reach": [[w, r] for w, r in sorted(self.reach.items())],
            "done": list(self.done),
            "until": self.until,
            "missing": [[w, s] for w, s in sorted(self.missing.items())],
            "since": self.since,
            "told": self.closed_before,
            "evidence": [self.evidence.windows, self.evidence.run, self.evidence.rows],
            "old": self.old,
            "start": self.start,
            "rows": self.rows,
            "after": self.after,
            "usual": self.usual,
            "new": [
                [w, [[b, n] for b, n in sorted(v.items())]] for w, v in sorted(self.new.items())
            ],
        }

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Needs:
        """The inverse of `to_json`."""
        own = cls(
            json["granularity"],
            json["level"],
            dict(json["totals"]),
            {w: dict(v) for w, v in json["late"]},
            dict(json["reach"]),
            list(json["done"]),
            json["until"],
        )
        if "missing" not in json:  # a state from before changes were looked for
            own._count_missing()
            return own
        own.missing = dict(json["missing"])
        own.since, own.closed_before, own.start = json["since"], json["told"], json["start"]
        if "run" in json:  # a state from before rows were counted
            own.evidence = Evidence(json["evidence"], json["run"], MOST_BY_ROWS)
        else:
            own.evidence = Evidence(*json["evidence"])
        own.rows, own.after = json["rows"], json["after"]
        own.old, own.usual = json.get("old"), json.get("usual", 0.0)
        own.new = {w: dict(v) for w, v in json.get("new", ())}
        return own

    def _count_missing(self) -> None:
        for wid, reach in self.reach.items():
            for b, sums in self.late.get(wid, {}).items():
                if b * self.granularity > reach:
                    plus(self.missing, wid, sums)


def _quantile(needs: Sequence[int], level: float) -> int:
    at = math.ceil((len(needs) + 1) * level) - 1
    return sorted(needs)[min(at, len(needs) - 1)]
