"""Values as plain lists and dicts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from slackwater.model.plain import plain


@dataclass(frozen=True, slots=True)
class Leaf:
    name: str
    sizes: tuple[int, ...] = ()


@dataclass
class Tree:
    leaves: dict[str, list[Leaf]]
    first: Leaf | None = None
    more: dict[str, Any] = field(default_factory=dict)


def test_it_is_what_asdict_gives() -> None:
    tree = Tree({"a": [Leaf("x", (1, 2)), Leaf("y")], "b": []}, Leaf("z"), {"n": [1.5, None, True]})
    assert plain(tree) == asdict(tree)
    assert type(plain(tree)["first"]["sizes"]) is tuple


def test_lists_and_dicts_are_copies() -> None:
    tree = Tree({"a": [Leaf("x")]}, more={"n": [1]})
    made = plain(tree)
    made["leaves"]["a"].clear()
    made["more"]["n"].append(2)
    assert len(tree.leaves["a"]) == 1 and tree.more == {"n": [1]}
