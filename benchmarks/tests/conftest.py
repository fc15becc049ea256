"""No deadlines: how long an example takes says nothing here, and machines are shared."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
