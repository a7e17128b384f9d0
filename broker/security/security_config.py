"""The broker's configs of TLS, SASL and ACLs, typed. None can be set while the broker runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from storage.configs.config_types import ConfigValue, integer, strings


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """By Kafka's names.

    Attributes:
        authorizer: whether authorizer.class.name is set: ACLs decide.
        super_users: principals such as User:admin that may do everything.
        failed_authentication_delay_ms: connection.failed.authentication.delay.ms.
        max_reauth_ms: connections.max.reauth.ms; 0 is no limit.
        jwks_url: sasl.oauthbearer.jwks.endpoint.url; empty if tokens cannot be checked.
        scope_claim, subject_claim: names of claims of a token.
        keystore, truststore: PEM files; empty if there are none.
        client_auth: ssl.client.auth: none, requested or required.
        principal_mapping_rules: ssl.principal.mapping.rules.
        max_receive_bytes: sasl.server.max.receive.size: of a request before authentication.
    """

    authorizer: bool
    allow_everyone_if_no_acl: bool
    super_users: frozenset[str]
    failed_authentication_delay_ms: int
    max_reauth_ms: int
    mechanisms: tuple[str, ...]
    max_receive_bytes: int
    jwks_url: str
    jwks_refresh_ms: int
    clock_skew_seconds: int
    expected_audience: tuple[str, ...]
    expected_issuer: str
    scope_claim: str
    subject_claim: str
    keystore: str
    truststore: str
    client_auth: str
    tls_versions: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    principal_mapping_rules: str


def security_config(values: Mapping[str, ConfigValue | None]) -> SecurityConfig:
    """Return the part of the values of all broker configs that is about security."""

    def text(name: str) -> str:
        return str(values[name] or "")

    return SecurityConfig(
        authorizer=bool(values["authorizer.class.name"]),
        allow_everyone_if_no_acl=values["allow.everyone.if.no.acl.found"] is True,
        super_users=frozenset(principals(text("super.users"))),
        failed_authentication_delay_ms=integer(values, "connection.failed.authentication.delay.ms"),
        max_reauth_ms=integer(values, "connections.max.reauth.ms"),
        mechanisms=strings(values, "sasl.enabled.mechanisms"),
        max_receive_bytes=integer(values, "sasl.server.max.receive.size"),
        jwks_url=text("sasl.oauthbearer.jwks.endpoint.url"),
        jwks_refresh_ms=integer(values, "sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        clock_skew_seconds=integer(values, "sasl.oauthbearer.clock.skew.seconds"),
        expected_audience=strings(values, "sasl.oauthbearer.expected.audience"),
        expected_issuer=text("sasl.oauthbearer.expected.issuer"),
        scope_claim=text("sasl.oauthbearer.scope.claim.name"),
        subject_claim=text("sasl.oauthbearer.sub.claim.name"),
        keystore=text("ssl.keystore.location"),
        truststore=text("ssl.truststore.location"),
        client_auth=text("ssl.client.auth"),
        tls_versions=strings(values, "ssl.enabled.protocols"),
        cipher_suites=strings(values, "ssl.cipher.suites"),
        principal_mapping_rules=text("ssl.principal.mapping.rules"),
    )


def principals(text: str) -> list[str]:
    """Return the principals of super.users, which semicolons separate: a DN has commas."""
    return [part.strip() for part in text.split(";") if part.strip()]
