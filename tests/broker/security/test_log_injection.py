"""What clients call themselves cannot make log lines, nor reach a terminal."""

import io
import json
import subprocess
import sys
from typing import Any, Final

import pytest
import structlog

from broker.logs import MOST_CHARACTERS, cut, renderers

HOSTILE: Final = (
    'x\n{"event":"login","user":"admin"}',
    "x\r\nlevel=info event=forged",
    "\x1b[2J\x1b[1;31mowned",
    "\x1b]0;title\x07",
    "\x9b31m",  # CSI in one character
    "\x00\x08\x7f",
    "\u202egnp.exe",  # shown from right to left
    "\u2028next line\u2029",
    "\ud800",  # half of a pair
    "\x1b",
)

KEYS: Final = ("client_id", "topic", "group", "transactional_id", "software_name", "principal")


def rendered(*, for_person: bool, values: dict[str, Any]) -> str:
    """Return what a log entry looks like."""
    written = io.StringIO()
    log = structlog.wrap_logger(
        structlog.PrintLogger(written),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            cut,
            *renderers(for_person=for_person),
        ],
    )
    log.warning("somebody came", **values)
    return written.getvalue()


@pytest.mark.parametrize("for_person", [False, True])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_stays_in_its_line(name: str, *, for_person: bool) -> None:
    values = dict.fromkeys(KEYS, name) | {"names": [name, {name: name}]}
    text = rendered(for_person=for_person, values=values)
    assert text.count("\n") == 1
    own_colours = text
    if for_person:  # those that stand around keys and values, and are the renderer's
        for colour in ("\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[33m", "\x1b[35m", "\x1b[36m"):
            own_colours = own_colours.replace(colour, "")
    assert own_colours.rstrip("\n").isprintable()
    text.encode()


@pytest.mark.parametrize("name", HOSTILE)
def test_json_gives_back_what_was_logged(name: str) -> None:
    entry = json.loads(rendered(for_person=False, values={"client_id": name}))
    assert entry == {"event": "somebody came", "level": "warning", "client_id": name}


@pytest.mark.parametrize("for_person", [False, True])
def test_a_long_name_is_cut(*, for_person: bool) -> None:
    text = rendered(for_person=for_person, values={"client_id": "x" * 30_000})
    assert len(text) < 2 * MOST_CHARACTERS
    assert "30000 characters" in text


def failing() -> None:
    raise ValueError(HOSTILE[2])


def test_a_traceback_keeps_its_lines_and_nothing_else() -> None:
    with pytest.raises(ValueError, match="owned") as raised:
        failing()
    text = rendered(for_person=True, values={"exc_info": raised.value})
    assert "Traceback" in text
    assert text.count("\n") > 3
    assert "\\x1b[2J" in text
    assert "\x1b[2J" not in text


FAILING_LIBRARIES: Final = """
import asyncio, logging, warnings
from broker.logs import configure_logs

async def failing(name):
    raise ValueError(name)

def fail(name):
    raise ValueError(name)

async def main(name):
    lost = asyncio.create_task(failing(name))
    asyncio.get_running_loop().call_soon(fail, name)
    await asyncio.wait([lost])

configure_logs()
name = {name!r}
asyncio.run(main(name))
logging.getLogger("library").warning("no such topic: %s", name)
logging.getLogger("library").info("nothing to see")
warnings.warn(name)
"""


def test_what_libraries_say_stays_in_its_line() -> None:
    # When a task and a callback fail, and libraries log and warn, each with a client's words
    names = " ".join(HOSTILE)
    ended = subprocess.run(
        [sys.executable, "-c", FAILING_LIBRARIES.format(name=names)],
        check=True,
        capture_output=True,
        text=True,
    )

    # Then each is one entry of the log
    entries = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [(entry["event"], entry["level"], entry["library"]) for entry in entries] == [
        ("a library reports", "error", "asyncio"),
        ("a library reports", "error", "asyncio"),
        ("a library reports", "warning", "library"),
        ("a library reports", "warning", "py.warnings"),
    ]
    assert all("Traceback" in entry["exception"] for entry in entries[:2])
    assert entries[2]["reason"] == f"no such topic: {names}"
