"""The audit log: operations that ACLs denied, and administrative changes that were done.

Its lines have logger=audit, whatever writes the others, and their level is set by that name
(KIP-412). Of a denial that repeats there is a line at once, and then one every ten seconds that
tells how often; when more different ones come than are kept apart, one line counts the rest.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

from broker.configs.log_levels import AUDIT
from broker.network.client_session import ClientSession
from protocol.acl import USER_TYPE, Operation, ResourceType

REPEATED_S: Final = 10.0
MAX_DENIALS: Final = 500
"""How many different ones are kept apart: 50 lines a second at the most."""

_SHOWN: Final = 256
"""Characters of a text that a client has chosen."""

Scheduler = Callable[[float, Callable[[], None]], asyncio.TimerHandle]
"""Calls something, once, so many seconds from now."""

_Denial = tuple[str, str, Operation, ResourceType, str]
"""Principal, host, operation, type and name of the resource."""


@dataclass(slots=True)
class _Noted:
    """A denial that has been logged.

    Attributes:
        api, client_id: of the last request that met it.
        repeated: since its last line.
        logged_s: when that was.
    """

    api: str
    client_id: str
    repeated: int
    logged_s: float


class Audit:
    """Writes the audit log of one broker."""

    def __init__(
        self, registry: CollectorRegistry, clock: Callable[[], float], call_later: Scheduler
    ) -> None:
        self._log = structlog.get_logger().bind(logger=AUDIT)
        self._clock = clock
        self._call_later = call_later
        self._denials: dict[_Denial, _Noted] = {}
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
        noted = self._denials.get(denial)
        if noted is not None:
            noted.api, noted.client_id = api, client_id
            noted.repeated += 1
            return
        if len(self._denials) >= MAX_DENIALS:
            self._others += 1
            return
        noted = self._denials[denial] = _Noted(api, client_id, 1, 0.0)
        self._write(denial, noted)
        if self._timer is None:
            self._timer = self._call_later(REPEATED_S, self._turn)

    def changed(
        self,
        session: ClientSession,
        what: str,
        *,
        api: str,
        client_id: str,
        outcome: str,
        **details: object,
    ) -> None:
        """Write of an administrative change.

        Args:
            session: of who did it.
            what: such as "topic created".
            api: the API's name.
            client_id: as the client says.
            outcome: done, or the name of an error code after which it may have been done or not.
            details: what it is about; strings are cut and escaped. No secret.
        """
        about = {
            key: shown(value) if isinstance(value, str) else value for key, value in details.items()
        }
        self._log.info(
            what,
            **about,
            outcome=outcome,
            api=api,
            principal=_principal(session.principal),
            host=session.host,
            client_id=shown(client_id),
        )

    def close(self) -> None:
        """Write what has not been told yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for denial, noted in self._denials.items():
            if noted.repeated:
                self._write(denial, noted)
        self._denials.clear()
        self._write_others()

    def _turn(self) -> None:
        """Tell of the denials that came again, and forget the others, ten seconds after each."""
        self._write_others()
        now_s = self._clock()
        for denial, noted in list(self._denials.items()):
            if now_s - noted.logged_s < REPEATED_S:
                continue
            if noted.repeated:
                self._write(denial, noted)
            else:
                del self._denials[denial]
        self._timer = self._call_later(REPEATED_S, self._turn) if self._denials else None

    def _write(self, denial: _Denial, noted: _Noted) -> None:
        user, host, operation, resource_type, name = denial
        self._log.warning(
            "operation denied",
            operation=operation.name,
            resource=resource_type.name,
            name=name,
            count=noted.repeated,
            api=noted.api,
            principal=_principal(user),
            host=host,
            client_id=shown(noted.client_id),
        )
        noted.repeated, noted.logged_s = 0, self._clock()

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


def _principal(user: str) -> str:
    return shown(f"{USER_TYPE}:{user}")
