"""The classes of all messages are loaded before anybody asks with them, and not on the loop."""

import asyncio
import gc
import sys
import threading
from pathlib import Path
from typing import Final

import pytest
from kio.index import load_payload_module
from kio.static.constants import EntityType

from broker import message_classes
from broker.api_table import APIS, is_supported
from broker.message_classes import Message, load_messages

DEADLINE_S: Final = 20.0

IMPORT_BOTH: Final = """
import sys, threading, time
from importlib.machinery import SourceFileLoader
from kio.index import load_payload_module
from kio.static.constants import EntityType
from protocol.codec import request_type, response_type

def create_module(self, spec):
    if spec.name == "kio.schema.metadata.v12" and not begun.is_set():
        begun.set()
        time.sleep(0.5)

begun, done = threading.Event(), []
SourceFileLoader.create_module = create_module
def load():
    load_payload_module(3, 12, EntityType.request)
    done.append("loaded")
thread = threading.Thread(target=load)
thread.start()
begun.wait()
done.append({"request": request_type, "response": response_type}[sys.argv[1]](3, 12).__name__)
thread.join()
print(*sorted(done))
"""
"""A thread makes a package slowly; meanwhile a client asks for the module in it that is named."""


class Loader:
    """Notes what is loaded instead of loading it, and by which threads.

    Attributes:
        begun: is set when the first is.
        collections: what the garbage collector is told to do.
    """

    def __init__(self) -> None:
        self.loaded: list[tuple[int, int, EntityType]] = []
        self.threads: set[int] = set()
        self.begun = threading.Event()
        self.collections: list[str] = []

    def load(self, *message: int) -> None:
        self.loaded.append((message[0], message[1], EntityType(message[2])))
        self.threads.add(threading.get_ident())
        self.begun.set()


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> Loader:
    made = Loader()
    monkeypatch.setattr(message_classes, "load_payload_module", made.load)
    monkeypatch.setattr(gc, "collect", lambda: made.collections.append("collect"))
    monkeypatch.setattr(gc, "freeze", lambda: made.collections.append("freeze"))
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)
    return made


async def test_every_version_that_is_advertised_is_loaded_by_a_thread(
    loader: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    # When a broker has loaded what there is
    monkeypatch.setattr(message_classes, "REST", 0.0)
    async with asyncio.timeout(DEADLINE_S):
        await load_messages()

    # Then nothing is left for the first request of any version, and the event loop did none of it
    for key, api in APIS.items():
        for version in filter(lambda one: is_supported(key, one), range(api.low, api.high + 1)):
            for kind in (EntityType.request, EntityType.response):
                assert (key, version, kind) in loader.loaded
    assert threading.get_ident() not in loader.threads

    # And what was garbage at one of those times is not kept for ever
    assert loader.collections == ["collect", "freeze"] * len(loader.loaded)


async def test_a_broker_that_stops_waits_for_one_module_at_most(
    loader: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a broker that has begun to load, and rests for an hour
    monkeypatch.setattr(message_classes, "REST", 3600.0 * 10**6)
    loading = asyncio.create_task(load_messages())
    await asyncio.to_thread(loader.begun.wait, DEADLINE_S)

    # When it stops, then that is over at once
    loading.cancel()
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.wait([loading])
    assert len(loader.loaded) == 1


def test_what_is_named_is_there() -> None:
    some: list[Message] = list(message_classes.messages())[::40]
    for message in some:
        assert load_payload_module(*message).__name__.startswith("kio.schema.")


@pytest.mark.parametrize(
    ("kind", "found"), [("request", b"MetadataRequest"), ("response", b"MetadataResponse")]
)
async def test_a_client_may_ask_for_what_is_being_loaded(kind: str, found: bytes) -> None:
    # Given a process whose thread has begun to load, when the event loop needs the same
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", IMPORT_BOTH, kind),
        cwd=Path(__file__).parents[2],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE_S):
        out, errors = await process.communicate()

    # Then both have it: a deadlock of the modules' locks would end the thread, and the broker
    assert errors == b""
    assert out.split() == [found, b"loaded"]
