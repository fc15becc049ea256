"""What an expression means depends on settings of its session. This module has the list of them.

A setting is on the list if it can change how Spark reads a text, what type or value an expression has, or
whether its evaluation fails. Settings that only decide how fast something runs, how files are read or which
name resolution wins inside a query of several tables are not: no expression over a row depends on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

ANSI = "spark.sql.ansi.enabled"
ZONE = "spark.sql.session.timeZone"
CASE = "spark.sql.caseSensitive"
TIMESTAMP_TYPE = "spark.sql.timestampType"
ESCAPED = "spark.sql.parser.escapedStringLiterals"

SETTINGS: tuple[str, ...] = (
    ZONE,
    ANSI,
    CASE,
    # how a text is read
    ESCAPED,
    "spark.sql.parser.quotedRegexColumnNames",
    "spark.sql.ansi.doubleQuotedIdentifiers",
    "spark.sql.ansi.enforceReservedKeywords",
    "spark.sql.variable.substitute",
    TIMESTAMP_TYPE,
    "spark.sql.functionResolution.sessionOrder",
    "spark.sql.legacy.consecutiveStringLiterals.enabled",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled",
    "spark.sql.legacy.interval.enabled",
    "spark.sql.legacy.fromDayTimeString.enabled",
    "spark.sql.legacy.charVarcharAsString",
    "spark.sql.preserveCharVarcharTypeInfo",
    # which types meet, and in which one
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.legacy.literal.pickMinimumPrecision",
    "spark.sql.legacy.allowNegativeScaleOfDecimal",
    "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate",
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled",
    "spark.sql.legacy.createEmptyCollectionUsingStringType",
    "spark.sql.legacy.lpadRpadAlwaysReturnString",
    "spark.sql.function.concatBinaryAsString",
    "spark.sql.function.eltOutputAsString",
    # what a function gives
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.legacy.castComplexTypesToString.enabled",
    "spark.sql.legacy.sizeOfNull",
    "spark.sql.legacy.statisticalAggregate",
    "spark.sql.legacy.percentileDiscCalculation",
    "spark.sql.legacy.followThreeValuedLogicInArrayExists",
    "spark.sql.legacy.nullInEmptyListBehavior",
    "spark.sql.legacy.allowNullComparisonResultInArraySort",
    "spark.sql.legacy.allowHashOnMapType",
    "spark.sql.legacy.collationAwareHashFunctions",
    "spark.sql.legacy.disableMapKeyNormalization",
    "spark.sql.legacy.allowZeroIndexInFormatString",
    "spark.sql.legacy.negativeIndexInArrayInsert",
    "spark.sql.legacy.truncateForEmptyRegexSplit",
    "spark.sql.legacy.codingErrorAction",
    "spark.sql.legacy.javaCharsets",
    "spark.sql.legacy.raiseErrorWithoutErrorClass",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.chunkBase64String.enabled",
    "spark.sql.icu.caseMappings.enabled",
    # from_json, to_json, from_csv, parse_json
    "spark.sql.legacy.json.allowEmptyString.enabled",
    "spark.sql.legacy.json.enableDateTimeParsingFallback",
    "spark.sql.legacy.csv.enableDateTimeParsingFallback",
    "spark.sql.json.enableExactStringParsing",
    "spark.sql.json.enablePartialResults",
    "spark.sql.jsonGenerator.ignoreNullFields",
    "spark.sql.columnNameOfCorruptRecord",
    "spark.sql.variant.allowDuplicateKeys",
)
# whose values are names that keep their letter case
_AS_WRITTEN = (ZONE, "spark.sql.columnNameOfCorruptRecord")
# as query.json of the first checkpoints has them
_OLD_NAMES = {ANSI: "ansi", ZONE: "zone"}


@dataclass(frozen=True)
class Meaning:
    """The values of the settings, in the list's order. A setting that Spark leaves undefined has the value ''.

    >>> one = Meaning.of({ZONE: "UTC", ANSI: "TRUE"})
    >>> one.ansi, one.zone, list(one.differences(Meaning.of({ZONE: "Asia/Tokyo", ANSI: "true"})))
    (True, 'UTC', [('spark.sql.session.timeZone', 'UTC', 'Asia/Tokyo')])
    """

    values: tuple[tuple[str, str], ...]

    @staticmethod
    def of(values: Mapping[str, str]) -> Meaning:
        """From values as a session has them; letter case counts only where it does for Spark."""
        return Meaning(
            tuple(
                (name, values[name] if name in _AS_WRITTEN else values[name].lower())
                for name in SETTINGS
                if name in values
            )
        )

    def value(self, setting: str) -> str:
        """The value of a setting; '' if it is not recorded."""
        return dict(self.values).get(setting, "")

    @property
    def ansi(self) -> bool:
        """Whether ANSI mode is on."""
        return self.value(ANSI) == "true"

    @property
    def zone(self) -> str:
        """The session's time zone."""
        return self.value(ZONE)

    @property
    def case_sensitive(self) -> bool:
        """Whether names that differ in letter case are different names."""
        return self.value(CASE) == "true"

    @property
    def escaped(self) -> bool:
        """Whether a backslash in a string literal is just a backslash."""
        return self.value(ESCAPED) == "true"

    @property
    def plain_timestamp_is_local(self) -> bool:
        """Whether TIMESTAMP in a text is the type without a zone."""
        return self.value(TIMESTAMP_TYPE) == "timestamp_ntz"

    def differences(self, other: Meaning) -> Iterator[tuple[str, str, str]]:
        """(setting, value here, value there) of what both have recorded and differs."""
        there = dict(other.values)
        for name, value in self.values:
            if there.get(name, value) != value:
                yield name, value, there[name]

    def to_json(self) -> dict[str, object]:
        """As a checkpoint stores it."""
        plain: dict[str, object] = {_OLD_NAMES.get(name, name): v for name, v in self.values}
        return {**plain, "ansi": self.ansi}

    @staticmethod
    def from_json(stored: Mapping[str, object]) -> Meaning:
        """What a checkpoint stored. One of an older version has fewer settings.

        >>> Meaning.from_json({"ansi": False, "zone": "UTC"}).values
        (('spark.sql.session.timeZone', 'UTC'), ('spark.sql.ansi.enabled', 'false'))
        """
        named = {_OLD_NAMES.get(name, name): name for name in SETTINGS}
        return Meaning.of({named[k]: str(v) for k, v in stored.items() if k in named})
