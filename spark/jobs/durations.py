"""Lengths of time on the command line: 30s, 10m, 2h, 7d."""

import re
from datetime import timedelta
from typing import Final

from spark.jobs.options import WrongUsage

_WORD: Final = re.compile(r"(\d+)(s|m|h|d)")
_UNITS: Final = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_LONGEST: Final = timedelta(days=36_500)


def parse_duration(option: str, word: str) -> timedelta:
    """Return the length that a word means.

    Raises:
        WrongUsage: it means none, none that is longer than nothing, or one of more than a century.
    """
    found = _WORD.fullmatch(word.strip())
    count, unit = (int(found[1]), _UNITS[found[2]]) if found else (0, _UNITS["s"])
    if not count:
        raise WrongUsage(f"{option} {word!r} is no length of time", fix="write 30s, 10m, 2h or 7d")
    if count > _LONGEST // unit:
        raise WrongUsage(f"{option} {word!r} is longer than {_LONGEST.days} days")
    return count * unit
