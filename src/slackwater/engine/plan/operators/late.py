"""The late rows of a source, in the plan: they leave as they are."""

from __future__ import annotations

from slackwater.engine.plan.operators import common

raw_fields = common.own_fields
finishing = common.no_steps
