"""Certificates for tests: an authority that lives for one test run, and what it signs.

Keys are of the curve P-256: quick to make, and every client takes them. Files are PEM and replaced
whole, so that a broker that reads them again never sees one that is half written.
"""

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
DAY: Final = timedelta(days=1)
_PURPOSES: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A certificate, its private key, and the certificates that lead to its authority.

    Attributes:
        chain: between this one and the authority, which is not among them; mostly empty.
    """

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    chain: tuple[x509.Certificate, ...] = ()

    @property
    def subject(self) -> str:
        """The distinguished name by RFC 4514, most specific part first, as Java shows it."""
        return self.certificate.subject.rfc4514_string()

    def key_pem(self, password: str = "") -> bytes:
        """Return the private key as PKCS #8; with a password it is encrypted by it."""
        hidden: KeySerializationEncryption = NoEncryption()
        if password:
            hidden = BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden)

    def certificate_pem(self) -> bytes:
        """Return the certificate and the chain behind it."""
        return b"".join(part.public_bytes(Encoding.PEM) for part in (self.certificate, *self.chain))

    def write_keystore(self, file: Path, *, password: str = "") -> Path:
        """Write the key and then the chain into one file: a PEM keystore (KIP-651)."""
        return write_file(file, self.key_pem(password) + self.certificate_pem())

    def write_key(self, file: Path, *, password: str = "") -> Path:
        return write_file(file, self.key_pem(password))

    def write_certificate(self, file: Path) -> Path:
        return write_file(file, self.certificate_pem())


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """Signs certificates. Two of them do not trust each other, even under the same name."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    chain: tuple[x509.Certificate, ...] = ()

    def issue(
        self,
        subject: str = "CN=localhost",
        *,
        names: Sequence[str] = LOOPBACK,
        not_before: datetime | None = None,
        not_after: datetime | None = None,
        key: ec.EllipticCurvePrivateKey | None = None,
    ) -> Certificate:
        """Sign a certificate that servers and clients can use.

        Args:
            subject: a distinguished name by RFC 4514: CN=alice,OU=Sales\\, EU,O=Example; empty
                for a certificate that names its subject by `names` only.
            names: of hosts and addresses, for the extension subjectAltName; none if empty.
            not_before: a day ago unless given.
            not_after: in a day unless given.
            key: a new one unless given.
        """
        own_key = key or ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(x509.Name.from_rfc4514_string(subject), own_key, not_before, not_after)
            .issuer_name(self.certificate.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(_PURPOSES), critical=False)
            .add_extension(_authority_key(self.key), critical=False)
        )
        if names:
            alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
            builder = builder.add_extension(alternatives, critical=not subject)
        signed = builder.sign(self.key, hashes.SHA256())
        return Certificate(certificate=signed, key=own_key, chain=self.chain)

    def expired(self, subject: str = "CN=localhost") -> Certificate:
        """Sign one that was good until a day ago."""
        now = datetime.now(UTC)
        return self.issue(subject, not_before=now - 2 * DAY, not_after=now - DAY)

    def not_yet_valid(self, subject: str = "CN=localhost") -> Certificate:
        """Sign one that will be good in a day."""
        now = datetime.now(UTC)
        return self.issue(subject, not_before=now + DAY, not_after=now + 2 * DAY)

    def intermediate(self, name: str) -> "Authority":
        """Return an authority below this one; who trusts this one trusts what that one signs."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _authority_builder(name, key).issuer_name(self.certificate.subject)
        builder = builder.add_extension(_authority_key(self.key), critical=False)
        signed = builder.sign(self.key, hashes.SHA256())
        return Authority(certificate=signed, key=key, chain=(signed, *self.chain))

    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def write_truststore(self, file: Path) -> Path:
        """Write the certificate that clients and servers are to trust (KIP-651)."""
        return write_file(file, self.certificate_pem())


def make_authority(name: str = "Test Authority") -> Authority:
    """Return a new authority that nobody trusts yet."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _authority_builder(name, key)
    own_name = x509.Name.from_rfc4514_string(f"CN={name}")
    return Authority(certificate=builder.issuer_name(own_name).sign(key, hashes.SHA256()), key=key)


def write_file(file: Path, content: bytes) -> Path:
    """Put a file in place whole, readable by nobody else; return its path."""
    unfinished = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(content)
    return unfinished.replace(file)


def _builder(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    not_before: datetime | None = None,
    not_after: datetime | None = None,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before or now - DAY)
        .not_valid_after(not_after or now + DAY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _authority_builder(name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    now = datetime.now(UTC)  # older than what it signs, and good for longer
    subject = x509.Name.from_rfc4514_string(f"CN={name}")
    return (
        _builder(subject, key, now - 30 * DAY, now + 30 * DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )


def _authority_key(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _general_name(name: str) -> x509.GeneralName:
    try:
        address: IPv4Address | IPv6Address = ip_address(name)
    except ValueError:
        return x509.DNSName(name)
    return x509.IPAddress(address)
