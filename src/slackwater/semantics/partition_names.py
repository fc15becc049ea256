"""What the partitions of a source are called: in states, which checkpoints keep, and in records.

A partition has the name of its value as text. Null and the empty text are two partitions, and words for people are in
angle brackets, as is how many are not seen; a value that is in angle brackets itself gets one more.
"""

from __future__ import annotations

NULL = "<null>"
EMPTY = "<empty>"


def partition_name(value: object) -> str:
    """The name of the partition whose column has this value; two values of one type never share a name.

    >>> [partition_name(v) for v in (None, "", "a", 7, "null", "<null>", "<<null>")]
    ['<null>', '<empty>', 'a', '7', 'null', '<<null>', '<<<null>']
    """
    if value is None:
        return NULL
    text = str(value)
    if not text:
        return EMPTY
    return f"<{text}" if text.startswith("<") and text.endswith(">") else text
