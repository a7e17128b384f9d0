"""Wires who is let in to a broker, and what they may do."""

import asyncio
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry

from broker.configs.entity_configs import EntityConfigs
from broker.network.listeners import SecurityProtocol
from broker.network.refused_connections import RefusalLog
from broker.secrets_config import Secrets
from broker.security.audit import Audit
from broker.security.authentication import Authentication
from broker.security.authorizer import Authorizer
from broker.security.sasl_setup import make_sasl
from broker.security.security_config import SecurityConfig
from broker.security.tls_setup import make_tls


class Security:
    """The parts of one broker that are about that.

    Args:
        protocols: of the listeners.
        entity_configs: has users and ACLs; it is loaded afterwards.

    Attributes:
        tls: for the listeners with TLS; None if there are none.

    Raises:
        TlsProblems: certificates or keys cannot be used.
    """

    def __init__(
        self,
        config: SecurityConfig,
        secrets: Secrets,
        protocols: Sequence[SecurityProtocol],
        entity_configs: EntityConfigs,
        registry: CollectorRegistry,
        refusals: RefusalLog,
        *,
        clock: Callable[[], float],
        now_ms: Callable[[], int],
    ) -> None:
        self._secrets = secrets
        self._protocols = protocols
        self.authorizer = Authorizer(config, entity_configs)
        self.audit = Audit(registry, clock, asyncio.get_running_loop().call_later)
        self.tls = make_tls(config, secrets, protocols, registry)
        self._sasl = make_sasl(
            config, protocols, entity_configs, registry, refusals, clock=clock, now_ms=now_ms
        )

    def authentication(self, listener: int) -> Authentication | None:
        """Return what lets clients in on a listener; None if anybody may come."""
        if self._sasl is None or not self._protocols[listener].uses_sasl:
            return None
        return self._sasl.authentication

    async def start(self) -> None:
        """Make the first user, if there is one to make; warn of what is unwise.

        Raises:
            MetadataUnavailable: no answer.
        """
        self.authorizer.warn_of_lockout()
        if self._sasl is not None:
            await self._sasl.start(self._secrets, self._protocols)

    async def run(self) -> None:
        """Follow changes of certificates and keys, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if self.tls is not None:
                tasks.create_task(self.tls.follow())
            if self._sasl is not None:
                tasks.create_task(self._sasl.run())

    async def close(self) -> None:
        self.audit.close()
        if self._sasl is not None:
            await self._sasl.close()
