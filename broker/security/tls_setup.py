"""Makes the TLS of a broker whose listeners use it."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Gauge

from broker.network.listeners import SecurityProtocol
from broker.secrets_config import Secrets
from broker.security.security_config import SecurityConfig
from broker.security.tls import Tls


def make_tls(
    config: SecurityConfig,
    secrets: Secrets,
    protocols: Sequence[SecurityProtocol],
    registry: CollectorRegistry,
) -> Tls | None:
    """Return it, or None if no listener uses TLS.

    Raises:
        TlsProblems: certificates or keys cannot be used.
    """
    if not any(protocol.uses_tls for protocol in protocols):
        return None
    tls = Tls(config, secrets.key_password)
    Gauge(
        "streamhouse_tls_certificate_expires_timestamp_seconds",
        "When the certificate of the listeners with TLS expires.",
        registry=registry,
    ).set_function(tls.expires_s)
    return tls
