"""Makes what lets clients in on listeners with SASL."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import structlog
from prometheus_client import CollectorRegistry

from broker.configs.entity_configs import EntityConfigs
from broker.network.listeners import SecurityProtocol
from broker.network.refused_connections import RefusalLog
from broker.secrets_config import Secrets
from broker.security.authentication import Authentication
from broker.security.sasl_credentials import Credentials
from broker.security.sasl_exchanges import exchange_maker
from broker.security.sasl_passwords import Passwords
from broker.security.sasl_report import SaslReport
from broker.security.security_config import SecurityConfig

if TYPE_CHECKING:
    from broker.security.oauth_setup import Tokens

log = structlog.get_logger()


class Sasl:
    """The parts that let clients in, and what has to be done for them.

    Attributes:
        authentication: for the listeners.
    """

    def __init__(
        self,
        config: SecurityConfig,
        entity_configs: EntityConfigs,
        registry: CollectorRegistry,
        refusals: RefusalLog,
        *,
        clock: Callable[[], float],
        now_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._credentials = Credentials(entity_configs)
        self._passwords = Passwords(self._credentials)
        self._tokens = _tokens(config, clock, now_ms)
        self.authentication = Authentication(
            config,
            begin=exchange_maker(
                *(self._credentials, self._passwords),
                self._tokens.check if self._tokens else None,
            ),
            report=SaslReport(registry, refusals),
            clock=clock,
            now_ms=now_ms,
        )

    async def start(self, secrets: Secrets, protocols: Iterable[SecurityProtocol]) -> None:
        """Make the first user if there is one to make, and read keys; warn of what is unwise.

        Raises:
            MetadataUnavailable: no answer.
        """
        mechanisms = self._config.mechanisms
        _warn(self._config, protocols)
        await self._credentials.prepare()
        if secrets.bootstrap_user and await self._credentials.add_user(
            secrets.bootstrap_user, secrets.bootstrap_password
        ):
            log.info(
                "first user made; as long as its settings are there, it comes back when it is gone",
                user=secrets.bootstrap_user,
            )
        if mechanisms != ("OAUTHBEARER",) and not self._credentials.has_users():
            log.warning(
                "nobody can log in: there are no users. Start with STREAMHOUSE_SECRETS__BOOTSTRAP_"
                "USER and STREAMHOUSE_SECRETS__BOOTSTRAP_PASSWORD, or use `streamctl user"
                " set-password` on a listener without SASL"
            )
        if self._tokens is not None:
            await self._tokens.start()

    async def run(self) -> None:
        """Keep the keys of tokens fresh until cancelled, if there are any."""
        if self._tokens is not None:
            await self._tokens.run()

    async def close(self) -> None:
        self._passwords.close()
        if self._tokens is not None:
            await self._tokens.close()


def _warn(config: SecurityConfig, protocols: Iterable[SecurityProtocol]) -> None:
    """Tell of settings that let secrets be read, or more people in than are meant."""
    in_the_clear = SecurityProtocol.SASL_PLAINTEXT in protocols
    if in_the_clear and "PLAIN" in config.mechanisms:
        log.warning(
            "PLAIN is enabled on a SASL_PLAINTEXT listener: passwords cross the network as they"
            " are. Use SASL_SSL, or SCRAM"
        )
    if in_the_clear and "OAUTHBEARER" in config.mechanisms:
        log.warning(
            "OAUTHBEARER is enabled on a SASL_PLAINTEXT listener: tokens cross the network as they"
            " are, and whoever reads one can use it. Use SASL_SSL"
        )
    if "OAUTHBEARER" in config.mechanisms and not config.expected_audience:
        log.warning(
            "sasl.oauthbearer.expected.audience is not set: tokens that were given for any other"
            " service let their users in here"
        )


def make_sasl(
    config: SecurityConfig,
    protocols: Iterable[SecurityProtocol],
    entity_configs: EntityConfigs,
    registry: CollectorRegistry,
    refusals: RefusalLog,
    *,
    clock: Callable[[], float],
    now_ms: Callable[[], int],
) -> Sasl | None:
    """Return it if any listener speaks SASL."""
    if not any(protocol.uses_sasl for protocol in protocols):
        return None
    return Sasl(config, entity_configs, registry, refusals, clock=clock, now_ms=now_ms)


def _tokens(
    config: SecurityConfig, clock: Callable[[], float], now_ms: Callable[[], int]
) -> "Tokens | None":
    """Return what checks tokens, if they are enabled: else its libraries need not be loaded."""
    if "OAUTHBEARER" not in config.mechanisms:
        return None
    from broker.security.oauth_setup import Tokens  # noqa: PLC0415 (0.1 s of a start)

    return Tokens(config, clock=clock, now_ms=now_ms)
