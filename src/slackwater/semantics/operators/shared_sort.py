"""Sorts that share the rows that wait, as the planner puts them together."""

from __future__ import annotations

from slackwater.semantics.operators import sort
from slackwater.semantics.operators.common import ask_readers

entering = ask_readers
bounds = ask_readers
wants = ask_readers
patterns = ask_readers
frontier = ask_readers
trace = ask_readers
copies = ask_readers
feedback = ask_readers
newest = ask_readers
heard = ask_readers
offers = ask_readers
needs = ask_readers
keeps = sort.keeps
