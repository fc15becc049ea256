"""``slackwater feedback``: feedback to a query that runs elsewhere, from the command line."""

from __future__ import annotations

import json
from typing import NamedTuple

from slackwater.errors import AnalysisError
from slackwater.surface.feedback import Ignored, attach, ignore, only, shown


class Said(NamedTuple):
    """The arguments of the command."""

    records: str | None = None
    ignore: str | None = None
    only: str | None = None
    output: str | None = None
    name: str | None = None
    lease: str | None = None
    listed: bool = False
    retract: int | None = None
    renew: int | None = None


def handled(checkpoint: str, said: Said, *, as_json: bool = False) -> str:
    """Do what was asked; what to print."""
    query = attach(checkpoint)
    what = _what(said)
    if said.listed:
        items = query.feedbacks()
        return json.dumps(items) if as_json else shown(items)
    if said.retract is not None or said.renew is not None:
        sent = query.sent(said.retract if said.retract is not None else said.renew or 0)
        sent.retract() if said.retract is not None else sent.renew()
        done = "retracted" if said.retract is not None else "renewed"
        return json.dumps({"id": sent.id, "done": done}) if as_json else f"{sent.id} {done}"
    assert what is not None
    lease: str | int | None = said.lease
    if said.lease is not None and said.lease.isdecimal():
        lease = int(said.lease)  # of a query without a clock, on times that are numbers
    sent = query.feedback(what, output=said.output, name=said.name, lease=lease)
    if as_json:
        return json.dumps(
            {"id": sent.id, "output": sent.output, "name": sent.name, "records": str(sent.feedback)}
        )
    return f"{sent.id}"


def _what(said: Said) -> Ignored | str | None:
    """The one thing that is asked; None if it is not feedback."""
    given = {
        "records": said.records,
        "--ignore": said.ignore,
        "--only": said.only,
        "--list": said.listed or None,
        "--retract": said.retract,
        "--renew": said.renew,
    }
    asked = [n for n, value in given.items() if value is not None]
    if len(asked) != 1:
        raise AnalysisError(
            "BAD_USAGE",
            "nothing is asked" if not asked else f"{' and '.join(asked)} are asked at once",
            hint="give records such as '~{speed >= 50}', or one of --ignore, --only, --list, --retract, --renew",
        )
    if said.ignore is not None:
        return ignore(said.ignore)
    if said.only is not None:
        return only(said.only)
    return said.records
