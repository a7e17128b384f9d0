"""Brokers with TLS listeners, and what their clients need to speak to them."""

import os
import ssl
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from tests.support.broker import BrokerProcess, start_broker
from tests.support.certificates import Authority, make_authority
from tests.support.ports import free_port

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


def metric(broker: BrokerProcess, name: str, **labels: str) -> float:
    """Return the sum of a metric's samples that have these labels."""
    with urllib.request.urlopen(f"http://{broker.http}/metrics") as answer:
        text = answer.read().decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsBroker:
    """A broker, and who has signed its certificate.

    Attributes:
        addresses: HOST:PORT of its listeners, by protocol.
        home: keystore.pem and truststore.pem are there.
    """

    broker: BrokerProcess
    addresses: dict[str, str]
    home: Path
    authority: Authority

    @property
    def keystore(self) -> Path:
        return self.home / "keystore.pem"

    @property
    def truststore(self) -> Path:
        return self.home / "truststore.pem"

    def context(self, certificate: Path | None = None) -> ssl.SSLContext:
        """Return what a client connects with that trusts the broker; `certificate` is its own."""
        context = ssl.create_default_context(cadata=self.authority.certificate_pem().decode())
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context

    def certificate(self, subject: str) -> Path:
        """Return the file of a client's key and certificate, signed by the same authority."""
        file = self.home / f"{abs(hash(subject))}.pem"
        return self.authority.issue(subject, names=()).write_keystore(file)

    def connections(self) -> int:
        return int(metric(self.broker, "streamhouse_connections"))

    def log_lines(self, event: str) -> list[str]:
        return [line for line in self.broker.log.read_text().splitlines() if event in line]


@contextmanager
def running_tls_broker(
    home: Path,
    *protocols: str,
    settings: Mapping[str, str] = NOTHING,
    secrets: Mapping[str, str] = NOTHING,
) -> Iterator[TlsBroker]:
    """Run a broker with a listener of each of these protocols for the length of a block.

    Args:
        settings: by Kafka's names, beside those of its certificate.
        secrets: by the names of STREAMHOUSE_SECRETS__ variables.
    """
    authority = make_authority()
    authority.issue().write_keystore(
        home / "keystore.pem", password=secrets.get("KEY_PASSWORD", "")
    )
    authority.write_truststore(home / "truststore.pem")
    given = {
        "ssl.keystore.location": str(home / "keystore.pem"),
        "ssl.truststore.location": str(home / "truststore.pem"),
        **settings,
    }
    addresses = {protocol: f"127.0.0.1:{free_port()}" for protocol in protocols}
    first, *others = (f"{protocol}://{address}" for protocol, address in addresses.items())
    arguments = [part for one in others for part in ("--listen", one)]
    for name, value in given.items():
        arguments += ["--set", f"{name}={value}"]
    hidden = {f"STREAMHOUSE_SECRETS__{name}": value for name, value in secrets.items()}
    environment = {**os.environ, **hidden}
    broker = start_broker(home / "broker", *arguments, listen=first, environment=environment)
    try:
        yield TlsBroker(broker=broker, addresses=addresses, home=home, authority=authority)
    finally:
        broker.stop()
