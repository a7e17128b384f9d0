"""What `ps` shows of `streamhouse`: the command line without secrets.

Every user of a machine can read the command lines of all its processes. What is given by
STREAMHOUSE_… variables or --config stays out of them from the start; what is given as a flag all
the same is taken out first of all, some hundredths of a second after this process began.
"""

import os
import re
import shlex
import sys
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

from setproctitle import setproctitle

COMMAND: Final = "streamhouse"
HIDDEN: Final = "***"

_SECRET: Final = re.compile(
    r"passw|passphrase|pwd|secret|token|credential|jaas|user\.info|oauthbearer\.config|\.key=|\.pem=",
    re.IGNORECASE,
)
_PATH: Final = re.compile(r"(^|(?<==))(file:/|~?/|\.\.?/)[^=?&\s]*$")
"""That of a file named like a secret is none."""
_USER: Final = re.compile(r"(^|(?<==))postgres(ql)?://[^:@/]*@")
"""Who has no password in a DSN is no secret, either."""


def hide_command_line() -> None:
    """Rewrite this process's command line if it has secrets."""
    shown = hide_secrets(sys.argv[1:])
    if shown != sys.argv[1:]:
        title = shlex.join([COMMAND, *shown]).replace(f"'{HIDDEN}'", HIDDEN)
        setproctitle(os.fsencode(title).decode(errors="replace"))  # a path need not be UTF-8


def has_secrets(words: Sequence[str]) -> bool:
    """Tell whether some of the words of a command line may be secret."""
    return hide_secrets(words) != list(words)


def hide_secrets(words: Sequence[str]) -> list[str]:
    """Return the words of a command line; where one may have a secret, *** stands instead.

    That is: the value of whatever is named like one, the word after a flag that is, and any word
    with an @, which a URL has behind a login, but for a DSN with a user alone. Too much rather than
    too little is hidden.
    """
    shown = []
    hides_next = False
    for word in words:
        shown.append(HIDDEN if hides_next else _shown(word))
        hides_next = word.startswith("-") and "=" not in word and _may_be_secret(word)
    return shown


def _shown(word: str) -> str:
    if not _may_be_secret(word):
        return word
    name, equals, _ = word.partition("=")
    if equals and re.fullmatch(r"[\w.-]+", name):
        return f"{name}={HIDDEN}"
    return word if re.fullmatch(r"--?[\w-]+", word) else HIDDEN


def _may_be_secret(word: str) -> bool:
    plain = _USER.sub("", unquote(word))
    return "@" in plain or _SECRET.search(_PATH.sub("", plain)) is not None
