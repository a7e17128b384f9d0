"""How a client says who it is: one description, in the words of each stock client."""

import ssl
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from aiokafka.abc import AbstractTokenProvider

SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORDS: Final = ("PLAIN", *SCRAM)
MECHANISMS: Final = (*PASSWORDS, "OAUTHBEARER")
SASL_PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")
_MODULES: Final = {
    "PLAIN": "plain.PlainLoginModule",
    "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule",
    **dict.fromkeys(SCRAM, "scram.ScramLoginModule"),
}
_TOKEN_FROM_URL: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Who a client is, and whom it trusts.

    Attributes:
        bootstrap: HOST:PORT of a listener of that protocol.
        mechanism: of SASL; empty without.
        token: for OAUTHBEARER, in place of user and password.
        trust: the authority of the broker's certificate, a file; needed with TLS.
        keystore: the client's certificate with its key, a file; None for none.
        key_password: of that key.
    """

    bootstrap: str
    protocol: str
    mechanism: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    trust: Path
    keystore: Path | None = None
    key_password: str = field(default="", repr=False)

    @property
    def tls(self) -> bool:
        return self.protocol.endswith("SSL")

    def but(self, **changes: Any) -> "Login":
        """Return this one, changed."""
        return replace(self, **changes)

    def librdkafka(self) -> dict[str, Any]:
        """Return it as properties of librdkafka; a token is none, see `confluent`."""
        properties = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.protocol,
            "broker.address.family": "v4",
            "log_level": 0,
        }
        if self.tls:
            properties["ssl.ca.location"] = str(self.trust)
            if self.keystore is not None:
                properties["ssl.certificate.location"] = str(self.keystore)
                properties["ssl.key.location"] = str(self.keystore)
            if self.key_password:
                properties["ssl.key.password"] = self.key_password
        if self.mechanism:
            properties["sasl.mechanism"] = self.mechanism
        if self.mechanism in PASSWORDS:
            properties |= {"sasl.username": self.user, "sasl.password": self.password}
        return properties

    def confluent(self) -> dict[str, Any]:
        """Return it as confluent-kafka is configured."""
        if self.mechanism != "OAUTHBEARER":
            return self.librdkafka()
        # confluent-kafka has the token's end as seconds since 1970
        return {**self.librdkafka(), "oauth_cb": lambda _: (self.token, _FAR_AWAY_S)}

    def aiokafka(self) -> dict[str, Any]:
        """Return it as arguments of aiokafka's clients."""
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": self.protocol,
        }
        if self.tls:
            context = ssl.create_default_context(cafile=str(self.trust))
            if self.keystore is not None:
                context.load_cert_chain(self.keystore, password=self.key_password or None)
            arguments["ssl_context"] = context
        if self.mechanism:
            arguments["sasl_mechanism"] = self.mechanism
        if self.mechanism in PASSWORDS:
            arguments |= {"sasl_plain_username": self.user, "sasl_plain_password": self.password}
        if self.mechanism == "OAUTHBEARER":
            arguments["sasl_oauth_token_provider"] = _Token(self.token)
        return arguments

    def java(self, directory: Path) -> dict[str, str]:
        """Return it as properties of the Java clients; a token is put in a file there."""
        properties = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.tls:
            properties["ssl.truststore.type"] = "PEM"
            properties["ssl.truststore.location"] = str(self.trust)
            if self.keystore is not None:
                properties["ssl.keystore.type"] = "PEM"
                properties["ssl.keystore.location"] = str(self.keystore)
            if self.key_password:
                properties["ssl.key.password"] = self.key_password
        if self.mechanism:
            module = f"org.apache.kafka.common.security.{_MODULES[self.mechanism]} required"
            properties["sasl.mechanism"] = self.mechanism
            properties["sasl.jaas.config"] = f"{module}{self._jaas_options()};"
        if self.mechanism == "OAUTHBEARER":
            file = directory / "token.jwt"
            file.write_text(self.token)
            properties["sasl.oauthbearer.token.endpoint.url"] = file.as_uri()
            properties["sasl.login.callback.handler.class"] = _TOKEN_FROM_URL
        return properties

    def java_file(self, directory: Path) -> Path:
        """Write it as a properties file for --command-config, and return that."""
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / "client.properties"
        lines = [f"{name}={value}\n" for name, value in self.java(directory).items()]
        file.write_text("".join(lines).replace("\\", "\\\\"))
        return file

    def _jaas_options(self) -> str:
        if self.mechanism not in PASSWORDS:
            return ""
        return f' username="{self.user}" password="{self.password}"'


_FAR_AWAY_S: Final = 4_000_000_000.0


class _Token(AbstractTokenProvider):  # type: ignore[misc] # (it has no types)
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token
