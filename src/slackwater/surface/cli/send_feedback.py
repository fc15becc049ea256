"""``slackwater feedback``: feedback to a query that runs elsewhere, from the command line."""

from __future__ import annotations

import json
from typing import NamedTuple

from slackwater.errors import AnalysisError
from slackwater.surface.feedback import Ignored, attach, ignore, only, shown


class Sending(NamedTuple):
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


def handled(checkpoint: str, sending: Sending, *, as_json: bool = False) -> str:
    """Do what was asked; what to print."""
    query = attach(checkpoint)
    what = _what(sending)
    if sending.listed:
        items = query.feedbacks()
        return json.dumps(items) if as_json else shown(items)
    if sending.retract is not None or sending.renew is not None:
        sent = query.sent(sending.retract if sending.retract is not None else sending.renew or 0)
        sent.retract() if sending.retract is not None else sent.renew()
        done = "retracted" if sending.retract is not None else "renewed"
        return json.dumps({"id": sent.id, "done": done}) if as_json else f"{sent.id} {done}"
    assert what is not None
    lease: str | int | None = sending.lease
    if sending.lease is not None and sending.lease.isdecimal():
        lease = int(sending.lease)  # of a query without a clock, on times that are numbers
    sent = query.feedback(what, output=sending.output, name=sending.name, lease=lease)
    if as_json:
        return json.dumps(
            {"id": sent.id, "output": sent.output, "name": sent.name, "records": str(sent.feedback)}
        )
    return f"{sent.id}"


def _what(sending: Sending) -> Ignored | str | None:
    """The one thing that is asked; None if it is not feedback."""
    given = {
        "records": sending.records,
        "--ignore": sending.ignore,
        "--only": sending.only,
        "--list": sending.listed or None,
        "--retract": sending.retract,
        "--renew": sending.renew,
    }
    asked = [n for n, value in given.items() if value is not None]
    if len(asked) != 1:
        raise AnalysisError(
            "BAD_USAGE",
            "nothing is asked" if not asked else f"{' and '.join(asked)} are asked at once",
            hint="give records such as '~{speed >= 50}', or one of --ignore, --only, --list, --retract, --renew",
        )
    if sending.ignore is not None:
        return ignore(sending.ignore)
    if sending.only is not None:
        return only(sending.only)
    return sending.records
