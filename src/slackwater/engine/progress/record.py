"""What a progress record says of quality targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from slackwater.engine.plan.plan import Plan
from slackwater.engine.progress.quality import adaptation, quality_settings, readers
from slackwater.model.node import Source
from slackwater.semantics.quality.adapt import WarmUp
from slackwater.semantics.quality.model import cumulated
from slackwater.semantics.quality.state import QualityState
from slackwater.semantics.quality.statistics import Observations, StreamStatistics
from slackwater.semantics.quality.target import Target

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}


def quality_record(
    plan: Plan,
    source: Source,
    quality: Mapping[str, QualityState],
    observations: Observations,
) -> dict[str, Any]:
    """Under ``quality``, by time column: the target and how it is kept; nothing where there is no target."""
    out = {}
    for setting in quality_settings(source):
        known = quality.get(setting.column)
        adapting = adaptation(plan, source, setting, known, observations)
        assert setting.target is not None
        names = [r.path.consumer for r in readers(plan, source, setting.column)]
        out[setting.column] = {
            "target": shown_target(setting.target),
            "method": setting.target.method,
            "strict": setting.strict,
            "slack": None if known is None else known.slack,
            "warm": adapting.warmup is None,
            "warmup": _warmup(adapting.warmup),
            "delays": _delays(adapting.statistics),
            "rate": adapting.statistics.rate,
            "consumers": {
                name: {
                    "needed": state.needed,
                    "estimated": state.estimate,
                    "measured": state.measured,
                    "window": state.measured_wid,
                }
                for name, state in zip(names, adapting.states, strict=True)
            },
        }
    return {"quality": out} if out else {}


def _warmup(warmup: WarmUp | None) -> dict[str, Any] | None:
    if warmup is None:
        return None
    return {"windows": warmup.windows, "of": warmup.wanted, "expected": warmup.expected}


def warmup_lines(plan: Plan, source: Source, quality: Mapping[str, QualityState]) -> list[str]:
    """What `explain` says of targets that slack does not follow yet."""
    lines = []
    for setting in quality_settings(source):
        if setting.target is None or setting.target.recall is not None:
            continue
        warmup = adaptation(plan, source, setting, quality.get(setting.column)).warmup
        if warmup is not None:
            lines.append(
                f"{setting.column}: warming up, {warmup.windows} of {warmup.wanted} windows are known; slack is the largest delay or "
                f"need so far and a margin, with which at least {warmup.expected:.2f} of windows keep the target"
            )
    return lines


def shown_target(target: Target) -> dict[str, float]:
    """What was asked for, in numbers."""
    if target.error is not None:
        return {"error": target.error, "confidence": target.confidence}
    if target.coverage is not None:
        return {"coverage": target.coverage}
    return {"recall": target.recall or 0.0, "over": target.over or 0}


def _delays(s: StreamStatistics) -> dict[str, Any]:
    whole = cumulated(s.shares)
    quantiles = {
        name: int(np.searchsorted(whole, q - 1e-12)) * s.granularity
        for name, q in QUANTILES.items()
    }
    rows = s.disorder.rows
    return {
        **quantiles,
        "max": s.window_largest,
        "rows": s.window.width,
        "largest": s.largest,
        "lateShare": s.disorder.late / rows if rows else None,
        "changes": s.window.cuts,
    }
