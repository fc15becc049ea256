"""``slackwater inspect CHECKPOINT``: bounds, state, offsets, who holds the lock, and what else a query goes on from."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.local import LocalStorage
from slackwater.engine.store.manifest import Manifest, Taken
from slackwater.model.spans import in_words
from slackwater.model.time import iso
from slackwater.surface.cli.checkpoints import Seen, seen
from slackwater.surface.cli.tables import table
from slackwater.surface.feedback import attach
from slackwater.surface.feedback import shown as shown_feedback
from slackwater.surface.held import held_by


def inspected(location: Path) -> dict[str, Any]:
    """What there is to say, as a document: see ``docs/commands.schema.json``."""
    given = seen(location)
    last = _last(given)
    clock = given.last.get("clock") is not None
    epochs = given.checkpoint.numbered(given.checkpoint.epochs)
    document = {
        "checkpoint": str(location),
        "query": given.description.get("id"),
        "outputs": sorted(given.description.get("outputs", {})),
        "batch": given.last.get("batchId"),
        "committed": given.last.get("timestamp"),
        "ended": bool(given.last.get("final", False)),
        "starts": max((int(n) for n in epochs), default=0),
        "lock": _lock(given),
        "bounds": [
            {
                "stream": name, "column": column, "bound": b["bound"], "newest": b.get("newest"),
                "behind": b.get("behind"), "holder": b.get("holder"), "apart": b.get("apart"),
                "partitions": b.get("partitions"),
                "idle": b.get("idle", []),
            }
            for name, stream in given.last.get("streams", {}).items()
            for column, b in stream["bounds"].items()
        ],
        "state": [
            {"operator": name, "plan": o.get("plan"), **{k: o["state"].get(k) for k in ("rows", "bytes", "runs")}}
            for name, o in given.last.get("operators", {}).items()
            if o.get("state")
        ],
        "offsets": _offsets(location),
        "feedback": attach(str(location)).feedbacks() if last is not None and last.feedback else [],
        "relations": {} if last is None else {n: _relation(t, clock) for n, t in last.relations.items()},
    }  # fmt: skip
    return document


def _last(given: Seen) -> Manifest | None:
    for _ in range(3):
        try:
            return manifests.last(given.checkpoint)
        except FileNotFoundError:
            continue  # a running query has just removed it
    return None


def _relation(taken: Taken, clock: bool) -> dict[str, Any]:
    made = asdict(taken)
    shown = {k: iso(made[k]) if clock and made[k] is not None else made[k] for k in ("since", "looked")}  # fmt: skip
    return {"version": taken.version, **shown, "problem": taken.problem}


def _lock(given: Seen) -> dict[str, Any]:
    storage = given.checkpoint.storage
    if not isinstance(storage, LocalStorage):
        return {"held": None, "by": None}
    held, by = storage.holder(given.checkpoint.root / "lock")
    return {"held": held, "by": by}


def _offsets(location: Path) -> list[dict[str, Any]]:
    """How far Spark has read each source: of the newest batch that it began."""
    folder = location / "offsets"
    batches = [int(p.name) for p in folder.iterdir() if p.name.isdigit()] if folder.is_dir() else []
    if not batches:
        return []
    lines = (folder / str(max(batches))).read_text(encoding="utf-8").splitlines()
    made = []
    for number, line in enumerate(lines[2:-1]):  # the heartbeat is the last
        try:
            offset = json.loads(line)
        except ValueError:
            offset = line
        made.append({"source": number, "batch": max(batches), "offset": offset})
    return made


def as_text(document: dict[str, Any]) -> str:
    """For people."""
    batch = document["batch"]
    done = "no batch yet" if batch is None else f"batch {batch}, committed {document['committed']}"
    parts = [
        "\n".join(
            [
                f"query    {document['query']}",
                f"outputs  {', '.join(document['outputs'])}",
                f"last     {done}{', the end of the streams' if document['ended'] else ''}",
                f"starts   {document['starts']}",
                f"lock     {_lock_text(document['lock'])}",
            ]
        )
    ]
    if document["bounds"]:
        rows = [
            [b["stream"], b["column"], b["bound"], _behind(b), held_by(b), ", ".join(b["idle"]) or None]
            for b in document["bounds"]
        ]  # fmt: skip
        parts.append(table(["stream", "time", "bound", "behind", "held by", "idle"], rows))
    if document["state"]:
        rows = [[s["operator"], s["plan"], s["rows"], s["bytes"], s["runs"]] for s in document["state"]]  # fmt: skip
        parts.append(table(["state of", "plan", "rows", "bytes", "runs"], rows))
    if document["offsets"]:
        rows = [[str(o["source"]), _short(o["offset"])] for o in document["offsets"]]
        parts.append(table(["source", f"offset, batch {document['offsets'][0]['batch']}"], rows))
    if document["relations"]:
        rows = [
            [n, r["version"], r["since"], r["looked"], r["problem"]]
            for n, r in document["relations"].items()
        ]
        parts.append(table(["relation", "version", "since", "looked at", "problem"], rows))
    if document["feedback"]:
        parts.append("feedback\n" + shown_feedback(document["feedback"]))
    return "\n\n".join(parts)


def _behind(bound: dict[str, Any]) -> Any:
    """How far the bound is behind the newest row; a number on integer times."""
    behind = bound["behind"]
    if isinstance(behind, int) and behind < 0:
        return "ahead of all rows"
    is_time = isinstance(bound["bound"], str)
    return in_words(behind) if is_time and isinstance(behind, int) else behind


def _lock_text(lock: dict[str, Any]) -> str:
    if lock["held"]:
        return f"held by {lock['by']}"
    if lock["held"] is None:
        return "cannot be seen from here"
    return "free" + (f", last held by {lock['by']}" if lock["by"] else "")


def _short(offset: Any, width: int = 60) -> str:
    text = offset if isinstance(offset, str) else json.dumps(offset)
    return text if len(text) <= width else text[: width - 3] + "..."
