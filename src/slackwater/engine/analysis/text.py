"""SQL text of Spark's analysed expressions, such that Spark reads the same expression back.

``Expression.sql`` alone is not enough: it prints column names unquoted, functions that Spark
replaces later without their casts, and some operators without parentheses. So the tree is rebuilt
bottom up with *holes* in such places (attributes of a name that cannot occur elsewhere), printed,
and the holes are filled with text.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from slackwater.engine.analysis.flat import flattened
from slackwater.errors import AnalysisError
from slackwater.model.meaning import Meaning
from slackwater.model.schema import Field
from slackwater.model.spark_sql import quoted

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_HOLE = re.compile(r"swhole(\d+)x")
_COLUMN = re.compile(r"swcolumn(\d+)x")

# what `struct` calls a value that has no alias: a column or field by its name, anything else by its place
_LAST_NAME = re.compile(r"(?:.*\.)?`((?:[^`]|``)+)`", re.DOTALL)
# what stands between quotes where a backslash does not escape
_RAW = re.compile(r"(?:[^'\\]|\\.)*", re.DOTALL)

_CLOCK = ("CurrentTimestampLike", "CurrentDate", "LocalTimestamp", "CurrentTime")
_UDF = ("PythonUDF", "PythonUDAF", "PythonFuncExpression", "PythonUDTF", "ScalaUDF")
_BARE = ("Like", "TimestampAddInterval", "TimestampAddYMInterval", "DateAddInterval",
         "DateAddYMInterval", "BitwiseNot", "Collate", "UnaryPositive")  # fmt: skip

_NESTED = ("struct", "array", "map")

_TRAITS = ("RuntimeReplaceable", "Generator", "SubqueryExpression", "Nondeterministic", "WindowExpression",
           "AttributeReference", "Cast", "CurrentTimestampLike", "aggregate.AggregateExpression", "LambdaFunction",
           "InheritAnalysisRules")  # fmt: skip

# Traits by the name of an expression's class, for all printers: they ask the same of Spark's few hundred classes, and
# each question makes the JVM look through all jars.
_KINDS: dict[str, frozenset[str]] = {}
_NOTED = "__sw_kinds"

Replace = Callable[[Any], str | None]


def ident(attribute: Any) -> int:
    """The number that makes an attribute unique."""
    return int(attribute.exprId().id())


def string(value: str, escaped: bool) -> str:
    r"""A text that Spark reads as this string; ``escaped`` is spark.sql.parser.escapedStringLiterals.

    >>> print(string(r"it's a\b", False), string(r"a\b", True), string("a'b", True))
    'it\'s a\\b' 'a\b' CAST(X'612762' AS STRING)
    """
    if not escaped:
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if _RAW.fullmatch(value):
        return f"'{value}'"
    # There a quote cannot be written.
    return f"CAST(X'{value.encode().hex().upper()}' AS STRING)"


@lru_cache(maxsize=1)  # the JVM searches all its archives for each package that it is asked for
def _classes(jvm: Any, gateway: Any) -> tuple[Any, Any, Any, tuple[Any, ...]]:
    """What tells whether an object is of a class, what makes an attribute and a sequence, and an attribute's usual rest."""
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    return (
        gateway.jvm.py4j.reflection.TypeUtil.isInstanceOf,
        expressions.AttributeReference,
        to_seq,
        (
            jvm.org.apache.spark.sql.types.Metadata.empty(),
            expressions.ExprId.apply(0),
            to_seq([]),
        ),
    )


class Printer:
    """Prints expressions of one JVM. ``meaning`` are the settings under which the texts will be read."""

    def __init__(self, jvm: Any, gateway: Any, meaning: Meaning):
        self.meaning = meaning
        self._depth = 0
        self._scope: tuple[Field, ...] = ()
        self._columns: dict[tuple[tuple[Field, ...], str], Any] = {}
        self._texts: list[str] = []
        self._is, self._attribute_class, self._toseq, self._rest = _classes(jvm, gateway)

    def kinds(self, node: Any) -> frozenset[str]:
        """What an expression is, of the few traits that matter here."""
        # A node is asked several times in a row; each call to the JVM costs as much as all else here.
        noted: frozenset[str] | None = node.__dict__.get(_NOTED)
        if noted is not None:
            return noted
        # one call: each object that the JVM hands over costs two more
        name = str(node.productPrefix())
        known = _KINDS.get(name)
        if known is None:
            traits = {t.rpartition(".")[2] for t in _TRAITS if self._is(_EXPRESSIONS + t, node)}
            known = _KINDS[name] = frozenset(traits | {name})
        node.__dict__[_NOTED] = known
        return known

    def text(self, node: Any, replace: Replace, scope: tuple[Field, ...]) -> str:
        """SQL of an expression; where ``replace`` gives a text for a node, that stands for it.

        ``scope`` are the columns of the frame that the expression is over.
        """
        self._scope = scope
        text = replace(node)
        if text is not None:
            return text
        if "AttributeReference" in self.kinds(node):
            return quoted(self.column(node))
        holes: list[str] = []
        return flattened(self._filled(self._printed(node, replace, holes), holes))

    def _filled(self, text: str, holes: list[str]) -> str:
        text = _HOLE.sub(lambda m: holes[int(m.group(1))], text)
        return _COLUMN.sub(lambda m: self._texts[int(m.group(1))], text)

    def _hole(self, text: str, node: Any, holes: list[str]) -> Any:
        holes.append(self._filled(text, holes))
        return self._named(f"swhole{len(holes) - 1}x", node)

    def _named(self, name: str, node: Any) -> Any:
        return self._attribute_class(name, node.dataType(), True, *self._rest)

    def _rebuilt(self, node: Any, replace: Replace, holes: list[str]) -> Any:
        text = replace(node)
        if text is not None:
            return self._hole(text, node, holes)
        kinds = self.kinds(node)
        self._refuse(node, kinds)
        special = next((k for k in kinds if k in _SPECIAL), None)
        if special is not None:
            done = _SPECIAL[special](self, node, replace, holes)
            if done is not None:
                return done
        if "RuntimeReplaceable" in kinds:
            return self._replaceable(node, replace, holes)
        return self._whole(node, replace, holes)

    def _whole(self, node: Any, replace: Replace, holes: list[str]) -> Any:
        children = node.children()
        count = children.size()
        if count == 0:
            return node
        new = [self._rebuilt(children.apply(i), replace, holes) for i in range(count)]
        built = node.withNewChildren(self._toseq(new))
        if self.kinds(node).intersection(_BARE):
            return self._hole("(" + str(built.sql()) + ")", node, holes)
        return built

    def _printed(self, node: Any, replace: Replace, holes: list[str]) -> str:
        return str(self._rebuilt(node, replace, holes).sql())

    def column(self, node: Any) -> str:
        """A column's own name: Spark keeps the letter case in which it was called."""
        name = str(node.name())
        if any(f.name == name for f in self._scope):
            return name
        return next((f.name for f in self._scope if f.name.lower() == name.lower()), name)

    def _attribute(self, node: Any, replace: Replace, holes: list[str]) -> Any:
        key = (self._scope, self.column(node))
        if key not in self._columns:
            number = len(self._texts)
            self._texts.append(quoted(key[1]))
            self._columns[key] = self._named(f"swcolumn{number}x", node)
        return self._columns[key]

    def _literal(self, node: Any, replace: Replace, holes: list[str]) -> Any:
        kind = node.dataType().typeName()
        if kind in _NESTED and node.value() is None:
            # as Spark's own text of a cast, that of a null has no type
            return self._hole(f"CAST(NULL AS {_type_text(node.dataType())})", node, holes)
        if kind == "string" and self.meaning.escaped and node.value() is not None:
            return self._hole(string(str(node.value()), True), node, holes)
        if kind == "timestamp":
            text = _instant(node.value())
            if text is not None:
                return self._hole(text, node, holes)
        return node

    def _cast(self, node: Any, replace: Replace, holes: list[str]) -> Any:
        child, kind = node.child(), node.dataType()
        if kind.typeName() == "timestamp" and "Literal" in self.kinds(child):
            text = _instant(_evaluated(node))
            if text is not None:
                return self._hole(text, node, holes)
        if kind.asNullable().json() == child.dataType().asNullable().json():
            return self._rebuilt(child, replace, holes)
        if kind.typeName() in _NESTED:
            # Spark's own text leaves such a cast out.
            inner = self._printed(child, replace, holes)
            word = "TRY_CAST" if str(node.evalMode()) == "TRY" else "CAST"
            return self._hole(f"{word}({inner} AS {_type_text(kind)})", node, holes)
        if kind.typeName() == "timestamp" and self.meaning.plain_timestamp_is_local:
            text = str(self._whole(node, replace, holes).sql())
            return self._hole(text.removesuffix("TIMESTAMP)") + "TIMESTAMP_LTZ)", node, holes)
        return None

    def _struct(self, node: Any, replace: Replace, holes: list[str]) -> Any:
        """``struct``: Spark prints it without the names of its fields."""
        if str(node.prettyName()) != "struct":
            return None
        names, values = node.names(), node.valExprs()
        pairs = [
            (
                str(names.apply(i)),
                self._filled(self._printed(values.apply(i), replace, holes), holes),
            )
            for i in range(values.size())
        ]
        if all(name == _own_name(text, i) for i, (name, text) in enumerate(pairs)):
            return self._hole(f"struct({', '.join(t for _, t in pairs)})", node, holes)
        parts = ", ".join(f"{string(n, self.meaning.escaped)}, {t}" for n, t in pairs)
        return self._hole(f"named_struct({parts})", node, holes)

    def _optioned(self, node: Any, replace: Replace, holes: list[str]) -> Any:
        """Functions that Spark prints without their options."""
        if not node.options().isEmpty():
            raise _unprintable(node)
        return None

    def _minus(self, node: Any, replace: Replace, holes: list[str]) -> Any:
        """Minus a constant: Spark reads it back as a negative constant."""
        text = self._filled(self._printed(node.child(), replace, holes), holes)
        if not text[0].isdigit():
            return self._hole(f"(- {text})", node, holes)
        # only doubles have a zero below zero
        zero = not re.search("[1-9]", text) and not text.endswith("D")
        return self._hole(text if zero else f"-{text}", node, holes)

    def _days(self, node: Any, replace: Replace, holes: list[str]) -> Any:
        """The days of a constant interval, which Spark adds to a date."""
        if "Literal" not in self.kinds(node.child()):
            raise _unprintable(node)
        return self._hole(str(node.eval(None)), node, holes)

    def _difference(self, node: Any, replace: Replace, holes: list[str]) -> Any:
        left = self._printed(node.start(), replace, holes)
        return self._hole(
            f"({left} - {self._printed(node.interval(), replace, holes)})", node, holes
        )

    def _part(self, node: Any, replace: Replace, holes: list[str]) -> Any:
        """``extract``: the seconds with their fraction have no other name."""
        if "SecondWithFraction" not in self.kinds(node.replacement()):
            return None
        parameters = node.parameters()
        inner = self._printed(parameters.apply(1), replace, holes)
        return self._hole(f"date_part('SECOND', {inner})", node, holes)

    def _with(self, node: Any, replace: Replace, holes: list[str]) -> Any:
        """An expression that names others: these are put in place (all are deterministic)."""
        defined = node.defs()
        texts = {
            str(d.id()): self._printed(d.child(), replace, holes)
            for d in (defined.apply(i) for i in range(defined.size()))
        }

        def inner(child: Any) -> str | None:
            if "CommonExpressionRef" in self.kinds(child):
                return texts[str(child.id())]
            return replace(child)

        return self._rebuilt(node.child(), inner, holes)

    def _replaceable(self, node: Any, replace: Replace, holes: list[str]) -> Any:
        """A function that the optimizer replaces: as written if that is how it must be read."""
        name = str(node.prettyName())
        if not name.startswith("try_") and _plain(self, node.replacement()):
            return self._rebuilt(node.replacement(), replace, holes)
        if "InheritAnalysisRules" not in self.kinds(node):
            return self._whole(node, replace, holes)
        parameters = node.parameters()
        parts = [
            self._printed(parameters.apply(i), replace, holes) for i in range(parameters.size())
        ]
        return self._hole(f"{name}({', '.join(parts)})", node, holes)

    def _lambda(self, node: Any, replace: Replace, holes: list[str]) -> Any:
        arguments = node.arguments()
        numbers = [ident(arguments.apply(i)) for i in range(arguments.size())]
        self._depth += 1
        names = {n: f"`x{self._depth}_{i}`" for i, n in enumerate(numbers)}

        def inner(child: Any) -> str | None:
            if "NamedLambdaVariable" in self.kinds(child) and ident(child) in names:
                return names[ident(child)]
            return replace(child)

        body = self._printed(node.function(), inner, holes)
        self._depth -= 1
        heads = ", ".join(names.values())
        # Spark does not read one name in parentheses
        head = heads if len(names) == 1 else f"({heads})"
        return self._hole(f"{head} -> {body}", node, holes)

    def _refuse(self, node: Any, kinds: frozenset[str]) -> None:
        if "Generator" in kinds:
            raise _unsupported(node, "a generator makes several rows of one")
        if "SubqueryExpression" in kinds:
            raise _unsupported(node, "a subquery is not an expression over the row")
        if "WindowExpression" in kinds:
            raise _unsupported(node, "a window function needs all rows")
        if "AggregateExpression" in kinds:
            raise AnalysisError(
                "UNSUPPORTED_EXPRESSION",
                f"aggregate {node.sql()} outside an aggregation",
                hint="use groupBy(..., sw.window(...)).agg(...)",
                expression=node.sql(),
            )
        if kinds.intersection(_UDF):
            name = node.name() if "PythonUDF" in kinds else node.prettyName()
            raise AnalysisError(
                "UNSUPPORTED_EXPRESSION",
                f"the user-defined function '{name}' has no SQL text",
                hint="apply it on the DataFrame, before sw.stream(...)",
                function=name,
            )
        if "Nondeterministic" in kinds or kinds.intersection(_CLOCK):
            raise AnalysisError(
                "UNSUPPORTED_EXPRESSION",
                f"{node.sql()} is not deterministic: a replayed batch would give another result",
                hint="add such a column on the DataFrame, before sw.stream(...)",
                expression=node.sql(),
            )


_SPECIAL: dict[str, Callable[[Printer, Any, Replace, list[str]], Any]] = {
    "AttributeReference": Printer._attribute,
    "Literal": Printer._literal,
    "LambdaFunction": Printer._lambda,
    "Cast": Printer._cast,
    "UnaryMinus": Printer._minus,
    "DatetimeSub": Printer._difference,
    "ExtractANSIIntervalDays": Printer._days,
    "Extract": Printer._part,
    "With": Printer._with,
    "CreateNamedStruct": Printer._struct,
    "StructsToJson": Printer._optioned,
    "StructsToCsv": Printer._optioned,
    "StructsToXml": Printer._optioned,
}


def _own_name(text: str, place: int) -> str:
    """What ``struct`` calls the field of a value that is written so."""
    match = _LAST_NAME.fullmatch(text)
    return f"col{place + 1}" if match is None else match.group(1).replace("``", "`")


def _type_text(kind: Any) -> str:
    """A type as SQL, under whatever name ``timestamp`` goes in the session."""
    name = str(kind.typeName())
    if name == "array":
        return f"ARRAY<{_type_text(kind.elementType())}>"
    if name == "map":
        return f"MAP<{_type_text(kind.keyType())}, {_type_text(kind.valueType())}>"
    if name == "struct":
        fields = [
            f"{quoted(str(f.name()))}: {_type_text(f.dataType())}"
            f"{'' if f.nullable() else ' NOT NULL'}"
            for f in kind.fields()
        ]
        return f"STRUCT<{', '.join(fields)}>"
    return "TIMESTAMP_LTZ" if name == "timestamp" else str(kind.sql())


def _instant(ticks: object) -> str | None:
    """A timestamp constant in UTC: printed in local time, an hour would occur twice a year."""
    if not isinstance(ticks, int):
        return None
    try:
        at = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=ticks)  # noqa: DTZ001
    except OverflowError:
        return None
    return f"TIMESTAMP '{at.isoformat(sep=' ')}Z'"


def _evaluated(node: Any) -> object:
    """The value of a constant expression; None if it is null or fails, which is for the run to say."""
    from py4j.protocol import Py4JError

    try:
        return node.eval(None)
    except Py4JError:
        return None


def _unprintable(node: Any) -> AnalysisError:
    return AnalysisError(
        "BAD_EXPRESSION",
        f"the expression {node.sql()} cannot be written down and read again",
        hint="compute it on the DataFrame, before sw.stream(...)",
        expression=node.sql(),
    )


def _unsupported(node: Any, why: str) -> AnalysisError:
    return AnalysisError(
        "UNSUPPORTED_EXPRESSION",
        f"{node.sql()}: {why}",
        hint="apply it on the DataFrame, before sw.stream(...)",
        expression=node.sql(),
    )


def _plain(printer: Printer, node: Any) -> bool:
    """Whether the printed form of a tree is SQL: no calls into the JVM inside."""
    kinds = printer.kinds(node)
    if kinds & {"StaticInvoke", "Invoke", "GetTimestamp", "StringSplitSQL", "KnownNotContainsNull"}:
        return False
    if "RuntimeReplaceable" in kinds:
        return True
    children = node.children()
    return all(_plain(printer, children.apply(i)) for i in range(children.size()))
