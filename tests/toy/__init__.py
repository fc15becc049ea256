"""An operator that the product does not have: its own files, and a line in each registry, as `CONTRIBUTING.md` says.

Spark's workers import this package with the operator's class, so that they have the lines, too.
"""

from slackwater.engine.operators.registry import PROGRAMS
from slackwater.engine.paths.registry import ADMISSIONS
from slackwater.engine.plan.operators.registry import PRODUCERS, STATEFUL
from slackwater.model.arrival import PASSING
from slackwater.model.expressions import EXPRESSIONS, no_expressions
from slackwater.model.render import LINES
from slackwater.semantics.operators.registry import RULES
from tests.toy import operators, paths, plan, rules
from tests.toy.model import Delay, line

LINES[Delay] = line
EXPRESSIONS[Delay] = no_expressions
PASSING[Delay] = None  # rows leave by their time
RULES[Delay] = rules
PRODUCERS[Delay] = plan
STATEFUL[Delay] = plan
ADMISSIONS[Delay] = paths.admit
PROGRAMS[Delay] = operators.DelayKind()
