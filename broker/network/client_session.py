"""Who the client of one connection is, and who is told when the connection ends."""

from collections.abc import Callable
from typing import Final

from broker.security.login import Login

UNKNOWN: Final = "unknown"
"""What stands for a client's software until ApiVersions v3 names it (KIP-511)."""

ANONYMOUS: Final = "ANONYMOUS"
"""The user of a connection without authentication, as Kafka calls it."""


class ClientSession:
    """One per connection.

    Attributes:
        host: the ip address that it connects from.
        principal: the user's name; ANONYMOUS as long as nobody has said who it is. ACLs and logs
            write it behind its type: User:alice.
        authenticated: whether the client may ask anything but how to authenticate. It is false on a
            listener with SASL until that is done.
        expires_s: monotonic time after which that is not enough any more (KIP-368).
        login: how far it is with SASL; None on other listeners.
        software_name, software_version: of the client's library.
        sent_away: how often it has asked for leaders or coordinators while this broker was cut off.
    """

    __slots__ = (
        "_watchers",
        "authenticated",
        "ended",
        "expires_s",
        "host",
        "login",
        "principal",
        "sent_away",
        "software_name",
        "software_version",
    )

    def __init__(self) -> None:
        self.host = ""
        self.authenticated = True
        self.expires_s = float("inf")
        self.login: Login | None = None
        self.principal = ANONYMOUS
        self.software_name = UNKNOWN
        self.software_version = UNKNOWN
        self.sent_away = 0
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
