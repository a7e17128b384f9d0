"""Finds secrets where they must not be: in logs, pages, answers, command lines and environments."""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote, quote_plus

import psutil

_LOGIN_IN_URL: Final = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/:@\"']*:(?!\*\*\*)[^\s@\"']+@[^\s/]")
_BEARER: Final = re.compile(r"\bBearer [A-Za-z0-9._~+/-]{16,}")
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----")
_LEAST_PIECE: Final = 6


def forms(secret: str) -> set[str]:
    """Return how a secret may show: as it is, or as something else writes it.

    A URL that is cut at a special character of a password leaves a piece of it, so each piece that
    is long enough counts, too.
    """
    pieces = {piece for piece in re.split(r"[/?#@%:&=]", secret) if len(piece) >= _LEAST_PIECE}
    return pieces | {
        secret,
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
        base64.b64encode(secret.encode()).decode(),
        secret.encode().hex(),
    }


def leaks(text: str, secrets: Mapping[str, str]) -> list[str]:
    """Return which secrets a text has, by the names that they are given here; never a secret."""
    return [name for name, secret in secrets.items() if any(form in text for form in forms(secret))]


def check_log(log: Path) -> None:
    """Fail if a log has what is a secret for sure, whoever's; cheap enough for every log."""
    text = log.read_text(errors="replace")
    for what, pattern in (
        ("a URL with a password", _LOGIN_IN_URL),
        ("a bearer token", _BEARER),
        ("a private key", _PRIVATE_KEY),
    ):
        assert not pattern.search(text), f"{what} is in {log}"


def family(pid: int) -> list[psutil.Process]:
    """Return a process and all that descend from it."""
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def command_lines(processes: Iterable[psutil.Process]) -> dict[int, str]:
    """Return what every user of this machine can read of processes."""
    return {one.pid: Path(f"/proc/{one.pid}/cmdline").read_text() for one in processes}
