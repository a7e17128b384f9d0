"""The fetch sessions of one broker.

A session belongs to the connection on which it has begun, and ends with that: its client begins
another one. In Apache Kafka it would outlive the connection, in a cache that anybody can reach.
"""

import secrets
from typing import Final

from kio.schema.errors import ErrorCode

from broker.fetch_session import FetchSession
from broker.network.client_session import ClientSession
from broker.refusals import Refusal
from protocol.fetch import LAST_OF_SESSION, NEW_SESSION, NO_SESSION, FetchRequest
from protocol.topics import MAX_NAME_LENGTH

MOST_PARTITIONS: Final = 100_000
"""Of all sessions, about 0.7 KB each. Who comes when they are taken has no session, and names all
that it wants each time, as in Kafka when max.incremental.fetch.session.cache.slots are taken."""

MOST_OF_A_CONNECTION: Final = 8


class FetchSessions:
    """All sessions, by the connection that they belong to.

    Attributes:
        partition_count: how many partitions they have.
    """

    def __init__(self) -> None:
        self.partition_count = 0
        self._of: dict[ClientSession, dict[int, FetchSession]] = {}

    def take(
        self, client: ClientSession, fetch: FetchRequest, *, by_topic_id: bool
    ) -> FetchSession | None:
        """Return the session that a Fetch is of, changed by it; None if there is none.

        Raises:
            Refusal: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or
                FETCH_SESSION_TOPIC_ID_ERROR; clients then begin another one.
        """
        if fetch.session_epoch in (NEW_SESSION, LAST_OF_SESSION):
            self.close(client, fetch.session_id)
            if fetch.session_epoch == LAST_OF_SESSION:
                return None
            return self._open(client, fetch, by_topic_id=by_topic_id)
        session = self._of.get(client, {}).get(fetch.session_id)
        if session is None:
            raise Refusal(ErrorCode.fetch_session_id_not_found)
        if session.epoch != fetch.session_epoch:
            raise Refusal(ErrorCode.invalid_fetch_session_epoch)
        if session.by_topic_id != by_topic_id:
            raise Refusal(ErrorCode.fetch_session_topic_id_error)
        session.proceed()
        self._change(session, fetch)
        if self.partition_count > MOST_PARTITIONS or _has_long_name(fetch):
            self.close(client, session.session_id)
            raise Refusal(ErrorCode.fetch_session_id_not_found)
        if not len(session):
            self.close(client, session.session_id)
            return None
        return session

    def close(self, client: ClientSession, session_id: int) -> None:
        """End a session, if the client has it."""
        sessions = self._of.get(client, {})
        session = sessions.pop(session_id, None)
        if session is None:
            return
        self.partition_count -= len(session)
        session.close()
        if not sessions:
            del self._of[client]

    def _open(
        self, client: ClientSession, fetch: FetchRequest, *, by_topic_id: bool
    ) -> FetchSession | None:
        named = sum(len(topic.partitions) for topic in fetch.topics)
        is_full = self.partition_count + named > MOST_PARTITIONS
        if is_full or _has_long_name(fetch) or client.ended:
            return None
        sessions = self._of.setdefault(client, {})
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in sessions:
            session_id = secrets.randbits(31)
        session = sessions[session_id] = FetchSession(session_id, by_topic_id=by_topic_id)
        self._change(session, fetch)
        if len(sessions) > MOST_OF_A_CONNECTION:
            self.close(client, next(iter(sessions)))
        client.at_end(self._ended)
        return session

    def _change(self, session: FetchSession, fetch: FetchRequest) -> None:
        before = len(session)
        session.change(fetch)
        self.partition_count += len(session) - before

    def _ended(self, client: ClientSession) -> None:
        for session_id in list(self._of.get(client, {})):
            self.close(client, session_id)


def _has_long_name(fetch: FetchRequest) -> bool:
    """Tell whether it names what no topic is called: what a session keeps is to be small."""
    return any(len(topic.name) > MAX_NAME_LENGTH for topic in fetch.topics)
