"""The classes of a message are loaded for the first who asks with its version, not by the loop."""

import asyncio
import struct
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from kio.static.constants import EntityType

from broker import message_classes
from broker.message_classes import MessageClasses

TIMEOUT_S: Final = 60
METADATA: Final = 3
NEWEST: Final = 13
OLD: Final = struct.pack(">hh", METADATA, 1)

ASK_WITH_THE_OLDEST: Final = """
import asyncio, sys, threading
from kio.schema.errors import ErrorCode
from broker.api_table import APIS, is_supported
from broker.message_classes import MessageClasses
from protocol.codec import error_response, request_type, response_types

class Imports:
    def find_spec(self, name, path, target=None):
        by.setdefault(threading.current_thread().name, set()).add(name)

async def ask():
    classes = MessageClasses()
    for key, api in APIS.items():
        version = next(one for one in range(api.low, api.high + 1) if is_supported(key, one))
        await classes.load(key.to_bytes(2) + version.to_bytes(2))
        name = request_type(key, version).__name__.replace("Request", "Response")
        getattr(response_types(key, version), name)
        error_response(key, version, ErrorCode.unknown_server_error)
    classes.close()

by = {}
sys.meta_path.insert(0, Imports())
asyncio.run(ask())
print([name for name in by.pop("MainThread", ()) if name.startswith("kio.schema.")])
print(len([name for name in by.popitem()[1] if name.endswith(".request")]) > 70)
"""


class Loader:
    """Loads nothing.

    Attributes:
        loaded: what it was told to load.
        threads: those that told it.
        gate: it waits for this.
    """

    def __init__(self) -> None:
        self.loaded: list[tuple[int, int, EntityType]] = []
        self.threads: set[threading.Thread] = set()
        self.gate = threading.Event()
        self.gate.set()

    def load(self, api_key: int, version: int, kind: EntityType) -> None:
        assert self.gate.wait(TIMEOUT_S)
        self.loaded.append((api_key, version, kind))
        self.threads.add(threading.current_thread())


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> Loader:
    made = Loader()
    monkeypatch.setattr(message_classes, "load_payload_module", made.load)
    return made


@pytest.fixture
async def classes() -> AsyncIterator[MessageClasses]:
    made = MessageClasses()
    yield made
    made.close()


async def test_a_thread_loads_what_a_request_and_its_answer_need(
    loader: Loader, classes: MessageClasses
) -> None:
    await classes.load(OLD)
    assert classes.loaded == {OLD}
    assert loader.loaded == [
        (METADATA, 1, EntityType.request),
        (METADATA, 1, EntityType.response),
        (METADATA, NEWEST, EntityType.response),
    ]
    assert threading.current_thread() not in loader.threads


async def test_the_event_loop_goes_on_meanwhile(loader: Loader, classes: MessageClasses) -> None:
    loader.gate.clear()
    async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as clients:
        for version in range(3):
            clients.create_task(classes.load(struct.pack(">hh", METADATA, version)))
        await asyncio.sleep(0.01)
        assert not classes.loaded
        loader.gate.set()
    assert len(classes.loaded) == 3


@pytest.mark.parametrize(
    "version", [struct.pack(">hh", METADATA, 99), struct.pack(">hh", -1, 0), b""]
)
async def test_nothing_is_loaded_for_what_is_not_supported(
    version: bytes, loader: Loader, classes: MessageClasses
) -> None:
    await classes.load(version)
    assert not loader.loaded
    assert not classes.loaded


def test_the_event_loop_has_nothing_left_to_import() -> None:
    run = subprocess.run(
        [sys.executable, "-c", ASK_WITH_THE_OLDEST],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (run.stderr, run.stdout) == ("", "[]\nTrue\n")
