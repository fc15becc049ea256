"""Slack for consumers that need rows in order: buffers, where they stand, and how they are changed.

`buffer` says when a buffer lets a row go, `tree` what several consumers of one stream share, `placement`
where buffers stand at least cost, `chain` how a change of buffers loses and repeats no row, `subplan` runs
a whole tree, and `trigger` says when a change is worth it. `routes` is a placement as the engine follows it.
"""
