"""Lengths of time on the command line: 30s, 10m, 2h, 7d."""

import re
from datetime import timedelta
from typing import Final

from spark.jobs.options import WrongUsage

_WORD: Final = re.compile(r"(\d+)(s|m|h|d)")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_duration(option: str, word: str) -> timedelta:
    """Return the length that a word means.

    Raises:
        WrongUsage: it means none, or none that is longer than nothing.
    """
    found = _WORD.fullmatch(word.strip())
    length = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else timedelta()
    if not length:
        raise WrongUsage(f"{option} {word!r} is no length of time", fix="write 30s, 10m, 2h or 7d")
    return length
