"""Options, names and paths as users write them: checked by name and value before anything runs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from typing import Any

from slackwater.errors import AnalysisError
from slackwater.model.time import parse_duration

# as users write them; compared in lower case
QUERY_OPTIONS = (
    "checkpointLocation", "endOfStream", "partitionGroups", "windowPlan", "memory", "compactRuns", "compactRows",
    "smooth", "smoothWindows", "lowTable", "lowFlush", "lowProbe", "sharePanes",
    "checkpointMode", "contracts", "feedback", "relationBacklog", "relationBacklogIn", "relationCopies", "relationDisk", "relationEpoch", "relationForm",
    "relationSegment", "relationVersions", "relationWaiting",
)  # fmt: skip
# What our own sinks know. Other formats are Spark's, which takes any option and ignores what it does not know.
SINK_OPTIONS = {
    "parquet": ("path",), "memory": (), "noop": (), "console": ("numRows", "truncate"), "foreachBatch": (),
}  # fmt: skip
TRIGGERS = ("processingTime", "availableNow", "once")

_MEMORY = re.compile(r"\d+(\.\d+)?\s*(b|bytes|[kmgt](i?b)?)", re.IGNORECASE)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):/", re.IGNORECASE)


def check_names(given: Collection[str], kind: str | None) -> None:
    """Refuse options that nobody would read: of the query (``kind`` None) or of a sink of a format."""
    ours = SINK_OPTIONS.get(kind) if kind is not None else ()
    known = [*QUERY_OPTIONS, *(ours or ())]
    lower = [k.lower() for k in known]
    for name in given:
        if name.lower() in lower:
            continue
        close = difflib.get_close_matches(name.lower(), lower, 1, 0.8)
        if ours is None and not close:
            continue  # Spark's to judge
        where = "a query" if kind is None else f"a {kind} sink"
        meant = f"did you mean {known[lower.index(close[0])]!r}? " if close else ""
        raise AnalysisError(
            "BAD_OPTION",
            f"{where} has no option {name!r}",
            hint=f"{meant}There are: {', '.join(known)}",
            option=name,
        )


def flag(options: Mapping[str, Any], name: str) -> bool:
    """An option that is true or false."""
    text = str(_value(options, name, "false")).strip().lower()
    if text not in ("true", "false", "1", "0"):
        raise AnalysisError(
            "BAD_OPTION", f"{name}={text!r} is neither true nor false", hint="use True or False"
        )
    return text in ("true", "1")


def whole(options: Mapping[str, Any], name: str, default: int) -> int:
    """An option that is a whole number above zero."""
    value = _value(options, name, default)
    try:
        number = int(str(value))
    except ValueError:
        number = 0
    if number < 1:
        raise AnalysisError(
            "BAD_OPTION",
            f"{name}={value!r} is not a whole number above zero",
            hint=f"the default is {default}",
        )
    return number


def memory(options: Mapping[str, Any], name: str, default: str) -> str:
    """An option that is an amount of memory, such as ``"512MB"``."""
    text = str(_value(options, name, default)).strip()
    if not _MEMORY.fullmatch(text) or not float(re.split(r"[^0-9.]", text)[0]):
        raise AnalysisError(
            "BAD_OPTION",
            f"{name}={text!r} is not an amount of memory",
            hint='write a number and a unit, such as "512MB" or "2GB"',
        )
    return text if text.lower().endswith(("b", "bytes")) else text + "b"


def check_trigger(trigger: Mapping[str, Any]) -> None:
    """One trigger that Spark has, with a sound interval."""
    for name in trigger:
        if name not in TRIGGERS:
            raise AnalysisError(
                "BAD_OPTION",
                f"there is no trigger {name!r}",
                hint=f"use one of: {', '.join(TRIGGERS)}",
            )
    if len([v for v in trigger.values() if v]) != 1:
        raise AnalysisError(
            "BAD_OPTION",
            "trigger takes exactly one setting",
            hint="e.g. trigger(availableNow=True)",
        )
    interval = trigger.get("processingTime")
    if interval:
        if not isinstance(interval, str):
            raise AnalysisError(
                "BAD_DURATION",
                f"processingTime {interval!r} is not a text",
                hint='write a number and a unit, such as "1 second"',
            )
        parse_duration(interval, what="processingTime", positive=False)


def check_name(name: str) -> None:
    """The name of an output becomes part of file names."""
    if not isinstance(name, str) or not name:
        raise AnalysisError("BAD_OPTION", f"queryName {name!r} is empty", hint="give a name")
    if "/" in name or "\0" in name or name in (".", "..") or len(name.encode()) > 100:
        raise AnalysisError(
            "BAD_OPTION",
            f"queryName {name!r} cannot be part of a file's name",
            hint="use at most 100 letters, and no slash",
            name=name,
        )


def local_path(path: object, what: str) -> str:
    """A path of the local file system; ``file:`` in front is taken away, other schemes are refused."""
    text = str(path)
    if not text.strip():
        raise AnalysisError("BAD_OPTION", f"{what} is empty", hint="give a directory")
    if re.match(r"file:/", text, re.IGNORECASE):
        return "/" + text[len("file:") :].lstrip("/")
    scheme = _SCHEME.match(text)
    if scheme is not None:
        raise AnalysisError(
            "NOT_LOCAL",
            f"{what} '{text}': {scheme.group(1)} is not supported, only directories of a file system are",
            hint="give a directory that driver and workers share, or hand results to your own function "
            "with foreachBatch",
            path=text,
        )
    return text


def _value(options: Mapping[str, Any], name: str, default: Any) -> Any:
    return options.get(name.lower(), default)
