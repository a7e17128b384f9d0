"""Loads the classes of a message when the first request of its version comes, by a thread.

The codec has a module for the requests and one for the answers of each version of each API, 500 in
all. To make the classes of one takes milliseconds to tens of them, in which the event loop would
serve nobody: who sends requests of every version could do that to everybody, for seconds. Loaded
ahead they would take 21 MiB, for versions that hardly any client asks with.
"""

from dataclasses import dataclass
from typing import Final

from kio.index import load_payload_module
from kio.static.constants import EntityType

from broker.api_table import is_supported
from protocol.codec import kio_versions
from storage.worker_threads import WorkerThreads

VERSION_BYTES: Final = 4
"""Of a request: API key and version, with which each begins."""


class MessageClasses:
    """What one process has loaded.

    Attributes:
        loaded: first VERSION_BYTES of requests whose classes are there.
    """

    def __init__(self) -> None:
        self.loaded: set[bytes] = set()
        self._thread = WorkerThreads(1, "message-classes")  # two could wait for each other's locks

    async def load(self, version: bytes) -> None:
        """Load what a request that begins like this needs, and its answer, if it is supported."""
        load = _Load(int.from_bytes(version[:2]), int.from_bytes(version[2:]))
        if is_supported(load.api_key, load.version):
            await self._thread.run(load)
            self.loaded.add(version)

    def close(self) -> None:
        self._thread.shutdown()


@dataclass(frozen=True, slots=True)
class _Load:
    api_key: int
    version: int

    def run(self) -> None:
        load_payload_module(self.api_key, self.version, EntityType.request)
        # Where an answer has fields that its version lacks, the codec looks at the newest one.
        newest = kio_versions(self.api_key)[1]
        for version in (self.version, newest):
            load_payload_module(self.api_key, version, EntityType.response)

    def tidy(self) -> None:
        pass
