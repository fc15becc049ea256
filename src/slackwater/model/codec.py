"""Values as JSON and back, by the types of their fields: one codec for all that is kept or sent.

A dataclass becomes a dict of its fields, or, if it is `positional`, the list of their values. A field that has its default is left
out where `stored` says so (of a list the last ones). A mapping whose keys are texts becomes a dict, any other one the list of its pairs, sorted by key.
What is declared as ``Any`` is JSON already.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Span:
...     low: int
...     tags: tuple[str, ...] = ()
>>> to_json(Span(1, ("a",)))
{'low': 1, 'tags': ['a']}
>>> from_json(Span, {"low": 1, "tags": ["a"]})
Span(low=1, tags=('a',))

Guarantee: ``from_json(type(v), loads(dumps(to_json(v)))) == v``, if the fields of ``v`` are of their declared types. What lacks a
field without a default, or has one that is not known, is refused with a `TypeError`.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal, NamedTuple, TypeVar, Union

import numpy as np

T = TypeVar("T")
Way = Callable[[Any], Any]

_NOTE, _POSITIONAL = "__sw_stored", "__sw_positional"
_ATOMS = frozenset({int, float, str, bool, type(None), Any, object, dict, list})
_MAPPINGS = frozenset({dict, collections.abc.Mapping, collections.abc.MutableMapping})
_LISTS = frozenset({list, collections.abc.MutableSequence})
_TUPLES = frozenset({tuple, collections.abc.Sequence, collections.abc.Iterable})
_SETS = frozenset({frozenset, set, collections.abc.Set})


class Codec(NamedTuple):
    """How values of a type are written and read; None where JSON has them as they are."""

    write: Way | None = None
    read: Way | None = None


_AS_IT_IS = Codec()


@dataclass(frozen=True)
class _Note:
    """What the codec is told of a field."""

    name: str | None
    lean: bool
    by: Codec | None
    kind: str | None


def stored(
    *,
    name: str | None = None,
    lean: bool = False,
    by: Codec | None = None,
    kind: str | None = None,
) -> dict[str, Any]:
    """The metadata of a field that is not written in the usual way.

    Parameters
    ----------
    name
        What it is called in the document.
    lean
        Whether it is left out if it has its default.
    by
        How its values are written and read; None is None whatever this says.
    kind
        Its type as ``"module:Name"``, for one that is imported when a value is there and not before.
    """
    return {_NOTE: _Note(name, lean, by, kind)}


LEAN: Mapping[str, Any] = types.MappingProxyType(stored(lean=True))
"""The metadata of a field that is left out if it has its default."""


def positional(kind: type[T]) -> type[T]:
    """Have values of a dataclass written as lists, where many of them make a document large."""
    setattr(kind, _POSITIONAL, True)
    return kind


def to_json(value: Any) -> Any:
    """A value of a dataclass as plain lists and dicts."""
    kind: Any = type(value)
    write = codec_of(kind).write
    return value if write is None else write(value)


def from_json(kind: type[T], document: Any) -> T:
    """The value of a type that `to_json` wrote."""
    asked: Any = kind
    read = codec_of(asked).read
    return document if read is None else read(document)  # type: ignore[no-any-return]


@cache
def codec_of(kind: Any) -> Codec:
    """The codec of a type, or of what an annotation says."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind in _ATOMS or origin is Literal or isinstance(kind, TypeVar):
        return _AS_IT_IS
    if origin in (Union, types.UnionType):
        return _of_union(args)
    if origin is np.ndarray:
        return Codec(np.ndarray.tolist, lambda v: np.array(v, args[1].__args__[0]))
    if dataclasses.is_dataclass(kind):
        usual = _of_dataclass(kind)
        return Codec(getattr(kind, "to_json", usual.write), getattr(kind, "from_json", usual.read))
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        hints = typing.get_type_hints(kind)
        return _of_row([codec_of(hints[f]) for f in kind._fields], lambda parts: kind(*parts))
    if origin in _MAPPINGS:
        return _of_mapping(args[0], codec_of(args[1]))
    if origin is tuple and args[-1:] != (...,):
        return _of_row([codec_of(a) for a in args], tuple)
    for origins, make in ((_LISTS, list), (_TUPLES, tuple), (_SETS, frozenset)):
        if origin in origins:
            return _of_many(codec_of(args[0]), make, sort=origins is _SETS)
    raise TypeError(f"{kind} is not a type that can be stored: say how by stored(by=...)")


def _of_union(args: tuple[Any, ...]) -> Codec:
    rest = [codec_of(a) for a in args if a is not type(None)]
    if all(c == _AS_IT_IS for c in rest):
        return _AS_IT_IS
    if len(rest) != 1 or len(args) != 2:
        raise TypeError(f"{args}: of several types none is written: say how by stored(by=...)")
    return _optional(rest[0])


def _optional(codec: Codec) -> Codec:
    write, read = codec
    return Codec(
        write and (lambda v: None if v is None else write(v)),
        read and (lambda v: None if v is None else read(v)),
    )


def _of_many(inner: Codec, make: Callable[[Iterable[Any]], Any], *, sort: bool) -> Codec:
    write, read = inner
    order: Callable[[Any], list[Any]] = sorted if sort else list
    return Codec(
        order if write is None else (lambda vs: order([write(v) for v in vs])),
        make if read is None else (lambda vs: make([read(v) for v in vs])),
    )


def _of_row(inner: list[Codec], make: Callable[[list[Any]], Any]) -> Codec:
    if all(c == _AS_IT_IS for c in inner):
        return Codec(list, make)
    writes, reads = ([w or _same for w in ways] for ways in zip(*inner, strict=True))
    return Codec(
        lambda vs: [w(v) for w, v in zip(writes, vs, strict=True)],
        lambda vs: make([r(v) for r, v in zip(reads, vs, strict=True)]),
    )


def _of_mapping(key: Any, value: Codec) -> Codec:
    if key is str and value == _AS_IT_IS:
        return value
    write, read = value.write or _same, value.read or _same
    if key is str:
        return Codec(
            lambda m: {k: write(v) for k, v in m.items()},
            lambda m: {k: read(v) for k, v in m.items()},
        )
    keys = codec_of(key)
    write_key, read_key = keys.write or _same, keys.read or _same
    return Codec(
        lambda m: [[write_key(k), write(m[k])] for k in sorted(m)],
        lambda pairs: {read_key(k): read(v) for k, v in pairs},
    )


def _same(value: Any) -> Any:
    return value


class _Part(NamedTuple):
    """A field: its name, what it is called, how it is written and read, the default with which it is left out."""

    field: str
    name: str
    write: Way
    read: Way
    lean: bool
    default: Any


def _of_dataclass(kind: Any) -> Codec:
    # The parts are worked out at the first value: a type may stand in its own fields.
    if vars(kind).get(_POSITIONAL):
        return Codec(lambda v: _write_list(kind, v), lambda d: _read_list(kind, d))
    return Codec(lambda v: _write_dict(kind, v), lambda d: _read_dict(kind, d))


@cache
def _parts(kind: Any) -> tuple[_Part, ...]:
    notes = {f.name: f.metadata.get(_NOTE) or _Note(None, False, None, None) for f in dataclasses.fields(kind)}  # fmt: skip
    lazy = {name: Any for name, note in notes.items() if note.kind or note.by}
    hints = _hints(kind, lazy)
    parts = []
    for f in dataclasses.fields(kind):
        note = notes[f.name]
        codec = codec_of(hints[f.name])
        if note.by is not None:
            codec = _optional(note.by)
        elif note.kind is not None:
            codec = _optional(_later(note.kind))
        write, read = codec.write or _same, codec.read or _same
        parts.append(_Part(f.name, note.name or f.name, write, read, note.lean, _default(f)))
    return tuple(parts)


def _hints(kind: Any, lazy: Mapping[str, Any]) -> dict[str, Any]:
    """What annotations say, without those of ``lazy`` fields, whose names may not be there."""
    hints: dict[str, Any] = dict(lazy)
    for base in reversed(kind.__mro__):
        module = import_module(base.__module__)
        for name, said in vars(base).get("__annotations__", {}).items():
            if name not in lazy and "ClassVar" not in str(said):
                hints[name] = eval(said, vars(module)) if isinstance(said, str) else said
    return hints


def _later(path: str) -> Codec:
    """The codec of a type that is imported with its first value."""
    module, name = path.split(":")

    def known() -> Codec:
        return codec_of(getattr(import_module(module), name))

    return Codec(lambda v: to_json(v), lambda d: (known().read or _same)(d))


def _default(f: Field[Any]) -> Any:
    if f.default is not MISSING:
        return f.default
    return MISSING if f.default_factory is MISSING else f.default_factory()


def _write_dict(kind: Any, value: Any) -> dict[str, Any]:
    document = {}
    for part in _parts(kind):
        own = getattr(value, part.field)
        if not part.lean or own != part.default:
            document[part.name] = part.write(own)
    return document


def _read_dict(kind: Any, document: Mapping[str, Any]) -> Any:
    known = {}
    parts = _parts(kind)
    for part in parts:
        if part.name in document:
            known[part.field] = part.read(document[part.name])
    if len(known) != len(document):
        strange = sorted(set(document) - {p.name for p in parts})
        raise TypeError(f"{kind.__name__} has no field {strange[0]!r}")
    return kind(**known)


def _write_list(kind: Any, value: Any) -> list[Any]:
    parts = list(_parts(kind))
    while parts and parts[-1].lean and getattr(value, parts[-1].field) == parts[-1].default:
        parts.pop()
    return [part.write(getattr(value, part.field)) for part in parts]


def _read_list(kind: Any, document: Any) -> Any:
    parts = _parts(kind)
    if len(document) > len(parts):
        raise TypeError(f"{kind.__name__} has {len(parts)} fields, and {len(document)} values")
    return kind(*[p.read(v) for p, v in zip(parts, document, strict=False)])
