"""What each type of window answers: one class per type, all with the same questions.

`semantics.windows` asks them, and says what the answers mean.
"""

from __future__ import annotations

from typing import Any

from slackwater.model.registry import Registry
from slackwater.model.window import (
    ByTuple,
    CustomWindow,
    JointWindow,
    Landmark,
    RowWindow,
    SessionWindow,
    TimeWindow,
)
from slackwater.semantics.window_types.by_tuple import WindowsByTuple
from slackwater.semantics.window_types.custom import CustomWindows
from slackwater.semantics.window_types.joint import JointWindows
from slackwater.semantics.window_types.landmark import Landmarks
from slackwater.semantics.window_types.rows import RowWindows
from slackwater.semantics.window_types.rules import WindowRules
from slackwater.semantics.window_types.session import Sessions
from slackwater.semantics.window_types.time import TimeWindows

WINDOWS: Registry[WindowRules[Any]] = Registry(
    __name__,
    {
        TimeWindow: TimeWindows(),
        RowWindow: RowWindows(),
        Landmark: Landmarks(),
        ByTuple: WindowsByTuple(),
        SessionWindow: Sessions(),
        CustomWindow: CustomWindows(),
        JointWindow: JointWindows(),
    },
)
