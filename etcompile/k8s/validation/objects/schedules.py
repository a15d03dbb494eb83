"""Cron expressions as the API server reads them: five fields, or a word such as `@daily`.

Apart from the rules of CronJobs because it is a grammar of its own.
"""

import re

_WORDS = frozenset(
    ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_BOUNDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: index + 1 for index, name in enumerate(_MONTHS)}),
    (0, 6, {name: index for index, name in enumerate(_DAYS)}),
)
_DURATION = re.compile(r"[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+")
_ZONE = re.compile(r"(?!-)[A-Za-z.\-_0-9+]{1,14}")


def is_schedule(text: str) -> bool:
    """Whether a text says when a CronJob runs.

    The grammar is that of ParseStandard in robfig/cron, without a time zone.
    """
    if text.startswith("@"):
        return text in _WORDS or (
            text.startswith("@every ") and _DURATION.fullmatch(text[7:]) is not None
        )
    fields = text.split()
    return len(fields) == len(_BOUNDS) and all(
        _is_field(field, *bounds) for field, bounds in zip(fields, _BOUNDS, strict=True)
    )


def _is_field(field: str, least: int, most: int, named: dict[str, int]) -> bool:
    return all(_is_range(part, least, most, named) for part in field.split(",") if part)


def _is_range(text: str, least: int, most: int, named: dict[str, int]) -> bool:
    span, *steps = text.split("/")
    if len(steps) > 1 or (steps and not _number(steps[0], {})):
        return False
    ends = span.split("-")
    if ends[0] in ("*", "?"):
        return True
    numbers = [_number(end, named) for end in ends]
    if len(numbers) > 2 or any(number is None for number in numbers):
        return False
    low, high = numbers[0] or 0, numbers[-1] or 0
    if len(numbers) == 1 and steps:
        high = most
    return least <= low <= high <= most


def _number(text: str, named: dict[str, int]) -> int | None:
    if text.lower() in named:
        return named[text.lower()]
    digits = text.removeprefix("+")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None


_AREAS = frozenset(
    (
        *("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Brazil"),
        *("Canada", "Chile", "Etc", "Europe", "Indian", "Mexico", "Pacific", "US"),
    )
)
_SINGLE = frozenset(
    (
        *("CET", "CST6CDT", "Cuba", "EET", "EST", "EST5EDT", "Egypt", "Eire", "Factory", "GB"),
        *("GB-Eire", "GMT", "GMT+0", "GMT-0", "GMT0", "Greenwich", "HST", "Hongkong", "Iceland"),
        *("Iran", "Israel", "Jamaica", "Japan", "Kwajalein", "Libya", "MET", "MST", "MST7MDT"),
        *("NZ", "NZ-CHAT", "Navajo", "PRC", "PST8PDT", "Poland", "Portugal", "ROC", "ROK"),
        *("Singapore", "Turkey", "UCT", "UTC", "Universal", "W-SU", "WET", "Zulu"),
    )
)
"""The names of the tz database without an area; no new ones are made."""


def is_time_zone(text: str) -> bool:
    """Whether a text can be the name of a time zone; which places there are, the server knows."""
    parts = text.split("/")
    well_formed = all(part not in (".", "..") and _ZONE.fullmatch(part) for part in parts)
    return well_formed and (text in _SINGLE or (len(parts) > 1 and parts[0] in _AREAS))
