"""Who the client of one connection is, and who is told when the connection ends."""

from collections.abc import Callable
from typing import Final

UNKNOWN: Final = "unknown"
"""What stands for a client's software until ApiVersions v3 names it (KIP-511)."""

ANONYMOUS: Final = "ANONYMOUS"
"""The user of a connection without authentication, as Kafka calls it."""


class ClientSession:
    """One per connection.

    Attributes:
        principal: the user; ANONYMOUS as long as nobody has said who it is.
        software_name, software_version: of the client's library.
    """

    __slots__ = ("_watchers", "ended", "principal", "software_name", "software_version")

    def __init__(self) -> None:
        self.principal = ANONYMOUS
        self.software_name = UNKNOWN
        self.software_version = UNKNOWN
        self.ended = False
        self._watchers: set[Callable[[ClientSession], None]] = set()

    def at_end(self, watcher: Callable[["ClientSession"], None]) -> None:
        """Call `watcher` with this session when the connection ends; once, however often asked.

        It is called at once if that has happened: an answer may be made for a peer that is gone.
        """
        if self.ended:
            watcher(self)
        else:
            self._watchers.add(watcher)

    def end(self) -> None:
        """Take note of the connection's end."""
        self.ended = True
        for watcher in self._watchers:
            watcher(self)
        self._watchers.clear()
