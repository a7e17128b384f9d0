"""Clients that go on asking a broker for others while it is cut off from Postgres.

librdkafka asks whom it is connected to. A producer of one partition may be to its leader alone, and
asks others only if that closes the connection. And who commits offsets in a transaction asks one
broker for the group's coordinator three times, and if none of them is answered by a name, waits
until a connection begins or ends, for ever if need be.
"""

from typing import Final

from broker.network.refused_connections import CloseConnection
from broker.requests import Request

MOST_SENT_AWAY: Final = 2


def send_away(request: Request) -> None:
    """Close the connection of a client that comes again and again: others know what it asks for.

    Raises:
        CloseConnection: this is once too often.
    """
    request.session.sent_away += 1
    if request.session.sent_away > MOST_SENT_AWAY:
        raise CloseConnection("cut off from Postgres")
