"""What of the settings of SASL cannot work together."""

from collections.abc import Iterable

from broker.network.listeners import SecurityProtocol
from broker.secrets_config import Secrets
from broker.security.security_config import SecurityConfig


def sasl_problems(
    config: SecurityConfig, secrets: Secrets, protocols: Iterable[SecurityProtocol]
) -> list[str]:
    """Return why a broker cannot be started with listeners of these protocols."""
    if not any(protocol.uses_sasl for protocol in protocols):
        return []
    problems = []
    if not config.mechanisms:
        problems.append("set sasl.enabled.mechanisms: a SASL listener needs one")
    if "OAUTHBEARER" in config.mechanisms and not config.jwks_url:
        problems.append(
            "set sasl.oauthbearer.jwks.endpoint.url: OAUTHBEARER needs keys to check tokens with"
        )
    if bool(secrets.bootstrap_user) != bool(secrets.bootstrap_password):
        problems.append("secrets: bootstrap_user and bootstrap_password go together")
    return problems
