"""Names of time zones: those that Spark 4.3 takes for ``spark.sql.session.timeZone``, and those that it refuses."""

from __future__ import annotations

OFFSETS = {
    "Z": 0, "UTC": 0, "GMT": 0, "UT": 0, "GMT0": 0, "GMT+0": 0, "GMT-0": 0, "Zulu": 0, "Etc/UTC": 0,
    "+00:00": 0, "-00:00": 0, "+0": 0, "-0": 0, "+5": 5, "-5": -5, "+05": 5, "GMT+5": 5, "GMT+05": 5,
    "UTC+5": 5, "UT+5": 5, "UT-03:00": -3, "+05:30": 5.5, "+5:30": 5.5, "+0530": 5.5,
    "GMT+5:30": 5.5, "GMT+05:30": 5.5, "GMT+0530": 5.5, "UTC+05:30": 5.5, "UTC-5:30": -5.5,
    "+05:3": 5.05, "+5:3": 5.05, "UTC-05:3": -5.05, "+05:30:36": 5.51, "+5:30:36": 5.51,
    "+053036": 5.51, "UTC+05:30:36": 5.51, "+18:00": 18, "-18:00": -18, "GMT+18:00": 18,
    "EST": -5, "MST": -7, "HST": -10, "Etc/GMT+5": -5, "Etc/GMT-14": 14,
}  # fmt: skip
"""Hours that zones of a fixed offset are ahead of UTC."""

REGIONS = (
    "Asia/Tokyo", "Asia/Kolkata", "Asia/Kathmandu", "America/New_York", "America/St_Johns",
    "Europe/Berlin", "Europe/Dublin", "Africa/Casablanca", "Africa/Cairo", "Africa/Monrovia",
    "Australia/Lord_Howe", "Australia/Sydney", "Antarctica/Troll", "Pacific/Apia", "Pacific/Kwajalein",
    "Pacific/Chatham", "America/Caracas", "Asia/Pyongyang", "America/Sao_Paulo", "EST5EDT", "Japan",
    "CST", "BST", "IST", "AET", "PST", "JST", "NST", "MIT",
)  # fmt: skip
"""Zones by region, some of them by the short names that Java maps to one."""

REFUSED = (
    "", " ", "utc", "Utc", "z", "gmt", "ut", "gmt0", "gmt+5", "etc/utc", "asia/tokyo", "ASIA/TOKYO",
    " UTC", "UTC ", " +05:30", "+05:30 ", "GMT +5", "+", "-", "UTC+", "GMT-", "UTCZ", "UTC+Z", "Z+5",
    "UTC0", "5", "05:30", "+530", "+005", "GMT+005", "+05.30", "+05 30", "+05:60", "+18:01", "+19",
    "GMT+18:30", "+23:59", "+5:30:1", "+05:3:15", "\u221205:00", "+\u0665", "PDT", "Factory", "ROC",
    "localtime", "posixrules", "posix/Asia/Tokyo", "right/UTC", "Mars/Phobos", "Etc/GMT+13",
    "US/Pacific-New", "../Asia/Tokyo", "/etc/localtime",
)  # fmt: skip
