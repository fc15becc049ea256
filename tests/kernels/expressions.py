"""Expressions that must be translated, and some that must not be."""

from __future__ import annotations

_NUMBERS = ("y", "h", "i", "l", "f", "d", "c", "g")

# functions of which the last digit may differ
LOOSE = ("EXP(", "LN(", "LOG(", "LOG10(", "POWER(")

TRANSLATED = [
    *(f"{t}1 {op} {t}2" for t in _NUMBERS for op in ("+", "-", "*", "%", "=", "<", "<=>", ">=", "!=")),
    *(f"{t}1 / {t}2" for t in ("y", "i", "l", "f", "d")),
    *(f"{t}1 div {t}2" for t in ("y", "h", "i", "l")),
    *(f"-{t}1" for t in _NUMBERS),
    *(f"abs({t}1)" for t in _NUMBERS),
    *(f"{f}({t}1, {t}2)" for t in (*_NUMBERS, "s", "t", "da", "b") for f in ("greatest", "least", "coalesce")),
    *(f"{t}1 in ({t}2, null)" for t in ("i", "d", "s", "t", "c")),
    *(f"{t}1 {op} {t}2" for t in ("s", "t", "n", "da", "b", "e") for op in ("=", "<", "<=>", ">=")),
    "e1 = e2", "c1 < g2", "c1 + i2", "c1 * y2", "c1 - 1.55", "c1 * 1.5", "i1 + l2", "i1 + d2", "f1 * d2",
    "c1 + d2", "i1 % 3", "i1 % -3", "l1 % -1", "d1 % 3", "i1 / 3", "i1 / 0.5D", "i1 + 1", "1 - i1", "i1 + 1 > 5", "2 * l1 < 7", "-i1 = 3", "i1 - 1 = i2",
    "i1 + (l1 * l2)", "i1 * (1 / i2)", "(i1 / i2) + (l1 / l2)", "pmod(i1, 3)", "pmod(l1, 7)", "mod(i1, i2)",
    "i1 & i2", "i1 | i2", "i1 ^ i2", "~i1", "l1 & l2", "~l1", "y1 ^ y2",
    "b1 and b2", "b1 or b2", "not b1", "b1 and i1 > 0 or i2 is null", "i2 != 0 and 10 / i2 > 1",
    "i2 = 0 or 10 / i2 > 1", "i2 is not null and i1 % i2 = 0", "b1 is true", "b1 is not false",
    "i1 is null", "i1 is not null", "isnan(d1)", "isnan(f1)", "nanvl(d1, d2)", "isnull(s1)", "isnotnull(s1)",
    "i1 between i2 and 7", "d1 between d2 and 7", "i1 not between -7 and 3", "s1 between 'a' and s2",
    "if(i1 > 0, i1, -1)", "if(b1, 'x', s1)", "case when i1 > 0 then 'p' when i1 < 0 then 'n' end",
    "case i1 when 0 then d1 when 1 then d2 else 1.5D end", "case when b1 then c1 else g2 end",
    "nvl(i1, l2)", "ifnull(s1, 'none')", "nullif(i1, i2)", "nullif(s1, '')", "nvl2(i1, s1, s2)",
    "equal_null(d1, d2)", "zeroifnull(l1)", "nullifzero(i1)", "coalesce(i1, i2, 0)", "coalesce(null, s1)",
    "case when false then 1 / 0 else 2.0D end", "if(i2 = 0, null, i1 / i2)", "coalesce(i1, 1 div i2)",
    # literals
    "1", "-1", "10L", "-9223372036854775808L", "1.5D", "-0.0D", "1e300D", "1.5BD", "0.05BD", "-12.50BD",
    "127Y", "-32768S", "1.5F", "true", "'it''s'", "'a\\\\b'", "'tab\\there'", "''", "'日本'",
    "date '2024-02-29'", "timestamp '2024-02-29 12:34:56.789'", "timestamp_ntz '1969-12-31 23:59:59.999999'",
    "double('NaN')", "double('Infinity')", "double('-Infinity')", "cast(null as int)", "float('NaN')",
    "t1 > '2020-01-01'", "da1 <= '2024-02-29'", "n1 < timestamp_ntz '2020-01-01 00:00:00'",
    "t1 >= timestamp '2023-03-26 01:30:00'",
    # casts
    *(f"cast({a}1 as {b})" for a in ("y", "h", "i", "l") for b in ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string")),
    *(f"cast({a}1 as {b})" for a in ("f", "d") for b in ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean")),
    *(f"cast({a}1 as {b})" for a in ("c",) for b in ("tinyint", "int", "bigint", "double", "boolean", "string")),
    *(f"cast({a}1 as decimal({p}))" for a in ("i", "l", "c", "g") for p in ("10,2", "5,1", "20,0", "38,18", "3,3")),
    *(f"cast(b1 as {b})" for b in ("int", "tinyint", "bigint", "double", "string")),
    "cast(s1 as int)", "cast(s1 as bigint)", "cast(s1 as tinyint)", "cast(t1 as date)", "cast(n1 as date)",
    "cast(t1 as bigint)", "cast(t1 as double)", "cast(da1 as timestamp)", "cast(da1 as timestamp_ntz)",
    "cast(n1 as timestamp)", "cast(t1 as timestamp_ntz)", "t1 > da2", "n1 > t2", "cast(e1 as decimal(38,0))",
    # numbers
    "ceil(d1)", "floor(d1)", "ceil(c1)", "floor(c1)", "ceil(g1)", "floor(l1)", "ceil(i1)",
    "round(c1, 1)", "round(c1)", "round(c1, 5)", "round(g1, 2)", "round(i1, 2)", "round(d1)", "round(d1, 0)",
    "sqrt(d1)", "sqrt(i1)", "exp(d1)", "ln(d1)", "log(d1)", "log(2, d1)", "log10(d1)", "log(d1, d2)",
    "power(d1, d2)", "pow(i1, 2)", "sign(d1)", "signum(i1)",
    # text
    "length(s1)", "char_length(s1)", "octet_length(s1)", "concat(s1, s2)", "s1 || '-' || i1", "concat(s1)",
    "concat_ws(',', s1, s2)", "concat_ws(s1, s2, 'x')", "substring(s1, 1, 2)", "substring(s1, 0, 2)",
    "substring(s1, -2, 1)", "substring(s1, -5, 4)", "substring(s1, 2)", "substr(s1, i1, 2)",
    "substring(s1, i1, i2)", "substring(s1, 2, -1)", "substring(s1, 3, 100)", "left(s1, 2)", "right(s1, 2)",
    "left(s1, i1)", "right(s1, 0)", "trim(s1)", "ltrim(s1)", "rtrim(s1)", "btrim(s1)", "trim(both 'ab' from s1)",
    "trim(leading 'a' from s1)", "trim(trailing 'bé' from s1)", "replace(s1, 'b', 'XY')", "replace(s1, s2, '-')",
    "startswith(s1, s2)", "endswith(s1, s2)", "contains(s1, s2)", "startswith(s1, 'a')", "lpad(s1, 5, 'xy')",
    "rpad(s1, 5, 'é')", "lpad(s1, 2, 'x')", "lpad(s1, 0, 'x')", "rpad(s1, -1, 'x')", "lpad(s1, 4)",
    "repeat(s1, 2)", "repeat(s1, 0)", "repeat(s1, -1)", "instr(s1, s2)", "locate(s2, s1)", "position('b', s1)",
    "s1 like 'a%'", "s1 like '%b%'", "s1 like 'a_b'", "s1 like 'a\\\\%b'", "s1 like 'a^_b' escape '^'",
    "s1 like ''", "s1 not like '%c'", "s1 rlike '[a-z]+b'", "s1 rlike '^(a|b)c?'", "s1 rlike 'a\\\\.b'",
    "s1 in ('a', 'é', '')", "s1 = 'ABC'", "s1 < 'b'",
    # time
    *(f"{part}({t}1)" for part in ("year", "month", "day", "quarter", "dayofyear", "dayofweek", "weekday", "weekofyear", "dayofmonth") for t in ("t", "da", "n")),
    *(f"{part}({t}1)" for part in ("hour", "minute", "second") for t in ("t", "n")),
    *(f"date_trunc('{u}', t1)" for u in ("year", "YYYY", "quarter", "month", "MON", "week", "day", "dd", "hour", "minute", "second", "millisecond", "microsecond")),
    "date_trunc('hour', n1)", "date_trunc('month', n1)",
    *(f"trunc(da1, '{u}')" for u in ("year", "quarter", "month", "week", "mm")), "trunc(t1, 'month')",
    "unix_micros(t1)", "unix_millis(t1)", "unix_seconds(t1)", "unix_timestamp(t1)", "to_unix_timestamp(t1)",
    "unix_timestamp(da1)", "timestamp_micros(i1)", "timestamp_millis(i1)", "timestamp_seconds(i1)",
    "timestamp_micros(unix_micros(t1))", "timestamp_seconds(l1 % 1000000)",
    "date_add(da1, 7)", "date_sub(da1, 7)", "da1 + 1", "da1 - 1", "date_add(da1, y1)", "datediff(da1, da2)",
    "date_diff(da1, da2)", "da1 + interval 3 days", "da1 - interval 1 month",
    "t1 + interval 10 seconds", "t1 - interval '1' day", "t1 + interval '1 02:03:04.5' day to second",
    "n1 + interval '36' hour", "n1 - interval '0.000001' second", "t1 - interval '90' minute",
    "t1 + interval 1 month", "t1 - interval 13 month", "n1 + interval 1 year", "da1 + interval 1 year",
    "timestampdiff(second, t1, t2)", "timestampdiff(hour, t1, t2)", "timestampdiff(day, t1, t2)",
    "timestampadd(second, -10, t1)", "timestampadd(day, 1, t1)", "extract(hour from t1)", "extract(year from t1)",
    "date(t1)", "w.start", "w.end", "w.start < w.end", "hour(w.end)", "`a b` + 1", "`a b`",
]  # fmt: skip

REFUSED = [
    "upper(s1)", "lower(s1)", "initcap(s1)", "reverse(s1)", "cast(d1 as string)", "cast(s1 as double)",
    "cast(t1 as string)", "cast(s1 as timestamp)", "s1 rlike '.*b$'", "s1 like s2", "round(d1, 2)", "hash(i1)",
    "t1 - t2", "date_format(t1, 'yyyy')", "c1 / c2", "e1 + e2", "e1 * e2", "shiftleft(i1, 2)", "i1 << 40",
    "pmod(i1, i2)", "from_unixtime(l1)", "try_add(i1, 1)", "try_cast(s1 as int)", "md5(s1)", "lpad(s1, 5, s2)",
    "array(i1, i2)", "named_struct('a', i1)", "cast(d1 as decimal(10,2))", "bit_count(i1)", "s1 ilike 'a'",
    "sin(d1)", "make_date(2024, 1, 1)", "to_date(s1)", "extract(second from t1)", "locate('a', s1, 2)",
]  # fmt: skip
