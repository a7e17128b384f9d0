"""Loads the classes of all messages before clients ask with them.

The codec has a module for the requests and one for the answers of each version of each API, 500 in
all, and imports them when the first such request comes: a first answer needs those of all versions
of its API, tens to hundreds of milliseconds in which the event loop would serve nobody. Who sends
requests of every version could do that to everybody again and again. So they are loaded once the
broker serves: by a thread, one at a time, with rests between, which takes some ten seconds.
"""

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Literal

from kio.index import load_payload_module
from kio.static.constants import EntityType

from broker.api_table import APIS, is_supported
from broker.record_looks import SWITCH_S
from protocol.codec import kio_versions

REST: Final = 4.0
"""For each second of loading; a fifth of a processor is taken at most."""

Message = tuple[int, int, Literal[EntityType.request, EntityType.response]]
"""API key, version, and which of both."""


def messages() -> Iterator[Message]:
    """Yield all that requests and answers are made of, the newest versions of each API first."""
    for key in APIS:
        low, high = kio_versions(key)
        for version in range(high, low - 1, -1):
            if is_supported(key, version):
                yield key, version, EntityType.request
            yield key, version, EntityType.response  # of the others, too: codec.ResponseTypes


async def load_messages() -> None:
    """Load them; returns when all are there."""
    if sys.getswitchinterval() > SWITCH_S:  # else the loop waits 5 ms whenever it wakes up
        sys.setswitchinterval(SWITCH_S)
    stopping = threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="message-classes") as thread:
        try:
            await asyncio.get_running_loop().run_in_executor(thread, _load, stopping)
        finally:
            stopping.set()


def _load(stopping: threading.Event) -> None:
    for message in messages():
        began_s = time.monotonic()
        load_payload_module(*message)
        gc.collect()  # only what is new since the last; what is garbage now would stay for ever
        gc.freeze()  # classes live for ever, and to look through all of them takes milliseconds
        if stopping.wait(REST * (time.monotonic() - began_s)):
            return
