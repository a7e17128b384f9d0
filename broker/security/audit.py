"""The audit log: operations that ACLs denied, and administrative changes that were done.

Its lines have logger=audit, whatever writes the others, and no level that is set hides them: who
may set levels could hide what else he does. Of a denial that repeats there is a line at once, and
then one every ten seconds that tells how often; when more different ones come than are kept apart,
one line counts the rest. So it is, once an hour, with records that are deleted: Kafka Streams does
that every 30 seconds in each of its repartition topics.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

from broker.configs.log_levels import AUDIT
from broker.network.client_session import ClientSession
from broker.security.audit_repeats import Repeats
from protocol.acl import USER_TYPE, Operation, ResourceType

REPEATED_S: Final = 10.0
MAX_DENIALS: Final = 500
"""How many different ones are kept apart: 50 lines a second at the most."""

CHANGED_AGAIN_S: Final = 3600.0
MAX_CHANGES: Final = 500
"""How many different ones are kept apart; others have a line each time."""

_SHOWN: Final = 256
"""Characters of a text that a client has chosen."""

Scheduler = Callable[[float, Callable[[], None]], asyncio.TimerHandle]
"""Calls something, once, so many seconds from now."""

_Denial = tuple[str, str, Operation, ResourceType, str]
"""Principal, host, operation, type and name of the resource."""


_Change = tuple[str, str, object]
"""Principal, what was done, and the name of what it was done to."""

_About = dict[str, object]
"""What a line tells about a request."""


class Audit:
    """Writes the audit log of one broker."""

    def __init__(
        self, registry: CollectorRegistry, clock: Callable[[], float], call_later: Scheduler
    ) -> None:
        self._log = structlog.get_logger().bind(logger=AUDIT)
        self._call_later = call_later
        self._denials = Repeats[_Denial, _About](
            every_s=REPEATED_S, most=MAX_DENIALS, write=self._write_denial, clock=clock
        )
        self._changes = Repeats[_Change, _About](
            every_s=CHANGED_AGAIN_S, most=MAX_CHANGES, write=self._write_change, clock=clock
        )
        self._others = 0
        self._timer: asyncio.TimerHandle | None = None
        self._denied = Counter(
            "streamhouse_denied_operations",
            "Operations that ACLs did not let a client do.",
            ("operation", "resource"),
            registry=registry,
        )

    def denied(
        self,
        session: ClientSession,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        api: str,
        client_id: str,
    ) -> None:
        """Take note of an operation that a client may not do."""
        self._denied.labels(operation.name, resource_type.name).inc()
        denial = (session.principal, session.host, operation, resource_type, shown(name))
        if not self._denials.note(denial, {"api": api, "client_id": shown(client_id)}):
            self._others += 1
        self._wait()

    def changed(
        self,
        session: ClientSession,
        what: str,
        *,
        api: str,
        client_id: str,
        outcome: str,
        repeats: bool = False,
        **details: object,
    ) -> None:
        """Write of an administrative change.

        Args:
            session: of who did it.
            what: such as "topic created".
            api: the API's name.
            client_id: as the client says.
            outcome: done, or the name of an error code after which it may have been done or not.
            repeats: whether a line once an hour, with a count, is enough of such changes.
            details: what it is about; strings, of lists too, are cut and escaped. No secret.
        """
        about = {key: _shown_detail(value) for key, value in details.items()}
        about |= {"outcome": outcome, "api": api}
        sender = {"host": session.host, "client_id": shown(client_id)}
        change = session.principal, what, about.get("name")
        if not repeats:
            self._write_change(change, about | sender)
        elif self._changes.note(change, about | sender):
            self._wait()
        else:
            self._write_change(change, about | sender, 1)

    def close(self) -> None:
        """Write what has not been told yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._denials.close()
        self._changes.close()
        self._write_others()

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self._call_later(REPEATED_S, self._turn)

    def _turn(self) -> None:
        """Tell of what came again."""
        self._timer = None
        self._write_others()
        self._denials.tell()
        self._changes.tell()
        if self._denials or self._changes:
            self._wait()

    def _write_denial(self, denial: _Denial, about: _About, count: int) -> None:
        user, host, operation, resource_type, name = denial
        self._log.warning(
            "operation denied",
            operation=operation.name,
            resource=resource_type.name,
            name=name,
            count=count,
            principal=_principal(user),
            host=host,
            **about,
        )

    def _write_change(self, change: _Change, about: _About, count: int | None = None) -> None:
        user, what, _ = change
        counted = {} if count is None else {"count": count}
        self._log.info(what, **about, **counted, principal=_principal(user))

    def _write_others(self) -> None:
        if self._others:
            self._log.warning("other operations denied", count=self._others)
            self._others = 0


def shown(text: str) -> str:
    """Return a text as a line of a log may hold it: cut, and without what is not to be printed."""
    cut = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
    if cut.isprintable():
        return cut
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut
    )


def _shown_detail(value: object) -> object:
    if isinstance(value, list):
        return [_shown_detail(each) for each in value]
    return shown(value) if isinstance(value, str) else value


def _principal(user: str) -> str:
    return shown(f"{USER_TYPE}:{user}")
